"""Which engine does a workload's training."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from fedprof.errors import SettingsError

if TYPE_CHECKING:
    from fedprof.training.engine import Engine, Workload

NAMES = ("auto", "native", "torch")
_MOST_WORKERS = 8
"""By default; a worker process of the torch engine takes some 250 MB."""


def make_engine(
    workload: Workload,
    name: str = "auto",
    workers: int | None = None,
    device: str = "cpu",
    say: Callable[[str], None] | None = None,
) -> Engine:
    """Make an engine: ``native`` where model and machine allow it, else ``torch``; or the one named.

    ``workers`` is by default the number of CPUs this process may use, eight at most (one on another device). ``say`` is
    told before something that takes long, such as compiling.
    """
    if name not in NAMES:
        raise SettingsError(f"unknown engine {name!r}; there are {', '.join(NAMES)}")
    if workers is not None and workers < 1:
        raise SettingsError(f"workers is {workers}; it takes at least one")
    check_device(device)
    count = workers or (min(_MOST_WORKERS, available_cpus()) if device == "cpu" else 1)
    obstacle = _obstacle_to_native(workload, device, name) if name != "torch" else "the torch engine was asked for"
    if name == "native" and obstacle:
        raise SettingsError(f"the native engine cannot run this task: {obstacle}; use the torch engine")
    return _torch(workload, count, device) if obstacle else _native(workload, count, say)


def check_device(name: str) -> None:
    """Refuse a device that PyTorch does not have here."""
    if name == "cpu":
        return
    import torch

    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # each build of PyTorch has words of its own
        reason = str(error).partition("\n")[0]
        raise SettingsError(f"device {name!r} cannot be used here: {reason}") from None


def available_cpus() -> int:
    """CPUs this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _obstacle_to_native(workload: Workload, device: str, name: str) -> str | None:
    if device != "cpu":
        return f"it runs on the CPU, not on {device}"
    try:
        from fedprof.training.native.engine import slower, supports
    except ImportError as error:  # Numba refuses a Python or a NumPy newer than itself
        obstacle = f"Numba cannot be imported ({error})"
        warnings.warn(f"{obstacle}: PyTorch trains, slower than the native engine", RuntimeWarning, stacklevel=3)
        return obstacle
    return supports(workload) or (slower(workload) if name == "auto" else None)


def _native(workload: Workload, workers: int, say: Callable[[str], None] | None) -> Engine:
    from fedprof.training.native.engine import NativeEngine

    return NativeEngine(workload, workers, say)


def _torch(workload: Workload, workers: int, device: str) -> Engine:
    from fedprof.training.torch_engine import TorchEngine

    return TorchEngine(workload, workers, device)
