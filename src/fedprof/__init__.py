"""FedProf: selective federated learning with representation profiling.

>>> from fedprof import profile, divergence, scores
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedprof.core.capture import moments, profile
    from fedprof.core.divergence import divergence
    from fedprof.core.profile import Profile
    from fedprof.core.sampling import sample
    from fedprof.core.scores import log_scores, scores
    from fedprof.errors import FedProfError
    from fedprof.randomness import stream

__version__ = "0.1.0"

# Names resolve on first use, so that `import fedprof` costs no PyTorch import.
_HOME = {
    "FedProfError": "fedprof.errors",
    "Profile": "fedprof.core.profile",
    "divergence": "fedprof.core.divergence",
    "log_scores": "fedprof.core.scores",
    "moments": "fedprof.core.capture",
    "profile": "fedprof.core.capture",
    "sample": "fedprof.core.sampling",
    "scores": "fedprof.core.scores",
    "stream": "fedprof.randomness",
}

__all__ = [
    "FedProfError",
    "Profile",
    "__version__",
    "divergence",
    "log_scores",
    "moments",
    "profile",
    "sample",
    "scores",
    "stream",
]


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'fedprof' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
