"""Algorithms by name or by import path (``package.module:Class``)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from importlib import import_module
from inspect import isabstract

from pydantic import TypeAdapter, ValidationError

from fedprof.algorithms.base import Algorithm
from fedprof.errors import SettingsError, unknown

_HOME = {
    "fedavg": "fedprof.algorithms.fedavg:FedAvg",
    "cfcfm": "fedprof.algorithms.cfcfm:CFCFM",
    "fedavg-rp": "fedprof.algorithms.fedavg_rp:FedAvgRP",
    "fedprox": "fedprof.algorithms.fedprox:FedProx",
    "fedadam": "fedprof.algorithms.fedadam:FedAdam",
    "afl": "fedprof.algorithms.afl:AFL",
    "fedprof": "fedprof.algorithms.fedprof:FedProf",
}
NAMES = tuple(_HOME)


def find(name: str) -> type[Algorithm]:
    """Return the class of an algorithm."""
    path = _HOME.get(name, name)
    if not re.fullmatch(r"[\w.]+:\w+", path) or path.startswith("."):
        raise unknown("algorithm", name, NAMES, "; your own: package.module:Class")
    module, _, attribute = path.partition(":")
    try:
        found: object = getattr(import_module(module), attribute)
    except Exception as error:  # whatever the user's own module does wrong
        raise SettingsError(f"Cannot import the algorithm '{name}': {type(error).__name__}: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Algorithm) and not isabstract(found)):
        raise SettingsError(f"'{name}' is not a subclass of fedprof.algorithms.base.Algorithm with all it asks for")
    if not hasattr(found, "__dataclass_fields__"):
        raise SettingsError(f"'{name}' is not a dataclass: write @dataclass(frozen=True) above the class")
    return found


def parameters(cls: type[Algorithm]) -> dict[str, object]:
    """Name and default of each hyper-parameter."""
    return {field.name: field.default for field in fields(cls)} if is_dataclass(cls) else {}


def create(name: str, settings: Mapping[str, object] | None = None) -> Algorithm:
    """Make an algorithm from its name and hyper-parameters, every one checked."""
    cls, settings = find(name), dict(settings or {})
    known = parameters(cls)
    for key in settings:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f"Did you mean '{near[0]}'? " if near else ""
            raise SettingsError(f"{name} has no parameter '{key}'. {hint}It has: {', '.join(known) or 'none'}.")
    try:
        return TypeAdapter(cls).validate_python(settings)
    except ValidationError as error:
        raise SettingsError(_explain(name, settings, error)) from error


def _explain(name: str, settings: Mapping[str, object], error: ValidationError) -> str:
    allowed: dict[str, list[str]] = {}
    for problem in error.errors():
        allowed.setdefault(str(problem["loc"][0]), []).append(problem["msg"].removeprefix("Input "))
    return "; ".join(f"{name}.{key} = {settings.get(key)!r}: {' or '.join(what)}" for key, what in allowed.items())
