"""How the server combines: full aggregation in both readings, partial aggregation, and server optimisers.

Sums run in float64, in client order, one client after another, so the result depends on nothing but the replies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fedprof.algorithms.base import Population, Reply, State, Vector

Reading = Literal["fresh", "cache"]
CACHE, INITIAL = "cache/", "cache/initial"


def weighted_sum(terms: Iterable[tuple[float, NDArray[np.floating]]], size: int) -> NDArray[np.float64]:
    """Sum coefficient * vector, in the order given."""
    total, term = np.zeros(size), np.empty(size)
    for coefficient, vector in terms:
        np.multiply(vector, coefficient, out=term, dtype=np.float64)
        total += term
    return total


def plain_mean(replies: Sequence[Reply]) -> NDArray[np.float64]:
    """(1/K) sum theta_k, repeats counted (equation ``agg_rule``)."""
    count = sum(reply.draws for reply in replies)
    return weighted_sum(((reply.draws / count, reply.weights) for reply in replies), len(replies[0].weights))


def mix(entries: Mapping[int, Vector], others: Vector, population: Population) -> Vector:
    """Sum p_k * entry_k over all clients, in their order; those without an entry count with ``others``."""
    shares = population.shares
    moves = ((shares[client], np.subtract(entry, others, dtype=np.float64)) for client, entry in entries.items())
    return (others + weighted_sum(moves, len(others))).astype(np.float32)


@dataclass(frozen=True)
class Partial:
    """Partial aggregation: the plain mean over the cohort."""

    mode: ClassVar[Literal["full", "partial"]] = "partial"

    def start(self, population: Population, weights: Vector) -> State:
        """Nothing to remember."""
        return {}

    def combine(
        self,
        state: State,
        population: Population,
        weights: Vector,
        replies: Sequence[Reply],
    ) -> tuple[State, Vector]:
        """Average the cohort."""
        return state, plain_mean(replies).astype(np.float32)


@dataclass(frozen=True)
class SchemeTwo(Partial):
    """Scheme II of Li et al. (2019): (N/K) sum p_k theta_k over a uniform cohort without replacement."""

    def combine(
        self, state: State, population: Population, weights: Vector, replies: Sequence[Reply]
    ) -> tuple[State, Vector]:
        """Weigh each client by its share, scaled up by N/K."""
        factor = population.shares * len(population) / len(replies)
        total = weighted_sum(((factor[reply.client], reply.weights) for reply in replies), len(weights))
        return state, total.astype(np.float32)


@dataclass(frozen=True)
class Full:
    """Full aggregation: sum over ALL clients of p_k * (the client's entry).

    ``fresh``: an absent client's entry is the current global model, so a round moves it by the cohort's share of the
    data. ``cache``: it is the client's latest accepted upload, at first the initial model.
    """

    reading: Reading = "fresh"
    mode: ClassVar[Literal["full", "partial"]] = "full"

    def start(self, population: Population, weights: Vector) -> State:
        """Remember the initial model where it counts for those who never uploaded."""
        return {} if self.reading == "fresh" else {INITIAL: weights}

    def combine(
        self, state: State, population: Population, weights: Vector, replies: Sequence[Reply]
    ) -> tuple[State, Vector]:
        """Replace the cohort's entries and sum them all."""
        entries = {reply.client: reply.weights for reply in replies}
        if self.reading == "fresh":
            return state, mix(entries, weights, population)
        new = {**state, **{f"{CACHE}{client}": entry for client, entry in entries.items()}}
        cached = {client: new[f"{CACHE}{client}"] for client in range(len(population)) if f"{CACHE}{client}" in new}
        return new, mix(cached, state[INITIAL], population)


def trained(population: Population, weights: Vector) -> int:
    """How many leading entries are trained; a server optimiser leaves the buffers behind them alone."""
    return len(weights) if population.trainable is None else population.trainable


def mean_update(population: Population, weights: Vector, replies: Sequence[Reply]) -> NDArray[np.float64]:
    """The cohort's mean update of the trained entries."""
    kept = trained(population, weights)
    return plain_mean(replies)[:kept] - weights[:kept]


def apply_step(weights: Vector, step: NDArray[np.float64], replies: Sequence[Reply]) -> Vector:
    """Move the trained entries by a step; the buffers become the cohort's mean."""
    moved = plain_mean(replies)
    moved[: len(step)] = weights[: len(step)] + step
    return moved.astype(np.float32)


@dataclass(frozen=True)
class ServerAdam:
    """Adam on the server (Leroy et al. 2019): the mean client update, negated, is the gradient; buffers: mean."""

    rate: float = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    mode: ClassVar[Literal["full", "partial"]] = "partial"

    def start(self, population: Population, weights: Vector) -> State:
        """Zero moments."""
        zeros = np.zeros(trained(population, weights))
        return {"adam/first": zeros, "adam/second": zeros, "adam/step": np.zeros(1, np.int64)}

    def combine(
        self, state: State, population: Population, weights: Vector, replies: Sequence[Reply]
    ) -> tuple[State, Vector]:
        """One step of Adam along the mean update."""
        gradient = -mean_update(population, weights, replies)
        count = int(state["adam/step"][0]) + 1
        first = self.beta1 * state["adam/first"] + (1 - self.beta1) * gradient
        second = self.beta2 * state["adam/second"] + (1 - self.beta2) * gradient**2
        scale = np.sqrt(second / (1 - self.beta2**count)) + self.epsilon
        step = -self.rate * first / (1 - self.beta1**count) / scale
        new = {"adam/first": first, "adam/second": second, "adam/step": np.array([count])}
        return {**state, **new}, apply_step(weights, step, replies)


@dataclass(frozen=True)
class ServerMomentum:
    """Heavy-ball momentum on the server: m <- beta m + mean update; theta <- theta + rate * m. Buffers are averaged."""

    beta: float = 0.5
    rate: float = 1.0
    mode: ClassVar[Literal["full", "partial"]] = "partial"

    def start(self, population: Population, weights: Vector) -> State:
        """No momentum yet."""
        return {"momentum": np.zeros(trained(population, weights))}

    def combine(
        self, state: State, population: Population, weights: Vector, replies: Sequence[Reply]
    ) -> tuple[State, Vector]:
        """Move along the gathered momentum."""
        momentum = self.beta * state["momentum"] + mean_update(population, weights, replies)
        return {**state, "momentum": momentum}, apply_step(weights, self.rate * momentum, replies)
