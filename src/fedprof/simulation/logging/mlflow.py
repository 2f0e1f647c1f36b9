"""MLflow: a database beside the runs, or the server that ``MLFLOW_TRACKING_URI`` names."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedprof.errors import MissingExtraError
from fedprof.simulation.logging.base import Logger, Numbers, flat

EXPERIMENT = "fedprof"
BATCH, PAUSE_SECONDS = 500, 5.0
"""Metrics go in batches, for a request costs more than a round: when there are so many, or so much later."""


class MLflow(Logger):
    """Writes to ``FOLDER/mlflow.db``, one MLflow run for every time that a run is started or gone on with."""

    def __init__(self, folder: Path) -> None:
        try:
            from mlflow.entities import Metric, Param
            from mlflow.tracking import MlflowClient

            if "MLFLOW_TRACKING_URI" not in os.environ:
                import alembic  # noqa: F401 - what MLflow keeps a database with
                import sqlalchemy  # noqa: F401
        except ImportError as error:
            raise MissingExtraError("logging", "MLflow") from error
        super().__init__(folder)
        self._metric, self._param, self._make = Metric, Param, MlflowClient

    def open(self, name: str, settings: Mapping[str, Any]) -> None:
        """Begin an MLflow run with the settings as its parameters."""
        self.folder.mkdir(parents=True, exist_ok=True)
        uri = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{self.folder.resolve() / 'mlflow.db'}"
        self._client = self._make(tracking_uri=uri)
        found = self._client.get_experiment_by_name(EXPERIMENT)
        experiment = found.experiment_id if found else self._client.create_experiment(EXPERIMENT)
        self._run = self._client.create_run(experiment, run_name=name).info.run_id
        self._client.log_batch(self._run, params=[self._param(*pair) for pair in flat(settings).items()])
        self._waiting: list[Any] = []
        self._sent = time.monotonic()

    def write(self, round: int, numbers: Numbers) -> None:
        """Put numbers on the pile."""
        now = int(1000 * time.time())
        self._waiting += [self._metric(name, value, now, round) for name, value in numbers.items()]
        if len(self._waiting) >= BATCH or time.monotonic() - self._sent >= PAUSE_SECONDS:
            self._send()

    def close(self) -> None:
        """Send the rest and end the MLflow run."""
        self._send()
        self._client.set_terminated(self._run)

    def _send(self) -> None:
        if self._waiting:
            self._client.log_batch(self._run, metrics=self._waiting)
        self._waiting, self._sent = [], time.monotonic()
