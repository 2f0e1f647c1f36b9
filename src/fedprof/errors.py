"""Typed errors. Each says what was wrong, where, and what to do; the command line prints them without a traceback."""

from collections.abc import Iterable
from difflib import get_close_matches


class FedProfError(Exception):
    """Base of every error a user can cause or meet."""


class ProfileError(FedProfError, ValueError):
    """A representation profile is malformed or does not fit the one it is compared with."""


class LayerError(FedProfError, ValueError):
    """The layer to profile does not exist, never ran, ran twice, or gives an output that cannot be fused."""


class SettingsError(FedProfError, ValueError):
    """A setting is unknown, out of range, or contradicts another."""


class DataError(FedProfError):
    """Data are missing, malformed or fail their checksum."""


class StoreError(FedProfError):
    """A run's store cannot be read, written, or resumed with these settings."""


class MatchingError(FedProfError, ValueError):
    """A message of a matching scheme is malformed, stale or repeated."""


class WorkerError(FedProfError, RuntimeError):
    """A worker process died or met an error."""


class FederationError(FedProfError, RuntimeError):
    """A real federation gave nothing to go on with: too few nodes connected, or no answer could be used."""


class MissingExtraError(FedProfError, ImportError):
    """An optional part is not installed."""

    def __init__(self, extra: str, what: str) -> None:
        super().__init__(f"{what} needs the '{extra}' extra: pip install 'fedprof[{extra}]'")


def unknown(what: str, name: str, known: Iterable[str], others: str = "") -> SettingsError:
    """Say that there is no such thing, which one may be meant, and what there is."""
    names = list(known)
    near = get_close_matches(name.lower().replace("_", "-"), names, n=1, cutoff=0.5)
    hint = f"Did you mean '{near[0]}'? " if near else ""
    return SettingsError(f"There is no {what} '{name}'. {hint}Known: {', '.join(names)}{others}.")
