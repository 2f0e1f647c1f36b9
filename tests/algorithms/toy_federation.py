"""A federation of seven clients small enough to compute by hand, and the loop every runner of algorithms follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fedprof.algorithms.base import Algorithm, Population, Reply, Report, State, Vector
from fedprof.algorithms.gate import gate
from fedprof.core.profile import Profile
from fedprof.randomness import stream

SIZES = np.array([10, 20, 30, 40, 25, 15, 60])
LENGTH = 9
POPULATION = Population(SIZES, cohort=3, trainable=7)


def reply(client: int, weights: object, draws: int = 1, **said: object) -> Reply:
    """A reply of version 0 with the given weights."""
    return Reply(client, 0, weights=np.asarray(weights, np.float32), draws=draws, **said)


def local_training(weights: Vector, client: int, round: int) -> tuple[Vector, float]:
    """A pull towards the client's own optimum, with noise that depends on the round."""
    optimum = stream(1, "optimum", client=client).normal(size=LENGTH)
    noise = 0.05 * stream(1, "noise", round, client).normal(size=LENGTH)
    return (weights + 0.3 * (optimum - weights) + noise).astype(np.float32), float(np.square(optimum - weights).mean())


def profile_of(weights: Vector, client: int, version: int) -> Profile:
    """A profile that depends on the client and the model; client -1 is the server."""
    rng = stream(2, "profile", client=client + 1)
    mean = rng.normal(size=4) * (client + 1) / 10 + weights[:4]
    return Profile(mean.astype(np.float32), (1 + rng.random(4)).astype(np.float32), 10, version)


def play(
    algorithm: Algorithm,
    rounds: int = 6,
    *,
    between: Callable[[State], State] = lambda state: state,
    arrival: Callable[[list[Reply]], Sequence[Reply]] = lambda replies: replies,
) -> tuple[State, Vector]:
    """Run an algorithm, passing its state through ``between`` every round and the replies through ``arrival``."""
    weights = stream(0, "initialise").normal(size=LENGTH).astype(np.float32)
    state = algorithm.start(POPULATION, weights)
    if algorithm.profiles:
        state = algorithm.publish(state, 0, profile_of(weights, -1, 0))
        initial = [Report(k, 0, profile=profile_of(weights, k, 0)) for k in range(len(POPULATION))]
        state = algorithm.learn(state, POPULATION, initial)
    for turn in range(1, rounds + 1):
        state = between(state)
        replies = arrival(_answers(algorithm, state, weights, turn))
        accepted, _ = gate(replies, weights)
        state = algorithm.learn(state, POPULATION, accepted)
        state, weights = algorithm.combine(state, POPULATION, weights, accepted)
        if algorithm.profiles:
            state = algorithm.publish(state, turn, profile_of(weights, -1, turn))
    return state, weights


def _answers(algorithm: Algorithm, state: State, weights: Vector, round: int) -> list[Reply]:
    chosen = algorithm.select(state, POPULATION, stream(0, "select", round))
    clients = list(zip(chosen.clients.tolist(), chosen.draws.tolist(), strict=True))
    if chosen.quota is not None:
        first = chosen.first if chosen.first is not None else np.ones(len(clients), bool)
        clients = sorted(clients, key=lambda item: not first[item[0]])[: chosen.quota]
    return [_answer(algorithm, weights, round, client, draws) for client, draws in clients]


def _answer(algorithm: Algorithm, weights: Vector, round: int, client: int, draws: int) -> Reply:
    trained, loss = local_training(weights, client, round)
    profile = profile_of(weights, client, round - 1) if algorithm.profiles else None
    return Reply(client, round - 1, loss, profile, weights=trained, draws=draws)
