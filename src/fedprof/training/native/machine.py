"""What this machine's vector units can do, and the type that carries it into every compiled kernel."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path
from typing import Any

import numba
from llvmlite import binding
from numba import extending, types
from numba.extending import models, register_model, typeof_impl

from fedprof.errors import SettingsError

_numba: Any = numba
_extending: Any = extending
intrinsic: Any = extending.intrinsic
"""Numba's decorator, whose result it types as taking the arguments of the code generator, not those of the caller."""
LANES_VARIABLE = "FEDPROF_NATIVE_LANES"
"""Environment variable that caps the vector width, in floats (4, 8 or 16)."""
SMALL_BATCH = 8
"""Batches up to this size need no more lanes than this."""


@cache
def features() -> frozenset[str]:
    """Names of the instruction sets Numba compiles for here."""
    if _numba.config.CPU_NAME == "generic":
        return frozenset()
    if _numba.config.CPU_FEATURES:
        return frozenset(name[1:] for name in _numba.config.CPU_FEATURES.split(",") if name.startswith("+"))
    return frozenset(name for name, present in binding.get_host_cpu_features().items() if present)


def fused_multiply_add() -> bool:
    """Whether ``a * b + c`` is one instruction; where it is not, asking for it would call a slow library function."""
    return "fma" in features() or not binding.get_default_triple().startswith(("x86_64", "i686", "i386"))


def registers() -> int:
    """Vector registers a tile may count on."""
    return 16 if "avx512vl" not in features() and binding.get_default_triple().startswith(("x86_64", "i")) else 32


@cache
def widest() -> int:
    """Floats in the widest vector worth using."""
    asked = os.environ.get(LANES_VARIABLE)
    if asked is not None:
        if asked not in {"4", "8", "16"}:
            raise SettingsError(f"{LANES_VARIABLE} is {asked!r}; it must be 4, 8 or 16")
        return int(asked)
    if "avx512f" in features() and "avx512vl" in features():
        return 16
    return 8 if "avx2" in features() else 4


def lanes_for(batch: int) -> int:
    """Floats in a vector when a batch has this many samples."""
    return min(widest(), SMALL_BATCH) if batch <= SMALL_BATCH else widest()


@cache
def _fingerprint() -> str:
    """Hash of this package's sources: Numba's cache sees a change in one file only, a kernel spans several."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class Width:
    """First argument of every kernel: a value without content whose type says how wide vectors are.

    Being part of the signature it is part of Numba's cache key, and so is the fingerprint of the sources. Module
    constants are not: a cached kernel would go on using old ones.
    """

    def __init__(self, lanes: int) -> None:
        self.type = WidthType(lanes, f"Width({lanes}, {registers()}, {fused_multiply_add()}, {_fingerprint()})")


class WidthType(types.Type):
    """Numba's type of a ``Width``."""

    def __init__(self, lanes: int, key: str) -> None:
        self.lanes = lanes
        super().__init__(name=key)


@typeof_impl.register(Width)
def _typeof_width(value: Width, _context: object) -> WidthType:
    return value.type


register_model(WidthType)(models.OpaqueModel)


@_extending.unbox(WidthType)
def _unbox_width(_type: WidthType, _value: object, context: Any) -> Any:
    return _extending.NativeValue(context.context.get_dummy_value())
