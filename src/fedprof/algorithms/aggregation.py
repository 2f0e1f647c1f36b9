"""How the server combines: full aggregation in both readings, partial aggregation, and server optimisers.

Sums run in float64, in client order, one client after another, so the result depends on nothing but the replies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fedprof.algorithms.base import Population, Reply, State, Vector

Reading = Literal["fresh", "cache"]


def weighted_sum(terms: Iterable[tuple[float, Vector]], size: int) -> NDArray[np.float64]:
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


@dataclass(frozen=True)
class Partial:
    """Partial aggregation: the plain mean over the cohort."""

    mode: ClassVar[str] = "partial"

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
    mode: ClassVar[str] = "full"

    def start(self, population: Population, weights: Vector) -> State:
        """Remember the sum over all entries where absent clients' uploads count."""
        if self.reading == "fresh":
            return {}
        return {"cache/initial": weights, "cache/sum": weights.astype(np.float64)}

    def combine(
        self, state: State, population: Population, weights: Vector, replies: Sequence[Reply]
    ) -> tuple[State, Vector]:
        """Replace the cohort's entries in the sum."""
        shares = population.shares
        if self.reading == "fresh":
            moves = ((shares[reply.client], reply.weights - weights) for reply in replies)
            return state, (weights + weighted_sum(moves, len(weights))).astype(np.float32)
        entries = dict(state)
        total = state["cache/sum"].astype(np.float64)
        for reply in replies:
            name = f"cache/{reply.client}"
            total += shares[reply.client] * (
                reply.weights - entries.get(name, state["cache/initial"]).astype(np.float64)
            )
            entries[name] = reply.weights
        return {**entries, "cache/sum": total}, total.astype(np.float32)


def mean_update(weights: Vector, replies: Sequence[Reply], trainable: int) -> tuple[NDArray[np.float64], Vector]:
    """The cohort's mean update of the trained entries, and the cohort's mean of the buffers."""
    mean = plain_mean(replies)
    return mean[:trainable] - weights[:trainable], mean[trainable:].astype(np.float32)


@dataclass(frozen=True)
class ServerAdam:
    """Adam on the server (Leroy et al. 2019): the mean client update, negated, is the gradient; buffers are averaged."""

    rate: float = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    mode: ClassVar[str] = "partial"

    def start(self, population: Population, weights: Vector) -> State:
        """Zero moments."""
        zeros = np.zeros(population.trainable or len(weights))
        return {"adam/first": zeros, "adam/second": zeros, "adam/step": np.zeros((), np.int64)}

    def combine(
        self, state: State, population: Population, weights: Vector, replies: Sequence[Reply]
    ) -> tuple[State, Vector]:
        """One step of Adam along the mean update."""
        trainable = population.trainable or len(weights)
        update, buffers = mean_update(weights, replies, trainable)
        step = int(state["adam/step"]) + 1
        first = self.beta1 * state["adam/first"] - (1 - self.beta1) * update
        second = self.beta2 * state["adam/second"] + (1 - self.beta2) * update**2
        scale = np.sqrt(second / (1 - self.beta2**step)) + self.epsilon
        moved = weights[:trainable] - self.rate * first / (1 - self.beta1**step) / scale
        new = {"adam/first": first, "adam/second": second, "adam/step": np.asarray(step)}
        return {**state, **new}, np.concatenate([moved.astype(np.float32), buffers])


@dataclass(frozen=True)
class ServerMomentum:
    """Heavy-ball momentum on the server: m <- beta m + mean update; theta <- theta + rate * m. Buffers are averaged."""

    beta: float = 0.5
    rate: float = 1.0
    mode: ClassVar[str] = "partial"

    def start(self, population: Population, weights: Vector) -> State:
        """No momentum yet."""
        return {"momentum": np.zeros(population.trainable or len(weights))}

    def combine(
        self, state: State, population: Population, weights: Vector, replies: Sequence[Reply]
    ) -> tuple[State, Vector]:
        """Move along the gathered momentum."""
        trainable = population.trainable or len(weights)
        update, buffers = mean_update(weights, replies, trainable)
        momentum = self.beta * state["momentum"] + update
        moved = weights[:trainable] + self.rate * momentum
        return {**state, "momentum": momentum}, np.concatenate([moved.astype(np.float32), buffers])
