"""A whole run on a federation: rounds of training and evaluation, each recorded before the next begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result

from fedprof.flower.cohort import initial_rows
from fedprof.flower.grid import LOG
from fedprof.flower.record import Record, Saved

if TYPE_CHECKING:
    from fedprof.flower.strategy import FedProf

Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]


@dataclass
class Loop:
    """What a run needs besides its strategy."""

    strategy: FedProf
    record: Record
    grid: Grid
    train_config: ConfigRecord
    evaluate_config: ConfigRecord
    evaluate_fn: Evaluate | None
    result: Result = field(default_factory=Result)

    def play(self, arrays: ArrayRecord, rounds: int) -> Result:
        """Begin, or go on after the last recorded round, until all rounds are recorded."""
        saved = self.record.load(arrays, self.strategy.base)
        if saved is None:
            self._begin(arrays)
        else:
            arrays = self._go_on(saved)
        while (number := self.record.next_round) <= rounds:
            LOG.info("[ROUND %d/%d]", number, rounds)
            arrays = self._round(number, arrays)
        self.result.arrays = arrays
        members = self.strategy.members
        LOG.info(
            "After %d rounds:\n%s", rounds, members.standing().table(members.roster.names, members.picked.tolist())
        )
        return self.result

    def _begin(self, arrays: ArrayRecord) -> None:
        """Before round 1: everybody's first profile, and how good the model is that they start from."""
        self.strategy.meet(1, arrays, self.grid)
        metrics = self._central(0, arrays)
        members = self.strategy.members
        rows = initial_rows(members.standing(), members.failures, len(members.roster))
        self.record.save(self._saved(0, arrays), self.strategy.base, metrics, (0, 0), rows)

    def _go_on(self, saved: Saved) -> ArrayRecord:
        LOG.info("Going on after round %d", saved.round)
        members = self.strategy.members
        members.roster, members.state = saved.roster, saved.state
        members.answered, members.picked = saved.answered, saved.picked
        return saved.arrays

    def _round(self, number: int, arrays: ArrayRecord) -> ArrayRecord:
        arrays = self._train(number, arrays)
        local = self._local(number, arrays)
        central = self._central(number, arrays)
        going = self.strategy.going
        rows = going.cohort.rows(number, len(going.members.roster), going.losses, going.dropped)
        counts = len(going.sent), len(going.heard)
        self.record.save(self._saved(number, arrays), self.strategy.base, central or local, counts, rows)
        return arrays

    def _train(self, number: int, arrays: ArrayRecord) -> ArrayRecord:
        strategy = self.strategy
        sent = strategy.configure_train(number, arrays, self.train_config, self.grid)
        replies = self.grid.send_and_receive(sent, timeout=strategy.patience)
        combined, metrics = strategy.aggregate_train(number, replies)
        if metrics is not None:
            self.result.train_metrics_clientapp[number] = metrics
        if combined is None:
            LOG.warning("Round %d made no new model; the old one stays", number)
        return arrays if combined is None else combined

    def _local(self, number: int, arrays: ArrayRecord) -> MetricRecord | None:
        """Evaluation on the clients."""
        sent = list(self.strategy.configure_evaluate(number, arrays, self.evaluate_config, self.grid))
        if not sent:
            return None
        replies = self.grid.send_and_receive(sent, timeout=self.strategy.patience)
        metrics = self.strategy.aggregate_evaluate(number, replies)
        if metrics is not None:
            self.result.evaluate_metrics_clientapp[number] = metrics
        return metrics

    def _central(self, number: int, arrays: ArrayRecord) -> MetricRecord | None:
        """Evaluation on the server."""
        metrics = self.evaluate_fn(number, arrays) if self.evaluate_fn else None
        if metrics is not None:
            self.result.evaluate_metrics_serverapp[number] = metrics
            LOG.info("Round %d: %s", number, dict(metrics))
        return metrics

    def _saved(self, number: int, arrays: ArrayRecord) -> Saved:
        members = self.strategy.members
        return Saved(number, arrays, members.state, members.roster, members.answered, members.picked)
