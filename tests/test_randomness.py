"""Streams are pure functions of their names, apart from one another, and all the randomness there is."""

import ast
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

import fedprof
from fedprof import stream
from fedprof.randomness import integer_seed

PACKAGE = Path(fedprof.__file__).parent
NAMES = st.tuples(st.integers(), st.text(), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
GLOBAL = {"seed", "manual_seed", "set_rng_state", "set_state"}


def draws(*name, n=8):
    return stream(*name).integers(2**63, size=n).tolist()


@given(NAMES)
def test_a_stream_depends_on_nothing_but_its_name(name):
    first = stream(*name)
    first.random(1000)  # drawing from one leaves another of the same name where it starts
    assert draws(*name) == draws(*name)


@given(NAMES, NAMES)
def test_another_name_is_another_stream(one, other):
    assert (draws(*one) == draws(*other)) == (one == other)


def test_streams_are_the_same_in_every_process_and_version():
    """Stored runs resume to the bit only while these stand."""
    assert stream(3, "select", 2, 1).integers(1000, size=6).tolist() == [425, 879, 556, 201, 11, 196]


def test_streams_of_neighbours_are_uniform_and_unrelated():
    values = np.array([stream(0, "shuffle", r, k).random(4) for r in range(50) for k in range(40)])
    assert kstest(values.ravel(), "uniform").pvalue > 1e-3
    related = [np.corrcoef(one, other)[0, 1] for one, other in pairwise(values.T)]
    assert np.abs([*related, np.corrcoef(values[:-1, 0], values[1:, 0])[0, 1]]).max() < 4 / np.sqrt(len(values))


def test_an_integer_seed_is_the_streams_first_number():
    assert integer_seed(1, "model") == int(stream(1, "model").integers(2**63))
    assert 0 <= integer_seed(1, "model") < 2**63


@pytest.mark.parametrize("seed", [0.5, "1", None])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(TypeError):
        stream(seed, "select")


def test_a_numpy_integer_is_a_seed_like_any_other():
    assert draws(np.int32(7), "x") == draws(7, "x")


def uses_of_global_generators(source):
    """Every use of Python's, NumPy's or PyTorch's own generator that is not under ``fork_rng``."""
    allowed = {"Generator", "Philox"}
    tree = ast.parse(source)
    forked = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.With) and "fork_rng" in ast.unparse(node.items[-1])
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            yield from (name for name in names if name in {"random", "numpy.random"})
        if not isinstance(node, ast.Attribute) or id(node) in forked:
            continue
        text = ast.unparse(node)
        if text.startswith(("np.random.", "numpy.random.")) and node.attr not in allowed:
            yield text
        if text.startswith("torch") and (node.attr in GLOBAL or node.attr.startswith(("rand", "normal", "bernoulli"))):
            yield text


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_no_module_reads_or_writes_a_global_generator(path):
    assert list(uses_of_global_generators(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "source",
    [
        "import random",
        "from random import choice",
        "np.random.seed(0)",
        "np.random.default_rng()",
        "torch.manual_seed(1)",
        "torch.randn(3)",
        "torch.random.set_rng_state(s)",
    ],
)
def test_a_use_of_a_global_generator_is_caught(source):
    assert list(uses_of_global_generators(source))
