"""Writing files so that a crash never leaves half of one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from fedprof.errors import StoreError


def write_text(path: Path, text: str) -> Path:
    """Write a text file whole or not at all."""
    return write(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def write(path: Path, fill: Callable[[Path], object]) -> Path:
    """Let ``fill`` write a temporary file beside ``path`` (with its ending), then put it in place."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            fill(temporary)
            temporary.chmod(0o644)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"Cannot write {path}: {error}") from error
    return path
