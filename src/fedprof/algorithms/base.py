"""What an algorithm is: whom to select, what clients optimise, how the server combines.

An algorithm is a small frozen value (its hyper-parameters). What changes over a run is its *state*: a plain mapping
from names to NumPy arrays that is replaced, never mutated, so saving it saves everything. Arrays whose name starts with
``client/`` hold one entry a client; they grow when clients join, with NaN (or 0 in integer arrays) for "not known".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from fedprof.errors import SettingsError

if TYPE_CHECKING:
    from fedprof.core.profile import Profile

Vector = NDArray[np.float32]
State = Mapping[str, NDArray[Any]]
CLIENT = "client/"


@dataclass(frozen=True)
class Population:
    """The client set U as the server knows it."""

    sizes: NDArray[np.int64]
    """|D_k| for every client."""
    cohort: int
    """K = N * C, how many clients a round wants."""
    trainable: int | None = None
    """How many leading entries of the weights are trained; the rest are buffers. None: all."""

    def __post_init__(self) -> None:
        if not len(self.sizes) or np.min(self.sizes) < 1:
            raise SettingsError("a population needs at least one client, and every client at least one sample")
        if not 1 <= self.cohort <= len(self.sizes):
            raise SettingsError(f"a cohort of {self.cohort} cannot be chosen from {len(self.sizes)} clients")

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def shares(self) -> NDArray[np.float64]:
        """rho_k = |D_k| / |D|."""
        shares: NDArray[np.float64] = self.sizes / self.sizes.sum()
        return shares


@dataclass(frozen=True)
class Selection:
    """Whom the server asks this round, and when the round may end."""

    clients: NDArray[np.int64]
    """Distinct clients, in the order drawn."""
    draws: NDArray[np.int64]
    """How often each was drawn (always 1 without replacement)."""
    quota: int | None = None
    """The round ends with this many submissions; None: with everybody's."""
    first: NDArray[np.bool_] | None = None
    """Whose submissions count before the others' while the quota fills."""

    @classmethod
    def of(cls, drawn: NDArray[np.integer]) -> Selection:
        """Select the clients drawn; one drawn twice trains once and counts twice."""
        clients, position, draws = np.unique(drawn, return_index=True, return_counts=True)
        order = np.argsort(position)
        return cls(clients[order].astype(np.int64), draws[order].astype(np.int64))


@dataclass(frozen=True)
class Report:
    """What a client tells the server besides its weights."""

    client: int
    version: int
    """Version of the global model it had received."""
    loss: float | None = None
    profile: Profile | None = None
    divergence: float | None = None
    """Given instead of the profile where profiles are matched in private."""


@dataclass(frozen=True, kw_only=True)
class Reply(Report):
    """A client's answer to a round of training."""

    weights: Vector
    draws: int = 1


class Aggregation(Protocol):
    """How the server combines a cohort's weights into the next global model."""

    mode: ClassVar[Literal["full", "partial"]]

    def start(self, population: Population, weights: Vector) -> State:
        """Make the state before round 1."""
        ...

    def combine(
        self, state: State, population: Population, weights: Vector, replies: Sequence[Reply]
    ) -> tuple[State, Vector]:
        """Combine replies (at least one, in client order) with the weights they started from."""
        ...


class Algorithm(ABC):
    """Subclass as a frozen dataclass of hyper-parameters; define ``select``, ``combines`` and what else differs."""

    name: ClassVar[str]
    citation: ClassVar[str]
    profiles: ClassVar[bool] = False
    """Whether clients send profiles: all of them before round 1, then the cohort's."""

    @property
    def proximal(self) -> float:
        """Weight mu of the proximal term in the clients' objective; 0 leaves it out."""
        return 0.0

    @property
    @abstractmethod
    def combines(self) -> Aggregation:
        """How the server combines."""

    @abstractmethod
    def select(self, state: State, population: Population, rng: np.random.Generator) -> Selection:
        """Choose whom to ask this round."""

    def start(self, population: Population, weights: Vector) -> State:
        """Make the state before round 1."""
        return self.combines.start(population, weights)

    def learn(self, state: State, population: Population, reports: Sequence[Report]) -> State:
        """Take in what clients reported: initial profiles before round 1, then every round's accepted replies."""
        return state

    def publish(self, state: State, version: int, baseline: Profile) -> State:
        """Take in the server's own profile under a new version of the global model."""
        return state

    def scores(self, state: State, population: Population) -> NDArray[np.float64] | None:
        """Probability of each client being drawn first next round, where the algorithm has such a thing."""
        return None

    def divergences(self, state: State) -> NDArray[np.float64] | None:
        """Last known divergence of each client, NaN where unknown, for an algorithm that profiles."""
        return None

    def combine(
        self, state: State, population: Population, weights: Vector, replies: Sequence[Reply]
    ) -> tuple[State, Vector]:
        """Make the next global model. Order of arrival never matters; without replies the model stays as it was."""
        if not replies:
            return state, weights
        return self.combines.combine(state, population, weights, sorted(replies, key=lambda reply: reply.client))


def with_clients(state: State, count: int) -> State:
    """Grow the per-client arrays of a state to ``count`` clients."""
    grown = dict(state)
    for name, array in state.items():
        if name.startswith(CLIENT) and len(array) < count:
            unknown = np.nan if array.dtype.kind == "f" else 0
            grown[name] = np.concatenate([array, np.full(count - len(array), unknown, array.dtype)])
    return grown
