"""Weights & Biases, offline: ``wandb sync runs/wandb/offline-run-*`` uploads what one chooses to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedprof.errors import MissingExtraError
from fedprof.simulation.logging.base import Logger, Numbers

PROJECT = "fedprof"


class WandB(Logger):
    """Writes to ``FOLDER/wandb``, one W&B run for every time that a run is started or gone on with."""

    def __init__(self, folder: Path) -> None:
        try:
            import wandb
        except ImportError as error:
            raise MissingExtraError("logging", "Weights & Biases") from error
        super().__init__(folder)
        self._wandb = wandb

    def open(self, name: str, settings: Mapping[str, Any]) -> None:
        """Begin an offline run; nothing leaves this machine."""
        self.folder.mkdir(parents=True, exist_ok=True)
        quiet = self._wandb.Settings(console="off", silent=True, x_disable_stats=True)
        self._run = self._wandb.init(
            mode="offline", dir=str(self.folder), project=PROJECT, name=name, config=dict(settings), settings=quiet
        )

    def write(self, round: int, numbers: Numbers) -> None:
        """One step a round."""
        self._run.log(dict(numbers), step=round)

    def close(self) -> None:
        """Complete the file."""
        self._run.finish()
