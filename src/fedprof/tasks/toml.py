"""Writing settings as TOML (Python's own library only reads it)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def dumps(tree: Mapping[str, Any], place: str = "") -> str:
    """Write a tree of tables, numbers, strings, booleans and lists."""
    plain = {key: value for key, value in tree.items() if not isinstance(value, Mapping)}
    tables = {key: value for key, value in tree.items() if isinstance(value, Mapping) and value}
    lines = [f"{_key(key)} = {_value(value)}" for key, value in plain.items()]
    head = [f"[{place}]"] if place and lines else []
    blocks = ["\n".join(head + lines) + "\n"] if lines else []
    blocks += [dumps(value, f"{place}.{_key(key)}".lstrip(".")) for key, value in tables.items()]
    return "\n".join(blocks)


def _key(key: str) -> str:
    return key if key.replace("-", "").replace("_", "").isalnum() else json.dumps(key)


def _value(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value)
