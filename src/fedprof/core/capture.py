"""Making a profile: run data through a model once and keep the moments of one layer's representations."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.utils.rnn import PackedSequence
from torch.utils.data import DataLoader, Dataset, IterableDataset

from fedprof.core.fusion import fused
from fedprof.core.profile import Moments, Profile
from fedprof.errors import DataError, LayerError

INPUT_KEYS = ("x", "inputs", "input", "image", "images", "img", "pixel_values", "features", "data", "input_ids")
"""Where a batch that is a mapping keeps the model's input: the first of these keys it has."""
Fuse = Callable[[Any], torch.Tensor]
_BATCH = 256


def profile(
    model: nn.Module,
    data: Iterable[Any] | torch.Tensor | NDArray[np.generic] | Dataset[Any],
    layer: str | None = None,
    *,
    fuse: Fuse | None = None,
    version: int = 0,
    device: torch.device | str | None = None,
) -> Profile:
    """Profile ``data`` at one layer of ``model``: mean and variance of each of its q representation elements.

    ``data`` is a loader or any iterable of batches (``x``, ``(x, ...)`` or a mapping with one of ``INPUT_KEYS``), a
    map-style dataset, or one tensor or array of inputs. ``layer`` is a name from ``model.named_modules()``;
    ``default_layer`` picks one when none is given. ``fused`` (in ``fedprof.core.fusion``) says what becomes of the
    layer's output; ``fuse``, a function of the raw output that returns ``(samples, q)``, replaces it. ``device`` is
    where batches are sent: by default, where the model is.

    One pass in evaluation mode without gradients, in O(q) memory. The model (mode of every submodule, parameters,
    buffers, hooks), PyTorch's random state and that of the loader's generator are left as they were.
    """
    return moments(model, data, layer, fuse=fuse, device=device).to_profile(version)


def moments(
    model: nn.Module,
    data: Iterable[Any] | torch.Tensor | NDArray[np.generic] | Dataset[Any],
    layer: str | None = None,
    *,
    fuse: Fuse | None = None,
    device: torch.device | str | None = None,
) -> Moments:
    """What ``profile`` rounds: the moments in float64. Those of parts of the data ``merge`` to those of the whole."""
    name = default_layer(model) if layer is None else layer
    target = device if device is not None else _device_of(model)
    recorder = _Recorder(name, fuse)
    with torch.no_grad(), _undisturbed(model), _same_randomness(data, torch.device(target)):
        hook = _find(model, name).register_forward_hook(recorder)
        try:
            for number, x in enumerate(_inputs(data, _dtype_of(model))):
                recorder.runs = 0
                model(x.to(target) if hasattr(x, "to") else x)
                recorder.check_ran(number)
        finally:
            hook.remove()
    return recorder.moments()


def default_layer(model: nn.Module) -> str:
    """Name the layer profiled when none is named.

    The first dense layer that is not the output layer (taken to be the last dense layer); without one, the last
    convolution, else the last recurrent layer, else the only dense layer.
    """
    dense = _names(model, nn.Linear)
    for candidates in (dense[:-1][:1], _names(model, _ConvNd)[-1:], _names(model, nn.RNNBase)[-1:], dense):
        if candidates:
            return candidates[0]
    raise LayerError(
        f"{type(model).__name__} has no dense, convolutional or recurrent layer: name the layer to profile"
    )


def _names(model: nn.Module, kind: type[nn.Module]) -> list[str]:
    attention = tuple(n + "." for n, m in model.named_modules() if isinstance(m, nn.MultiheadAttention))
    # Attention reads the weights of its inner layers without ever running those.
    return [n for n, m in model.named_modules() if isinstance(m, kind) and not n.startswith(attention)]


def _find(model: nn.Module, name: str) -> nn.Module:
    if not isinstance(name, str):
        raise LayerError(f"layer is {name!r}; it must be the name of a module, such as {default_layer(model)!r}")
    modules: dict[str, nn.Module] = dict(model.named_modules(remove_duplicate=False))
    if name in modules:
        return modules[name]
    known = [n for n in modules if n]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.3) or known[:5]
    raise LayerError(
        f"{type(model).__name__} has no layer {name!r}; did you mean {', '.join(map(repr, near)) or 'none'}?"
    )


class _Recorder:
    """The forward hook: fuses one layer's output at once, before a later in-place operation can change it."""

    def __init__(self, name: str, fuse: Fuse | None) -> None:
        self._name = name
        self._fuse = fuse
        self._moments: Moments | None = None
        self.runs = 0
        """How often the layer ran for the current batch."""

    def __call__(self, module: nn.Module, _inputs: object, output: object) -> None:
        self.runs += 1
        if self.runs > 1:
            raise LayerError(
                f"layer {self._name!r} ran twice for one batch, so which run to profile is unclear; "
                "name a layer that runs once, such as the module that contains both runs"
            )
        rows = self._rows(output, module).detach().cpu().double().numpy()
        if self._moments is None:
            self._moments = Moments(rows.shape[1])
        self._moments.update(rows)

    def _rows(self, output: object, module: nn.Module) -> torch.Tensor:
        try:
            rows = fused(output, module) if self._fuse is None else self._fuse(output)
        except LayerError as error:
            raise LayerError(f"layer {self._name!r} ({type(module).__name__}) cannot be profiled: {error}") from None
        if not (isinstance(rows, torch.Tensor) and rows.dim() == 2):
            got = f"shape {tuple(rows.shape)}" if isinstance(rows, torch.Tensor) else type(rows).__name__
            raise LayerError(f"fuse must turn the output of layer {self._name!r} into a (samples, q) tensor, not {got}")
        return rows

    def check_ran(self, batch: int) -> None:
        if not self.runs:
            raise LayerError(
                f"layer {self._name!r} exists but never ran for batch {batch}; name a layer the model uses"
            )

    def moments(self) -> Moments:
        if self._moments is None or not self._moments.count:
            raise LayerError(f"no samples to profile layer {self._name!r} with: the data gave no batch, or empty ones")
        return self._moments


def _inputs(data: Any, dtype: torch.dtype) -> Iterator[Any]:
    """Yield what to call the model with, batch after batch."""
    data = _fitting(data, dtype)
    if isinstance(data, torch.Tensor):
        yield from torch.split(data, _BATCH)
        return
    if isinstance(data, Dataset) and not isinstance(data, IterableDataset):
        data = DataLoader(data, batch_size=_BATCH)
    for batch in _batches(data):
        yield _fitting(_input_of(batch), dtype)


def _batches(data: Any) -> Iterator[Any]:
    try:
        return iter(data)
    except TypeError:
        kind = type(data).__name__
        raise DataError(f"cannot profile a {kind}; give a tensor, an array, a data set or batches") from None


def _input_of(batch: Any) -> Any:
    if isinstance(batch, Mapping):
        for key in INPUT_KEYS:
            if key in batch:
                return batch[key]
        raise DataError(f"a batch has the keys {sorted(map(str, batch))}, none of {', '.join(INPUT_KEYS)}")
    if isinstance(batch, tuple | list) and not isinstance(batch, PackedSequence):
        if not batch:
            raise DataError("a batch is an empty sequence; it should be x or (x, ...)")
        return batch[0]
    return batch


def _fitting(x: Any, dtype: torch.dtype) -> Any:
    """Arrays become tensors; real numbers get the model's precision; anything else stays as it is."""
    if isinstance(x, np.ndarray):
        x = torch.tensor(x)  # a copy: arrays may be read-only
    return x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x


def _dtype_of(model: nn.Module) -> torch.dtype:
    return next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.get_default_dtype())


def _device_of(model: nn.Module) -> torch.device:
    return next((p.device for p in (*model.parameters(), *model.buffers())), torch.device("cpu"))


@contextmanager
def _undisturbed(model: nn.Module) -> Iterator[None]:
    """Evaluation mode inside; afterwards the mode and the buffers of every submodule are what they were."""
    # Flags are set directly: a model may override train() with side effects.
    modes = [(m, m.training) for m in model.modules()]
    buffers = [(m, dict(m._buffers)) for m in model.modules()]
    values = [(b, b.clone()) for _, own in buffers for b in own.values() if b is not None]
    try:
        for module, _ in modes:
            module.training = False
        yield
    finally:
        for module, training in modes:
            module.training = training
        for buffer, before in values:
            if not torch.equal(buffer, before):
                buffer.copy_(before)
        for module, own in buffers:  # also those that were None, or not there
            module._buffers.clear()
            module._buffers.update(own)


@contextmanager
def _same_randomness(data: object, device: torch.device) -> Iterator[None]:
    """A shuffling loader draws from the global generator or its own; put both back."""
    batches = getattr(data, "batch_sampler", None)
    owners = (data, getattr(data, "sampler", None), batches, getattr(batches, "sampler", None))
    generators = [g for o in owners if isinstance(g := getattr(o, "generator", None), torch.Generator)]
    states = [g.get_state() for g in generators]
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        try:
            yield
        finally:
            for generator, state in zip(generators, states, strict=True):
                generator.set_state(state)
