"""Theorem 1 as an experiment: does the measured gap E[F(theta(t))] - F* stay under the paper's bound?

    python examples/theorem1.py --out theorem1.png

The problem is ridge regression over unlike clients (own features, own truth, own amount of data), so that every
constant of the theorem can be computed: L and mu from the clients' Hessians, Gamma from the closed-form optima, Delta_1
exactly. G and epsilon_k bound gradients wherever training goes, and are given twice:

- *a priori*: over a ball that no run can leave. A step on any batch of clients' samples, at these step sizes, maps the
  ball of radius R = max(|theta_0 - theta*|, max |grad f_i(theta*)| / penalty) around theta* into itself, and averaging
  keeps it inside. Certain, but loose.
- *measured*: the largest values met by any client at any step of any run with replacement. Tighter, but known only
  afterwards.

Clients are drawn by ``FedProf(alpha="optimal", replace=True)``, as Lemmas 4 and 5 assume. The third curve draws
without replacement instead: its variance is lower, but large clients are included less often than q_k = rho_k asks,
aggregation is biased, and in the end the gap stops shrinking. The theorem does not speak of it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedprof.algorithms.base import Population, Reply
from fedprof.algorithms.fedprof import FedProf
from fedprof.randomness import stream

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Ridge:
    """F_k(w) = mean of f_i over client k's samples, f_i(w) = (x_i w - y_i)^2 / 2 + (penalty / 2) |w|^2."""

    x: Array
    """(N, n, d), every row of length 1; clients with fewer samples are padded."""
    y: Array
    sizes: NDArray[np.int64]
    penalty: float = 0.5

    @cached_property
    def rho(self) -> Array:
        rho: Array = self.sizes / self.sizes.sum()
        return rho

    @cached_property
    def share(self) -> Array:
        """1 / n_k for client k's samples, 0 for padding."""
        share: Array = (np.arange(self.x.shape[1]) < self.sizes[:, None]) / self.sizes[:, None]
        return share

    @cached_property
    def hessians(self) -> Array:
        curvature: Array = np.einsum("kn,kni,knj->kij", self.share, self.x, self.x)
        penalty: Array = self.penalty * np.eye(self.x.shape[2])
        return curvature + penalty

    @cached_property
    def linear(self) -> Array:
        linear: Array = np.einsum("kn,kni,kn->ki", self.share, self.x, self.y)
        return linear

    @cached_property
    def optimum(self) -> Array:
        """Where F = sum rho_k F_k is least."""
        return np.asarray(np.linalg.solve(np.tensordot(self.rho, self.hessians, 1), self.rho @ self.linear), np.float64)

    @cached_property
    def heterogeneity(self) -> float:
        """Gamma = F* - sum rho_k F_k*."""
        away = self.optimum - np.linalg.solve(self.hessians, self.linear[..., None])[..., 0]
        return float(self.rho @ np.einsum("ki,kij,kj->k", away, self.hessians, away) / 2)

    def gap(self, w: NDArray[np.floating]) -> float:
        """F(w) - F*: the excess of a quadratic is exactly quadratic."""
        away = w - self.optimum
        return float(away @ np.tensordot(self.rho, self.hessians, 1) @ away / 2)

    def sample_gradients(self, w: Array) -> Array:
        """Gradient of every f_i at row k of ``w``: (N, n, d)."""
        residual = np.einsum("kni,ki->kn", self.x, w) - self.y
        gradients: Array = self.x * residual[..., None] + self.penalty * w[:, None]
        return gradients


@dataclass(frozen=True)
class Plan:
    """K clients a round, tau local steps on batches drawn with replacement."""

    rounds: int
    tau: int
    cohort: int = 10
    batch: int = 4


@dataclass(frozen=True)
class Noise:
    """Bounds on the stochastic gradients: epsilon_k^2 for every client, and G^2."""

    variance: Array
    square: float


@dataclass(frozen=True)
class Theorem:
    """The constants of Theorem 1 that do not depend on where training goes, and its bound."""

    problem: Ridge
    plan: Plan

    @cached_property
    def smoothness(self) -> float:
        return float(np.linalg.eigvalsh(self.problem.hessians).max())

    @cached_property
    def convexity(self) -> float:
        return float(np.linalg.eigvalsh(self.problem.hessians).min())

    @cached_property
    def gamma(self) -> float:
        return max(8 * self.smoothness / self.convexity, self.plan.tau) - 1

    def step_size(self, t: int) -> float:
        """eta_t = 2 / (mu (t + gamma))."""
        return 2 / (self.convexity * (t + self.gamma))

    @cached_property
    def first_distance(self) -> float:
        """Delta_1 = E|mean of the cohort's v_k(1) - theta*|^2 for K draws by rho with replacement, from theta = 0."""
        p, rho, k = self.problem, self.problem.rho, self.plan.cohort
        mean, variance, _ = moments(p, p.sample_gradients(np.zeros_like(p.linear)), self.plan.batch)
        moved = -self.step_size(0) * mean
        spread = rho @ ((moved - rho @ moved) ** 2).sum(1) / k
        noise = self.step_size(0) ** 2 * (rho * (1 - rho) / k + rho**2) @ variance
        return float(((rho @ moved - p.optimum) ** 2).sum() + spread + noise)

    def bound(self, t: NDArray[np.int64], noise: Noise) -> Array:
        """The right-hand side of Theorem 1."""
        tau, rho = self.plan.tau, self.problem.rho
        b = rho**2 @ noise.variance + 6 * self.smoothness * self.problem.heterogeneity
        b += 8 * (tau - 1) ** 2 * noise.square
        c = 4 / self.plan.cohort * tau**2 * noise.square
        inner = 2 * (b + c) / self.convexity**2 + (self.gamma + 1) / 2 * self.first_distance
        bound: Array = self.smoothness / (self.gamma + t) * inner
        return bound

    def over_the_ball(self) -> Noise:
        """Bound the gradients over the ball that no run leaves."""
        p = self.problem
        if self.step_size(0) * (1 + p.penalty) > 1:
            raise ValueError("the first step is too long for the ball to hold every run")
        here = np.linalg.norm(p.sample_gradients(np.broadcast_to(p.optimum, p.linear.shape)), axis=2)
        radius = max(float(np.linalg.norm(p.optimum)), float(here[p.share > 0].max()) / p.penalty)
        squares = (p.share * (here + (1 + p.penalty) * radius) ** 2).sum(1)
        return Noise(squares / self.plan.batch, float(squares.max()))


def moments(problem: Ridge, gradients: Array, batch: int) -> tuple[Array, Array, Array]:
    """Mean, variance and mean square of every client's stochastic gradient: exact expectations over its batches."""
    mean = np.einsum("kn,kni->ki", problem.share, gradients)
    square = (mean**2).sum(1)
    variance = ((problem.share * (gradients**2).sum(2)).sum(1) - square) / batch
    return mean, variance, square + variance


def make_problem(seed: int, clients: int = 20, dimension: int = 4) -> Ridge:
    """Make clients with 10 to 150 samples, each with its own feature mean and its own truth."""
    rng = stream(seed, "problem")
    sizes = rng.integers(10, 151, clients)
    x = rng.normal(size=(clients, int(sizes.max()), dimension)) + rng.normal(size=(clients, 1, dimension)) / 2
    x /= np.linalg.norm(x, axis=2, keepdims=True)
    truth = 1 + rng.normal(size=(clients, dimension))
    y = np.einsum("kni,ki->kn", x, truth) + 0.3 * rng.normal(size=x.shape[:2])
    return Ridge(x, y, sizes)


WITH, WITHOUT = FedProf(alpha="optimal", replace=True), FedProf(alpha="optimal", replace=False)
"""Theorem 1's penalties; it assumes draws with replacement."""


def run(theorem: Theorem, seed: int, algorithm: FedProf = WITH) -> tuple[Array, Noise]:
    """One run: the gap after every round and the largest gradients met."""
    problem, plan = theorem.problem, theorem.plan
    population = Population(problem.sizes, plan.cohort)
    weights = np.zeros(problem.x.shape[2], np.float32)
    state = algorithm.start(population, weights)
    gaps, worst_variance, worst_square = [], np.zeros(len(population)), 0.0
    for version in range(plan.rounds):
        chosen = algorithm.select(state, population, stream(seed, "select", version + 1))
        local, variance, square = train(theorem, weights, version, seed)
        replies = [
            Reply(int(k), version, weights=local[k].astype(np.float32), draws=int(draws))
            for k, draws in zip(chosen.clients, chosen.draws, strict=True)
        ]
        state, weights = algorithm.combine(state, population, weights, replies)
        gaps.append(problem.gap(weights))
        worst_variance = np.maximum(worst_variance, variance)
        worst_square = max(worst_square, float(square.max()))
    return np.array(gaps), Noise(worst_variance, worst_square)


def train(theorem: Theorem, weights: NDArray[np.float32], version: int, seed: int) -> tuple[Array, Array, Array]:
    """Tau steps on every client, as the proof assumes; only the cohort's are used."""
    problem, plan = theorem.problem, theorem.plan
    w = np.tile(weights.astype(np.float64), (len(problem.sizes), 1))
    uniform = stream(seed, "batches", version + 1).random((plan.tau, len(w), plan.batch))
    worst_variance = worst_square = np.zeros(len(w))
    for i in range(plan.tau):
        gradients = problem.sample_gradients(w)
        _, variance, square = moments(problem, gradients, plan.batch)
        worst_variance, worst_square = np.maximum(worst_variance, variance), np.maximum(worst_square, square)
        picked = (uniform[i] * problem.sizes[:, None]).astype(np.int64)
        batch = np.take_along_axis(gradients, picked[..., None], axis=1)
        w = w - theorem.step_size(version * plan.tau + i) * batch.mean(1)
    return w, worst_variance, worst_square


@dataclass(frozen=True)
class Result:
    """Gaps by seed and round, and the two bounds."""

    theorem: Theorem
    t: NDArray[np.int64]
    gaps: Array
    without_replacement: Array
    measured_bound: Array
    certain_bound: Array


def experiment(problem: Ridge, plan: Plan, seeds: int) -> Result:
    """Run every seed with and without replacement."""
    theorem = Theorem(problem, plan)
    runs = [run(theorem, seed) for seed in range(seeds)]
    variance = np.max([noise.variance for _, noise in runs], axis=0)
    measured = Noise(variance, max(noise.square for _, noise in runs))
    without = np.array([run(theorem, seed, WITHOUT)[0] for seed in range(seeds)])
    t = plan.tau * np.arange(1, plan.rounds + 1)
    bounds = theorem.bound(t, measured), theorem.bound(t, theorem.over_the_ball())
    return Result(theorem, t, np.array([gaps for gaps, _ in runs]), without, *bounds)


def draw(results: Sequence[Result], out: Path) -> None:
    """Draw gaps and bounds over the steps, one panel a result."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5 * len(results), 4.4), layout="constrained")
    panels = figure.subplots(1, len(results), sharey=True, squeeze=False)[0]
    for axes, result in zip(panels, results, strict=True):
        t = result.t
        axes.loglog(t, result.certain_bound, "k:", label="bound, G over a ball no run can leave")
        axes.loglog(t, result.measured_bound, "k--", label="bound, G measured along the runs")
        axes.fill_between(t, result.gaps.min(0), result.gaps.max(0), color="#0072B2", alpha=0.2, lw=0)
        axes.loglog(t, result.gaps.mean(0), color="#0072B2", label="gap, drawn with replacement (mean, range)")
        axes.loglog(t, result.without_replacement.mean(0), "#D55E00", label="gap, without replacement (mean)")
        axes.set(xlabel="local steps t", title=caption(result))
        axes.title.set_fontsize(9)
    panels[0].set_ylabel("E[F(θ(t))] − F*")
    panels[0].legend(fontsize=8)
    figure.savefig(out, dpi=150)


def caption(result: Result) -> str:
    """Say what a panel shows."""
    theorem, plan = result.theorem, result.theorem.plan
    return (
        f"N = {len(theorem.problem.sizes)}, K = {plan.cohort}, τ = {plan.tau}, {len(result.gaps)} seeds; "
        f"L = {theorem.smoothness:.2f}, μ = {theorem.convexity:.2f}, "
        f"Γ = {theorem.problem.heterogeneity:.2f}, Δ₁ = {theorem.first_distance:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the gap of Theorem 1 and draw it under its bound.")
    parser.add_argument("--out", type=Path, default=Path("theorem1.png"))
    parser.add_argument("--steps", type=int, default=2000, help="local steps in all")
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    problem = make_problem(seed=0)
    results = [experiment(problem, Plan(options.steps // tau, tau), options.seeds) for tau in (1, 5)]
    draw(results, options.out)
    print("tau     t   gap (with)   gap (without)   bound (measured G)   bound (ball)")
    for result in results:
        for i in np.unique(np.geomspace(1, len(result.t), 5).astype(int)) - 1:
            gaps = f"{result.gaps.mean(0)[i]:10.6f}   {result.without_replacement.mean(0)[i]:13.6f}"
            bounds = f"{result.measured_bound[i]:18.4f}   {result.certain_bound[i]:12.2f}"
            print(f"{result.theorem.plan.tau:3d} {result.t[i]:5d}   {gaps}   {bounds}")


if __name__ == "__main__":
    main()
