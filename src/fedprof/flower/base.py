"""The user's own strategy: how many nodes it wants, calling it on nodes already chosen, and what it remembers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from flwr.serverapp.strategy import Strategy
from numpy.typing import NDArray

MEMORY = "base/"
"""In a store: arrays that the base strategy keeps from round to round, such as Adam's moments."""
_EVERYBODY = {
    "fraction_train": 1.0,
    "fraction_evaluate": 1.0,
    "min_train_nodes": 1,
    "min_evaluate_nodes": 1,
    "min_available_nodes": 1,
}


def innermost(base: Strategy) -> Strategy:
    """The strategy that samples nodes: Flower's privacy wrappers keep it as ``strategy``."""
    inner = getattr(base, "strategy", None)
    return innermost(inner) if isinstance(inner, Strategy) else base


@contextmanager
def everybody(base: Strategy) -> Iterator[None]:
    """Inside, the base strategy takes every node of the grid it is shown."""
    sampler = innermost(base)
    before = {name: getattr(sampler, name) for name in _EVERYBODY if hasattr(sampler, name)}
    try:
        for name in before:
            setattr(sampler, name, _EVERYBODY[name])
        yield
    finally:
        for name, value in before.items():
            setattr(sampler, name, value)


def wanted(base: Strategy, purpose: str, among: int) -> int | None:
    """How many of so many nodes the user's own settings ask for, to "train" or "evaluate"; None if they do not say."""
    sampler = innermost(base)
    fraction, least = getattr(sampler, f"fraction_{purpose}", None), getattr(sampler, f"min_{purpose}_nodes", 1)
    if fraction is None:
        return None
    return max(int(among * fraction), least) if fraction else 0


def weighted_by(base: Strategy) -> str | None:
    """The metric by which the base strategy weighs clients, if it does."""
    return getattr(innermost(base), "weighted_by_key", None)


def least_available(base: Strategy) -> int:
    """How many nodes must be connected before a round may begin."""
    sampler = innermost(base)
    names = ("min_available_nodes", "min_train_nodes")
    return max(1, *(int(getattr(sampler, name, 1)) for name in names))


def memory(base: Strategy) -> dict[str, NDArray[Any]]:
    """The arrays a strategy holds in lists and dictionaries (all that Flower's own need to go on exactly)."""
    found: dict[str, NDArray[Any]] = {}
    for name, value in vars(innermost(base)).items():
        items = _items(value)
        found |= {f"{MEMORY}{type(value).__name__}/{name}/{key}": np.asarray(array) for key, array in items}
    return found


def recall(base: Strategy, state: Mapping[str, NDArray[Any]]) -> None:
    """Put back what ``memory`` found."""
    found: dict[str, Any] = {}
    for path, array in state.items():
        if path.startswith(MEMORY):
            kind, name, key = path.removeprefix(MEMORY).split("/", 2)
            if kind == "dict":
                found.setdefault(name, {})[key] = np.array(array)
            else:
                found.setdefault(name, []).append((int(key), np.array(array)))
    for name, value in found.items():
        ordered = value if isinstance(value, dict) else [array for _, array in sorted(value, key=lambda pair: pair[0])]
        setattr(innermost(base), name, ordered)


def held(base: Strategy) -> dict[str, Any]:
    """All that a strategy holds just now, for ``put_back``."""
    return dict(vars(innermost(base)))


def put_back(base: Strategy, attributes: Mapping[str, Any]) -> None:
    """Make a strategy hold again what it ``held``; Flower's own replace their arrays and never change them in place."""
    vars(innermost(base)).clear()
    vars(innermost(base)).update(attributes)


def settings(base: Strategy) -> dict[str, Any]:
    """The numbers, names and switches that the user gave a strategy."""
    plain = (bool, int, float, str)
    return {
        name: value
        for name, value in sorted(vars(innermost(base)).items())
        if isinstance(value, plain) and not name.startswith("_")
    }


def _items(value: object) -> list[tuple[object, Any]]:
    items: list[tuple[object, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    return items if all(isinstance(item, np.ndarray | np.generic) for _, item in items) else []
