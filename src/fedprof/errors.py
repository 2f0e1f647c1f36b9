"""Typed errors. Each says what was wrong, where, and what to do; the command line prints them without a traceback."""


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
