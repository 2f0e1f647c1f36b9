"""From a preset's name or a TOML file, and ``key=value`` overrides, to checked settings of one run."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from fedprof.algorithms import registry
from fedprof.algorithms.base import Algorithm
from fedprof.errors import SettingsError, unknown
from fedprof.tasks.settings import Settings

PRESETS = ("digits", "gasturbine", "emnist", "cifar10", "mnist")
CHOICES = ("algorithm", "aggregation", "rounds", "seed")
Tree = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Plan:
    """Everything that decides a run's results, besides the machine and the versions."""

    settings: Settings
    algorithm: str = "fedprof"
    seed: int = 0
    rounds: int = 1

    @property
    def server(self) -> Algorithm:
        """The algorithm with its hyper-parameters."""
        return registry.create(self.algorithm, self.settings.algorithms.get(self.algorithm))

    def describe(self) -> Tree:
        """Everything but the number of rounds (a run may be prolonged), as plain values."""
        settings = self.settings.model_dump(mode="json")
        chosen = {self.algorithm: {name: getattr(self.server, name) for name in registry.parameters(type(self.server))}}
        return {"algorithm": self.algorithm, "seed": self.seed, **settings, "algorithms": chosen}


def plan(
    task: str | Path,
    *,
    algorithm: str | None = None,
    aggregation: str | None = None,
    rounds: int | None = None,
    seed: int | None = None,
    overrides: Iterable[str] = (),
) -> Plan:
    """Settle a run: preset or file first, then overrides, then the explicit choices."""
    tree, choices = read(task)
    explicit = {"algorithm": algorithm, "aggregation": aggregation, "rounds": rounds, "seed": seed}
    choices |= {key: value for key, value in explicit.items() if value is not None}
    name = str(choices.get("algorithm", "fedprof"))
    cls = registry.find(name)
    for override in overrides:
        _apply(tree, override, name, cls)
    _set_aggregation(tree, name, cls, choices.get("aggregation"))
    settings = check(tree)
    for other in settings.algorithms:
        if ":" not in other and other not in registry.NAMES:
            raise unknown("algorithm", other, registry.NAMES, "; your own: package.module:Class")
    server = registry.create(name, settings.algorithms.get(name))
    default = getattr(settings.federation.rounds, server.combines.mode)
    return Plan(
        settings, name, _whole("seed", choices.get("seed", 0), 0), _whole("rounds", choices.get("rounds", default), 1)
    )


def read(task: str | Path) -> tuple[Tree, Tree]:
    """Read a preset, or a user's file (which may build on a preset with ``task = "..."``)."""
    if str(task) in PRESETS:
        text = files("fedprof.tasks").joinpath("presets", f"{task}.toml").read_text(encoding="utf-8")
        return tomllib.loads(text), {}
    path = Path(task)
    if path.suffix != ".toml":
        raise unknown("task", str(task), PRESETS, "; your own: a .toml file")
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        raise SettingsError(f"There is no file {path}" if missing else f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}") from error
    choices = {key: tree.pop(key) for key in CHOICES if key in tree}
    base = tree.pop("task", None)
    tree.setdefault("name", path.stem)
    if base is None:
        return tree, choices
    if base not in PRESETS:
        raise unknown("task", str(base), PRESETS, f": {path} can build on one of these")
    return merge(_without_replaced(read(base)[0], tree), tree), choices


def _without_replaced(base: Tree, change: Mapping[str, Any]) -> Tree:
    """What a file builds on: own damage stands for all damage, an own source or model for all that goes with it."""
    tables = {name: table for name, table in change.items() if isinstance(table, Mapping)}
    replaced = {table for table, key in (("data", "source"), ("model", "name")) if key in tables.get(table, {})}
    replaced |= {"damage"} & change.keys()
    return {key: value for key, value in base.items() if key not in replaced}


def merge(base: Tree, change: Mapping[str, Any]) -> Tree:
    """Lay one tree over another."""
    merged = dict(base)
    for key, value in change.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def check(tree: Tree) -> Settings:
    """Check a tree against the schema; every problem is named with its place and what is allowed there."""
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        raise SettingsError("\n".join(_explain(problem) for problem in error.errors())) from error


def keys(model: type[BaseModel] = Settings, prefix: str = "") -> list[str]:
    """All settings of the schema as dotted paths."""
    found: list[str] = []
    for name, field in model.model_fields.items():
        kind = field.annotation
        nested = isinstance(kind, type) and issubclass(kind, BaseModel)
        found += keys(kind, f"{prefix}{name}.") if nested else [prefix + name]  # type: ignore[arg-type]
    return found


def _apply(tree: Tree, override: str, algorithm: str, cls: type[Algorithm]) -> None:
    key, equals, text = override.partition("=")
    if not equals:
        raise SettingsError(f"--set wants key=value, got '{override}'")
    path, mine = _resolve(key.strip(), tree, algorithm, cls), f"algorithms.{algorithm}."
    *parents, leaf = ["algorithms", algorithm, path.removeprefix(mine)] if path.startswith(mine) else path.split(".")
    place = tree
    for parent in parents:
        place = place.setdefault(parent, {})
        if not isinstance(place, dict):
            raise SettingsError(f"'{key}' goes into '{parent}', which is a single value")
    if path == "model.name":
        place.clear()  # the options, and the layer, are another model's
    place[leaf] = _value(text.strip())


def _resolve(key: str, tree: Tree, algorithm: str, cls: type[Algorithm]) -> str:
    """Find the dotted path a user means: whole, or just its unmistakable end."""
    if key in registry.parameters(cls):
        return f"algorithms.{algorithm}.{key}"
    common = {name: table for name, table in tree.items() if name != "algorithms"}
    known = list(dict.fromkeys([*keys(), *_leaves(common)]))
    free = ("damage.", "model.options.", "algorithms.")
    if key in known or (key.startswith(free) and key.count(".") >= 2):
        return key
    ends = [path for path in known if path.endswith("." + key)]
    if len(ends) == 1:
        return ends[0]
    if ends:
        raise SettingsError(f"'{key}' could be {' or '.join(ends)}: write the whole")
    raise _no_setting(key, known, algorithm)


def _no_setting(key: str, known: Sequence[str], algorithm: str) -> SettingsError:
    """Say whose setting it is instead, or which one may be meant."""
    owners = {name: registry.parameters(registry.find(name)) for name in (*registry.NAMES, algorithm)}
    if others := [name for name, theirs in owners.items() if key in theirs]:
        return SettingsError(f"'{key}' is a setting of {' and '.join(others)}, not of {algorithm}")
    near = get_close_matches(key, [*known, *(path.rsplit(".")[-1] for path in known), *chain(*owners.values())], n=1)
    hint = f"Did you mean '{near[0]}'?" if near else "`fedprof tasks show TASK` lists the settings."
    return SettingsError(f"There is no setting '{key}'. {hint}")


def _leaves(tree: Tree, prefix: str = "") -> list[str]:
    found: list[str] = []
    for name, value in tree.items():
        found += _leaves(value, f"{prefix}{name}.") if isinstance(value, dict) else [prefix + name]
    return found


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _set_aggregation(tree: Tree, name: str, cls: type[Algorithm], aggregation: object) -> None:
    if aggregation is None:
        return
    if aggregation not in ("full", "partial"):
        raise SettingsError(f"aggregation = '{aggregation}': allowed are 'full' and 'partial'")
    if "aggregation" in registry.parameters(cls):
        tree.setdefault("algorithms", {}).setdefault(name, {})["aggregation"] = aggregation
        return
    mode = registry.create(name).combines.mode
    if mode != aggregation:
        raise SettingsError(f"{name} aggregates in {mode} mode only; algorithms with both: fedprof")


def _whole(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**31:
        raise SettingsError(f"{name} = {value!r}: a whole number from {least} to {2**31 - 1} is wanted")
    return value


def _explain(problem: Mapping[str, Any]) -> str:
    location: Sequence[int | str] = problem["loc"]
    where = ".".join(str(part) for part in location) or "settings"
    if problem["type"] == "extra_forbidden":
        near = get_close_matches(where, keys(), n=1)
        return f"There is no setting '{where}'." + (f" Did you mean '{near[0]}'?" if near else "")
    if problem["type"] == "missing":
        return f"{where} is missing"
    value = "" if isinstance(problem["input"], Mapping) else f" = {problem['input']!r}"
    near = get_close_matches(str(problem["input"]), re.findall(r"'([^']+)'", problem["msg"]), n=1)
    hint = f". Did you mean '{near[0]}'?" if near and problem["type"] == "literal_error" else ""
    return f"{where}{value}: {problem['msg'].removeprefix('Value error, ')}{hint}"
