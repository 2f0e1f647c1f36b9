"""Compact histories: what tables, tests and figures need of many runs, in one small file that is committed.

The file is JSON, compressed without a time stamp, so equal runs give equal bytes. Of every run it holds the settings,
versions and digests, accuracy, clock and energy by round, and how often each kind of client took part; of FedProf's
first seed also who was selected in which round, and with ten clients or so everybody's score.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedprof.errors import StoreError
from fedprof.report.files import write
from fedprof.report.gather import counts
from fedprof.report.stored import Stored, read
from fedprof.simulation.fingerprint import fingerprint
from fedprof.simulation.run import WEIGHTS
from fedprof.simulation.store import ClientRow, ParticipationRow, RoundRow, Store

FORMAT = 1
FEW = 20
"""Up to so many clients, scores are kept."""
ENDING = ".json.gz"
Tree = dict[str, Any]


@dataclass(frozen=True)
class Archived:
    """A run out of an archive: what is stored of it, and who took part by kind of data."""

    run: Stored
    parts: Mapping[str, tuple[int, int]]
    """By kind: number of clients, and how often they were selected in all."""

    @property
    def share_of_bad(self) -> float:
        """Which share of all participations is by damaged clients."""
        everybody = sum(selected for _, selected in self.parts.values())
        return 1 - self.parts.get("normal", (0, 0))[1] / everybody if everybody else 0.0


def pack(runs: Sequence[Path], target: Path) -> Path:
    """Write the histories of runs into one file."""
    tree = {"format": FORMAT, "runs": [_packed(path) for path in runs]}
    text = json.dumps(tree, separators=(",", ":"), sort_keys=True)
    return write(target, lambda file: file.write_bytes(gzip.compress(text.encode(), 9, mtime=0)))


def unpack(source: Path, folder: Path) -> list[Archived]:
    """Read histories; runs with participation become files in ``folder``, so that figures can ask them."""
    try:
        tree = json.loads(gzip.decompress(source.read_bytes()))
    except (OSError, EOFError, ValueError) as error:
        raise StoreError(f"{source} is not an archive of histories ({error}); `fedprof reproduce` makes it") from error
    if tree.get("format") != FORMAT:
        raise StoreError(f"{source} has format {tree.get('format')}; this version reads format {FORMAT}")
    return [
        _unpacked(run, folder / f"{source.name.removesuffix(ENDING)}-{i}.sqlite") for i, run in enumerate(tree["runs"])
    ]


def _packed(path: Path) -> Tree:
    run = read(path)
    with closing(Store.open(path, read_only=True)) as store:
        digest = fingerprint(store.state()[WEIGHTS].astype(np.float32))
    return {
        "facts": {**run.facts, "final_weights": digest},
        "clients": [[row.client, row.kind or "normal", row.samples] for row in run.clients] if _detailed(run) else [],
        "parts": _parts(run),
        "history": {
            "accuracy": [None if row.accuracy is None else round(row.accuracy, 6) for row in run.history],
            "clock": [round(row.clock, 2) for row in run.history],
            "joules": [round(row.total_joules, 2) for row in run.history],
        },
        "participation": _participation(run) if _detailed(run) else [],
    }


def _detailed(run: Stored) -> bool:
    return run.algorithm == "fedprof" and run.seed == 0


def _parts(run: Stored) -> dict[str, list[int]]:
    selected, found = counts(run), dict[str, list[int]]()
    for row in run.clients:
        entry = found.setdefault(row.kind or "normal", [0, 0])
        entry[0] += 1
        entry[1] += int(selected.get(row.client) or 0)
    return found


def _participation(run: Stored) -> list[list[Any]]:
    """Round, client, selected, score; of many clients only those who were selected."""
    everybody = len(run.clients) <= FEW
    rows = run.query("SELECT round, client, selected, score FROM participation ORDER BY round, client")
    return [
        [number, client, selected, round(score, 6) if everybody and score is not None else None]
        for number, client, selected, score in rows
        if everybody or (selected and number)
    ]


def _unpacked(tree: Tree, path: Path) -> Archived:
    clients = [ClientRow(client, f"client-{client}", kind, samples) for client, kind, samples in tree["clients"]]
    history = _history(tree["history"])
    run = Stored(path, tree["facts"], clients, history)
    if tree["participation"]:
        _write(run, tree["participation"])
    return Archived(run, {kind: (count, selected) for kind, (count, selected) in tree["parts"].items()})


def _history(columns: Mapping[str, Sequence[Any]]) -> list[RoundRow]:
    rows: list[RoundRow] = []
    best: float | None = None
    for number, (accuracy, clock, joules) in enumerate(
        zip(columns["accuracy"], columns["clock"], columns["joules"], strict=True)
    ):
        best = max(filter(None, (best, accuracy)), default=None)
        rows.append(RoundRow(number, accuracy, None, best, clock=clock, total_joules=joules))
    return rows


def _write(run: Stored, participation: Sequence[Sequence[Any]]) -> None:
    """Make a run's file again, as far as the archive knows it."""
    by_round: dict[int, list[ParticipationRow]] = {}
    for number, client, selected, score in participation:
        by_round.setdefault(number, []).append(ParticipationRow(number, client, selected, score=score))
    with closing(Store.create(run.path, run.facts, run.clients)) as store:
        for row in run.history:
            store.record(row, by_round.get(row.round, []), {})
