"""TensorBoard event files: ``tensorboard --logdir runs/tensorboard``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedprof.errors import MissingExtraError
from fedprof.simulation.logging.base import Logger, Numbers


class TensorBoard(Logger):
    """Writes to ``FOLDER/tensorboard/RUN``."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingExtraError("logging", "TensorBoard") from error
        super().__init__(folder / "tensorboard")
        self._make = SummaryWriter

    def open(self, name: str, settings: Mapping[str, Any]) -> None:
        """Begin a file; TensorBoard forgets what earlier files of the run said."""
        self._writer = self._make(str(self.folder / name), purge_step=0)
        self._writer.add_text("settings", f"```json\n{json.dumps(settings, indent=1)}\n```", 0)

    def write(self, round: int, numbers: Numbers) -> None:
        """One scalar a number."""
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, round)

    def close(self) -> None:
        """Flush and close."""
        self._writer.close()
