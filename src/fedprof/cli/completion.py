"""What the shell may complete: names of tasks, algorithms, figures and data sets. None of this imports PyTorch."""

from __future__ import annotations


def tasks(incomplete: str) -> list[str]:
    """Names of tasks."""
    from fedprof.tasks.load import PRESETS

    return [name for name in PRESETS if name.startswith(incomplete)]


def algorithms(incomplete: str) -> list[str]:
    """Names of algorithms; after a comma, the next one."""
    from fedprof.algorithms.registry import NAMES

    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in NAMES if name.startswith(last)]


def sources(incomplete: str) -> list[str]:
    """Names of public data sets."""
    from fedprof.data.catalogue import SOURCES

    return [name for name in SOURCES if name.startswith(incomplete)]


def figures(incomplete: str) -> list[str]:
    """Names of figures."""
    from fedprof.cli.figure import FIGURES

    return [name for name in FIGURES if name.startswith(incomplete)]
