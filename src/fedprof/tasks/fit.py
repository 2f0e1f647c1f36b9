"""Whether model, data and loss belong together: asked once, of two samples, before anything is trained."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from fedprof.errors import SettingsError
from fedprof.tasks.data import Prepared
from fedprof.tasks.settings import Settings

if TYPE_CHECKING:
    from torch import nn


def check_fit(settings: Settings, model: nn.Module, data: Prepared) -> None:
    """Refuse a loss that is not for these targets, and a model that is not for these inputs or targets."""
    name, loss = settings.model.name, settings.training.loss
    if loss in ("nll", "ce") and data.regression:
        raise SettingsError(f"training.loss = '{loss}': it is for classes, and the targets are numbers; use 'mse'")
    if loss == "mse" and not data.regression:
        raise SettingsError("training.loss = 'mse': it is for numbers, and the targets are classes; use 'ce' or 'nll'")
    inputs, targets = data.validation.standardised(slice(2)), data.validation.y[:2]
    given = _output_shape(name, model, inputs)
    if data.regression and given != targets.shape:
        raise SettingsError(f"model '{name}' gives {given[1:]} for a sample, where the targets are {targets.shape[1:]}")
    if not data.regression:
        _check_classes(name, given, classes=1 + int(max(data.clients.pool.y.max(), data.validation.y.max())))


def _output_shape(name: str, model: nn.Module, inputs: NDArray[np.float32]) -> tuple[int, ...]:
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        try:
            outputs = deepcopy(model).eval()(torch.from_numpy(inputs))
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise SettingsError(f"model '{name}' cannot take inputs of shape {inputs.shape[1:]}: {error}") from error
    if not isinstance(outputs, torch.Tensor):
        raise SettingsError(f"model '{name}' gives {type(outputs).__name__} where a tensor is needed")
    return tuple(outputs.shape)


def _check_classes(name: str, given: tuple[int, ...], classes: int) -> None:
    if len(given) != 2:
        raise SettingsError(f"model '{name}' gives {given[1:]} for a sample, where one number a class is needed")
    if given[1] < classes:
        raise SettingsError(f"model '{name}' knows {given[1]} classes, and the labels go up to {classes - 1}")
