"""FedProf on a Flower federation: the same algorithm objects behind a Flower strategy.

>>> from fedprof.flower import FedProf, FedProfClientApp
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from fedprof.errors import MissingExtraError

if TYPE_CHECKING:
    from fedprof.flower.client import FedProfClientApp, fedprof_mod, fedprof_query
    from fedprof.flower.strategy import FedProf

# Names resolve on first use, so that a client loads nothing of the server's side.
_HOME = {
    "FedProf": "fedprof.flower.strategy",
    "FedProfClientApp": "fedprof.flower.client",
    "fedprof_mod": "fedprof.flower.client",
    "fedprof_query": "fedprof.flower.client",
}

__all__ = ["FedProf", "FedProfClientApp", "fedprof_mod", "fedprof_query"]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'fedprof.flower' has no attribute {name!r}")
    if find_spec("flwr") is None:
        raise MissingExtraError("flower", "running on a Flower federation")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
