"""A picture of what each kind of client holds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedprof.data.clients import ClientData
from fedprof.data.statistics import is_image

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[Any]
_SHOWN_IMAGES = 12
_SHOWN_FEATURES = 9


def preview(data: ClientData, path: Path | str, *, features: Sequence[str] | None = None) -> Path:
    """Draw, for each kind of client that exists, samples of its first client (images) or all its values (tables).

    ``features`` names the columns of a table. The file's ending chooses the format: PNG, PDF or SVG.
    """
    shown = [kind for kind in data.kinds if len(_clients_of(data, kind))]
    figure = _images(data, shown) if is_image(data.pool.x) else _tables(data, shown, features)
    figure.savefig(path, dpi=120)
    return Path(path)


def _clients_of(data: ClientData, kind: str) -> NDArray[np.intp]:
    return np.flatnonzero(data.kind == data.kinds.index(kind)) if kind in data.kinds else np.zeros(0, np.intp)


def _title(data: ClientData, kind: str) -> str:
    clients = len(_clients_of(data, kind))
    return f"{kind}\n{clients} client{'s' if clients != 1 else ''}"


def _grid(rows: int, columns: int, width: float, height: float) -> tuple[Figure, NDArray[Any]]:
    """A figure of its own, apart from pyplot's global list of figures."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.4 + columns * width, 0.3 + rows * height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _images(data: ClientData, kinds: Sequence[str]) -> Figure:
    figure, grid = _grid(len(kinds), _SHOWN_IMAGES, 0.8, 1.0)
    low, high = np.float32(data.pool.x[:1000].min()), np.float32(data.pool.x[:1000].max())
    for axes, kind in zip(grid, kinds, strict=True):
        rows = data.rows_of(int(_clients_of(data, kind)[0]))
        images = (_shown(data.pool.x[rows]) - low) / (high - low or 1)
        _image_row(axes, images, data.pool.targets(rows))
        _name_row(axes[0], _title(data, kind))
    return figure


def _shown(images: Array) -> NDArray[np.float32]:
    """The first images; of channels that are no colours, the mean."""
    first: NDArray[np.float32] = images[:_SHOWN_IMAGES].astype(np.float32)
    return first if first.shape[1] in (1, 3) else first.mean(axis=1, keepdims=True)


def _image_row(axes: NDArray[Any], images: Array, labels: Array) -> None:
    for axis in axes:
        axis.set(xticks=[], yticks=[], frame_on=False)
    for axis, image, label in zip(axes, images, labels, strict=False):
        axis.imshow(image.clip(0, 1).transpose(1, 2, 0), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axis.set_title(str(label), fontsize=7, pad=2)


def _tables(data: ClientData, kinds: Sequence[str], names: Sequence[str] | None) -> Figure:
    """Histograms of the first features, with the normal clients' in grey behind all others."""
    columns = min(_SHOWN_FEATURES, data.pool.x.shape[1])
    names = names or [f"feature {i + 1}" for i in range(columns)]
    held = {kind: _values(data, kind) for kind in kinds}
    usual = held.get(data.kinds[0], next(iter(held.values())))
    figure, grid = _grid(len(kinds), columns, 1.2, 1.2)
    for axes, kind in zip(grid, kinds, strict=True):
        for axis, column in zip(axes, range(columns), strict=True):
            _histogram(axis, usual[:, column], held[kind][:, column])
            axis.set_title(names[column] if kind == kinds[0] else "", fontsize=8)
        _name_row(axes[0], _title(data, kind))
    return figure


def _values(data: ClientData, kind: str) -> Array:
    return np.concatenate([data.pool.x[data.rows_of(int(client))] for client in _clients_of(data, kind)])


def _histogram(axis: Axes, usual: Array, values: Array) -> None:
    both = np.concatenate([usual, values])
    bins = np.linspace(both.min(), both.max(), 40).tolist() if np.ptp(both) else 10
    axis.hist(usual, bins, density=True, color="0.8")
    axis.hist(values, bins, density=True, histtype="step", color="C0")
    axis.set_yticks([])
    axis.tick_params(labelsize=6)


def _name_row(axis: Axes, title: str) -> None:
    axis.set_ylabel(title, rotation=0, ha="right", va="center", fontsize=8)
