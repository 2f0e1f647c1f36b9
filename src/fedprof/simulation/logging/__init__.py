"""Logging a run elsewhere too: observers for TensorBoard, MLflow and Weights & Biases, each an optional extra."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from fedprof.errors import unknown
from fedprof.simulation.logging.base import Logger

_HOME = {
    "tensorboard": "fedprof.simulation.logging.tensorboard:TensorBoard",
    "mlflow": "fedprof.simulation.logging.mlflow:MLflow",
    "wandb": "fedprof.simulation.logging.wandb:WandB",
}
NAMES = tuple(_HOME)


def make(name: str, folder: Path) -> Logger:
    """Make a logger that writes under ``folder``."""
    if name not in _HOME:
        raise unknown("logger", name, NAMES)
    module, _, attribute = _HOME[name].partition(":")
    logger: Logger = getattr(import_module(module), attribute)(folder)
    return logger
