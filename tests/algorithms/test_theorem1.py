"""Theorem 1 on ridge regression: the constants are right and the measured gap stays under the bound, every round."""

import sys
from importlib import util
from pathlib import Path

import numpy as np
import pytest

from fedprof.algorithms.fedprof import FedProf
from fedprof.randomness import stream

EXAMPLE = Path(__file__).parents[2] / "examples" / "theorem1.py"


@pytest.fixture(scope="module")
def example():
    spec = util.spec_from_file_location("theorem1", EXAMPLE)
    module = util.module_from_spec(spec)
    sys.modules["theorem1"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["theorem1"]


@pytest.fixture(scope="module", params=[1, 5], ids=["tau 1", "tau 5"])
def result(example, request):
    plan = example.Plan(rounds=300 // request.param, tau=request.param)
    return example.experiment(example.make_problem(seed=0), plan, seeds=4)


def test_the_mean_gap_stays_under_the_bound_in_every_round(result):
    assert (result.gaps.mean(0) < result.measured_bound).all()
    assert (result.measured_bound < result.certain_bound).all()


def test_the_gap_shrinks_as_fast_as_the_bound_promises(result):
    """Both fall as 1 / t in the end."""
    gap, bound = result.gaps.mean(0), result.measured_bound
    assert gap[-1] / gap[0] < bound[-1] / bound[0]


@pytest.mark.parametrize("tau", [1, 5])
def test_other_penalties_end_at_another_optimum(example, tau):
    """Uniform draws (alpha = 0) minimise another sum of the F_k, and their gap stops shrinking."""
    theorem = example.Theorem(example.make_problem(seed=0), example.Plan(rounds=1500 // tau, tau=tau))
    last = slice(-len(range(0, 1500, tau)) // 4, None)

    def end(algorithm):
        return np.mean([example.run(theorem, seed, algorithm)[0][last] for seed in range(3)])

    assert end(FedProf(alpha=0, replace=True)) > 8 * end(example.WITH)


def test_the_bound_decreases_and_the_step_is_short_enough(result):
    theorem = result.theorem
    assert (np.diff(result.measured_bound) < 0).all()
    assert theorem.step_size(1) <= min(1 / theorem.convexity, 1 / (4 * theorem.smoothness)) + 1e-12
    for t in range(50):
        assert theorem.step_size(t) <= 2 * theorem.step_size(t + theorem.plan.tau)


def test_no_run_leaves_the_ball(example):
    """The measured gradients never exceed the ones assumed over the ball."""
    theorem = example.Theorem(example.make_problem(seed=0), example.Plan(rounds=30, tau=5))
    ball = theorem.over_the_ball()
    _, measured = example.run(theorem, 0)
    assert measured.square < ball.square
    assert (measured.variance < ball.variance).all()


def test_delta_one_is_the_expected_distance_after_the_first_step(example):
    theorem = example.Theorem(example.make_problem(seed=0), example.Plan(rounds=1, tau=1))
    problem, start = theorem.problem, np.zeros(theorem.problem.x.shape[2], np.float32)
    distances = []
    for seed in range(3000):
        local, _, _ = example.train(theorem, start, 0, seed)
        drawn = stream(seed, "judge").choice(len(problem.sizes), theorem.plan.cohort, p=problem.rho)
        distances.append(np.square(local[drawn].mean(0) - problem.optimum).sum())
    error = np.std(distances) / np.sqrt(len(distances))
    assert theorem.first_distance == pytest.approx(np.mean(distances), abs=4 * error)
    assert 4 * error < 0.02 * theorem.first_distance


def test_the_optimum_and_gamma_agree_with_gradients(example):
    problem = example.make_problem(seed=3)
    here = np.tile(problem.optimum, (len(problem.sizes), 1))
    gradients, _, _ = example.moments(problem, problem.sample_gradients(here), batch=1)
    np.testing.assert_allclose(problem.rho @ gradients, 0, atol=1e-12)
    assert problem.heterogeneity > 0
    # by smoothness and strong convexity, |grad F_k|^2 / 2L <= F_k(theta*) - F_k* <= |grad F_k|^2 / 2 mu
    theorem, squares = example.Theorem(problem, example.Plan(1, 1)), (gradients**2).sum(1)
    assert problem.rho @ squares / (2 * theorem.smoothness) <= problem.heterogeneity
    assert problem.heterogeneity <= problem.rho @ squares / (2 * theorem.convexity)


def test_the_command_draws_the_figure(example, tmp_path, monkeypatch, capsys):
    out = tmp_path / "theorem1.png"
    monkeypatch.setattr("sys.argv", ["theorem1.py", "--out", str(out), "--steps", "20", "--seeds", "2"])
    example.main()
    assert out.read_bytes().startswith(b"\x89PNG")
    assert "bound (measured G)" in capsys.readouterr().out
