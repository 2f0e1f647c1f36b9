"""Reading pickles that can do nothing: arrays and plain containers, or an error.

CIFAR-10 is published as Python pickles, and a pickle may run any code when it is read. This reader resolves only the
names that a NumPy array needs; anything else is refused before it is called.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from fedprof.errors import DataError

_reconstruct: Callable[..., Any] = np.zeros(0).__reduce__()[0]  # type: ignore[assignment]  # NumPy's own, wherever it moved

_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return _ADMITTED[module, name]

    def persistent_load(self, pid: object) -> Any:
        raise pickle.UnpicklingError(f"it refers to {pid!r} outside itself")


def read_pickle(content: bytes, where: str) -> Any:
    """Read arrays and plain containers; byte strings of Python 2 stay bytes. ``where`` names the file in errors."""
    try:
        return _Reader(io.BytesIO(content), encoding="bytes").load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, IndexError, KeyError, AttributeError) as error:
        raise DataError(f"{where} is not a pickle of plain arrays ({error}); delete it and fetch it again") from error
