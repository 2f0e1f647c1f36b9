"""Models by name: ours, and anybody's by import path. Listing them imports no PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any

from fedprof.errors import SettingsError, unknown
from fedprof.randomness import stream

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class ModelSpec:
    """How to build one model, and which of its layers to profile unless told otherwise."""

    factory: str
    """``package.module:function``."""
    layer: str
    """The submodule profiled by default; empty leaves the choice to ``core.capture.default_layer``."""
    citation: str
    options: dict[str, Any] = field(default_factory=dict)
    """Arguments that make this model of its family."""
    scheme: str = "torch"
    """How the weights are initialised unless told otherwise."""


_LECUN = "LeCun et al. 1998"
_MA = "Ma et al. 2018"
_HE = "He et al. 2016"
_SHUFFLENET = "fedprof.models.shufflenet:shufflenet"
_RESNET = "fedprof.models.resnet:resnet18"
_SMALL_IMAGES = {"small_images": True}

MODELS: dict[str, ModelSpec] = {
    "mlp": ModelSpec("fedprof.models.mlp:mlp", "fc1", "Rumelhart et al. 1986"),
    "lenet5": ModelSpec("fedprof.models.lenet:lenet5", "fc1", _LECUN),
    "lenet-caffe": ModelSpec("fedprof.models.lenet:lenet_caffe", "fc1", f"{_LECUN}; Jia et al. 2014", scheme="xavier"),
    "cnn": ModelSpec("fedprof.models.cnn:cnn", "fc1", "McMahan et al. 2017"),
    "cnn-small": ModelSpec("fedprof.models.cnn:small_cnn", "fc1", "after McMahan et al. 2017"),
    "shufflenet-x0.5": ModelSpec(_SHUFFLENET, "conv5.0", _MA, {"width": 0.5}),
    "shufflenet-x1.0": ModelSpec(_SHUFFLENET, "conv5.0", _MA, {"width": 1.0}),
    "shufflenet-x0.5-cifar": ModelSpec(_SHUFFLENET, "conv5.0", _MA, {"width": 0.5, **_SMALL_IMAGES}),
    "shufflenet-x1.0-cifar": ModelSpec(_SHUFFLENET, "conv5.0", _MA, {"width": 1.0, **_SMALL_IMAGES}),
    "resnet18": ModelSpec(_RESNET, "layer4", _HE),
    "resnet18-cifar": ModelSpec(_RESNET, "layer4", _HE, _SMALL_IMAGES),
    "lstm": ModelSpec("fedprof.models.lstm:lstm", "lstm", "Hochreiter and Schmidhuber 1997"),
}


def spec(name: str) -> ModelSpec:
    """Look up a model by its name, or take ``package.module:factory`` as a user's own."""
    if name in MODELS:
        return MODELS[name]
    if ":" in name:
        return ModelSpec(name, "", "user's own")
    raise unknown("model", name, MODELS, "; your own: package.module:function")


def create(name: str, seed: int, *, scheme: str | None = None, **options: Any) -> nn.Module:
    """Build a model with its initial weights drawn from ``stream(seed, "model")``; options go to its factory."""
    from fedprof.models.initialise import build, construct, initialise

    chosen = spec(name)
    factory = partial(_called, name, _imported(chosen.factory), {**chosen.options, **options})
    if name not in MODELS:
        return build(factory, seed)
    try:
        model = construct(factory)
    except (RuntimeError, MemoryError) as error:  # PyTorch's word for too little memory is RuntimeError
        raise SettingsError(f"model {name!r} with {options} does not fit into memory") from error
    initialise(model, stream(seed, "model"), scheme or chosen.scheme)
    return model


def _imported(path: str) -> Callable[..., nn.Module]:
    module, _, attribute = path.partition(":")
    try:
        factory: Callable[..., nn.Module] = getattr(import_module(module), attribute)
    except Exception as error:  # whatever the user's own module does wrong
        raise SettingsError(f"cannot import the model {path!r}: {type(error).__name__}: {error}") from error
    return factory


def _called(name: str, factory: Callable[..., nn.Module], options: dict[str, Any]) -> nn.Module:
    from torch import nn

    if name in MODELS:
        known = signature(factory).parameters
        for option in options.keys() - known.keys():
            raise unknown("option", f"model.options.{option}", [f"model.options.{one}" for one in known])
    try:
        model = factory(**options)
    except Exception as error:  # whatever the user's own function does wrong
        raise SettingsError(
            f"model {name!r} cannot be built with {options}: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(model, nn.Module):
        raise SettingsError(f"{name!r} gave {type(model).__name__}, not a torch.nn.Module")
    return model
