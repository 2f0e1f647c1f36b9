"""Partitioners: which rows each client holds.

Every partitioner takes a generator and returns a `Partition`. Rows are disjoint whenever the sizes asked for fit in the
data. When they do not (a hundred thousand clients of fifty samples on a small data set), rows are *recycled*: the whole
data set is shuffled and dealt again, as often as needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedprof.errors import DataError, SettingsError

Rows = NDArray[np.int64]
_SWAP_ROUNDS = 64
_DIRICHLET_TRIES = 1000


@dataclass(frozen=True)
class Partition:
    """Rows of every client, client after client."""

    rows: Rows
    offsets: Rows
    """Client k holds ``rows[offsets[k]:offsets[k + 1]]``."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Rows:
        """Samples held by each client."""
        return np.diff(self.offsets)

    def of(self, client: int) -> Rows:
        """Rows of one client."""
        return self.rows[self.offsets[client] : self.offsets[client + 1]]

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Partition:
        """Make a partition of one array of rows a client."""
        sizes = [len(part) for part in parts]
        return cls(np.concatenate(parts).astype(np.int64), _offsets(sizes))


def even_sizes(total: int, clients: int) -> Rows:
    """Share ``total`` rows as evenly as can be; the first clients get the remainder."""
    _require_rows(total, clients)
    return np.full(clients, total // clients) + (np.arange(clients) < total % clients)


def normal_sizes(total: int | None, clients: int, mean: float, std: float, rng: np.random.Generator) -> Rows:
    """Draw sizes from N(mean, std^2), cut off at three standard deviations and at one sample.

    A draw that sums to more than ``total`` is scaled down to fit it. ``None`` sets no limit (rows are then recycled).
    """
    if mean < 1 or std < 0:
        raise SettingsError(f"client sizes need a mean of at least 1 and a std of at least 0, not {mean} and {std}")
    draws = np.clip(rng.normal(mean, std, clients), max(1.0, mean - 3 * std), mean + 3 * std)
    if total is not None:
        _require_room(total, clients, mean)
        draws *= min(1.0, total / draws.sum())
        return np.maximum(np.floor(draws), 1).astype(np.int64)
    return np.rint(draws).astype(np.int64)


def iid(total: int, clients: int, rng: np.random.Generator, sizes: ArrayLike | None = None) -> Partition:
    """Deal shuffled rows: to every client the same number, or ``sizes``."""
    wanted = _checked_sizes(sizes, total, clients)
    return Partition(_deck(total, int(wanted.sum()), rng)[: wanted.sum()], _offsets(wanted))


def dominant_class(
    labels: ArrayLike, clients: int, share: float, rng: np.random.Generator, sizes: ArrayLike | None = None
) -> Partition:
    """Give each client one dominant class with ``share`` of its samples; the rest come from all other classes.

    Client after client is given, as its dominant class, the one with most rows left (so classes take turns); if even
    that class is short, the client's share is what is left of it. The rest are dealt at random, then swapped between
    clients until nobody holds its dominant class among them; what no swap can mend stays where it is.
    """
    y = _checked_labels(labels)
    if not 0 < share <= 1:
        raise SettingsError(f"the dominant class's share must lie in (0, 1], not {share}")
    wanted = _checked_sizes(sizes, len(y), clients)
    deck = _deck(len(y), int(wanted.sum()), rng)
    dominant, quota = _dominant_classes(np.bincount(y[deck]), np.rint(share * wanted).astype(np.int64))
    first, others = _split_deck(y[deck], dominant, quota)
    owner = _owners(wanted - quota, len(others))
    rest = _without_conflicts(deck[others], y, owner, np.append(dominant, -1), rng)
    return _merged(deck[first], quota, rest, wanted, rng)


def dirichlet(labels: ArrayLike, clients: int, alpha: float, rng: np.random.Generator, min_size: int = 1) -> Partition:
    """Split each class over the clients by proportions from Dir(alpha); redraw until all hold ``min_size`` samples."""
    y = _checked_labels(labels)
    _require_rows(len(y), clients * max(1, min_size))
    if alpha <= 0:
        raise SettingsError(f"Dirichlet's concentration must be positive, not {alpha}")
    by_class = [rng.permutation(np.flatnonzero(y == c)) for c in np.unique(y)]
    for _ in range(_DIRICHLET_TRIES):
        owner = np.concatenate([_dirichlet_owners(len(rows), clients, alpha, rng) for rows in by_class])
        counts = np.bincount(owner, minlength=clients)
        if counts.min() >= min_size:
            order = np.argsort(owner, kind="stable")
            return Partition(np.concatenate(by_class)[order].astype(np.int64), _offsets(counts))
    raise DataError(
        f"no Dirichlet draw in {_DIRICHLET_TRIES} gave each of {clients} clients a share of the samples: "
        f"raise the concentration (now {alpha}), or lower the number of clients"
    )


def shards(labels: ArrayLike, clients: int, per_client: int, rng: np.random.Generator) -> Partition:
    """Sort rows by label, cut them into equal shards, and deal ``per_client`` to each client (McMahan et al.)."""
    y = _checked_labels(labels)
    _require_rows(len(y), clients * per_client)
    by_label = np.lexsort((rng.permutation(len(y)), y))
    pieces = np.array_split(by_label, clients * per_client)
    dealt = rng.permutation(len(pieces)).reshape(clients, per_client)
    return Partition.joined([np.concatenate([pieces[i] for i in hand]) for hand in dealt])


def _offsets(sizes: ArrayLike) -> Rows:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _require_rows(total: int, needed: int) -> None:
    if needed < 1:
        raise SettingsError("a federation needs at least one client")
    if total < needed:
        raise DataError(f"{total} rows cannot be shared out in {needed} parts: use fewer clients or more data")


def _require_room(total: int, clients: int, mean: float) -> None:
    """Reject sizes that scaling would change beyond what chance explains."""
    if mean * clients > 1.1 * total:
        raise DataError(
            f"{clients} clients of {mean:g} samples need {mean * clients:.0f} rows, but there are {total}: "
            "lower the mean size or the number of clients, or let clients share rows"
        )


def _checked_labels(labels: ArrayLike) -> Rows:
    y = np.asarray(labels)
    if y.ndim != 1 or not np.issubdtype(y.dtype, np.integer) or (len(y) and y.min() < 0):
        raise DataError(f"a partition by class needs one integer label >= 0 a row, not {y.dtype} of shape {y.shape}")
    return y.astype(np.int64)


def _checked_sizes(sizes: ArrayLike | None, total: int, clients: int) -> Rows:
    if sizes is None:
        return even_sizes(total, clients)
    wanted = np.asarray(sizes, dtype=np.int64)
    if wanted.shape != (clients,) or wanted.min(initial=1) < 1 or not total:
        raise DataError(f"{clients} clients need {clients} sizes of at least 1 (and some data), not {wanted}")
    return wanted


def _deck(total: int, needed: int, rng: np.random.Generator) -> Rows:
    """Shuffled rows, the whole data set again and again until ``needed`` are there."""
    passes = max(1, -(-needed // total))
    deck: Rows = rng.permuted(np.tile(np.arange(total), (passes, 1)), axis=1).reshape(-1)
    return deck


def _dominant_classes(stock: Rows, quota: Rows) -> tuple[Rows, Rows]:
    """Each client's dominant class and how many of it there are for that client."""
    left, classes, served = stock.tolist(), [], []
    for wanted in quota.tolist():
        fullest = left.index(max(left))
        classes.append(fullest)
        served.append(min(wanted, left[fullest]))
        left[fullest] -= served[-1]
    return np.array(classes), np.array(served)


def _split_deck(y: Rows, dominant: Rows, quota: Rows) -> tuple[Rows, Rows]:
    """Positions in the deck of the dominant samples (client after client), and all others in their order."""
    chosen = np.empty(int(quota.sum()), np.int64)
    client = np.repeat(dominant, quota)
    for c in np.unique(dominant):
        chosen[client == c] = np.flatnonzero(y == c)[: np.count_nonzero(client == c)]
    others = np.ones(len(y), bool)
    others[chosen] = False
    return chosen, np.flatnonzero(others)


def _owners(sizes: Rows, length: int) -> Rows:
    """Who owns each position; those left over belong to nobody, -1."""
    owner = np.full(length, -1)
    owner[: sizes.sum()] = np.repeat(np.arange(len(sizes)), sizes)
    return owner


def _without_conflicts(rows: Rows, y: Rows, owner: Rows, dominant: Rows, rng: np.random.Generator) -> Rows:
    """Swap rows at random until no owner holds its dominant class among them."""
    rows, avoided = rows.copy(), dominant[owner]
    for _ in range(_SWAP_ROUNDS):
        bad = np.flatnonzero(y[rows] == avoided)
        if not len(bad):
            break
        partner, first = np.unique(rng.integers(len(rows), size=len(bad)), return_index=True)
        bad = bad[first]
        free = (y[rows[partner]] != avoided[bad]) & (y[rows[bad]] != avoided[partner])
        free &= y[rows[partner]] != avoided[partner]
        bad, partner = bad[free], partner[free]
        rows[bad], rows[partner] = rows[partner], rows[bad]
    return rows


def _merged(first: Rows, quota: Rows, rest: Rows, sizes: Rows, rng: np.random.Generator) -> Partition:
    """Put each client's dominant samples and its others together, in random order."""
    clients = np.arange(len(sizes))
    owner = np.concatenate([np.repeat(clients, quota), np.repeat(clients, sizes - quota)])
    rows = np.concatenate([first, rest[: len(owner) - len(first)]])
    order = np.argsort(owner + rng.random(len(owner)), kind="stable")
    return Partition(rows[order], _offsets(sizes))


def _dirichlet_owners(count: int, clients: int, alpha: float, rng: np.random.Generator) -> Rows:
    """The client of each of one class's samples."""
    cuts = np.cumsum(rng.dirichlet(np.full(clients, alpha)))[:-1] * count
    return np.searchsorted(cuts, np.arange(count), side="right").astype(np.int64)
