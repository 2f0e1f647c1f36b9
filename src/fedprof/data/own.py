"""A user's own samples: from a CSV file, a NumPy archive, or a folder of images with one sub-folder a class.

Every reader returns `Samples` and rejects what would go wrong later, saying where it is: in which file, row and column.
"""

from __future__ import annotations

import csv
import difflib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedprof.data.clients import Samples
from fedprof.data.sources import Raw
from fedprof.errors import DataError

Array = NDArray[Any]
_LARGEST_LABEL = 2**31
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")


def from_arrays(x: Array, y: Array, *, classes: int | None = None, where: str = "the arrays") -> Samples:
    """Check arrays and bring them into the package's form.

    Inputs: ``(n, features)``, ``(n, height, width)`` (a channel is added) or ``(n, channels, height, width)``; uint8
    images stay as they are, all else becomes float32. Targets: integer labels ``(n,)``, at least 0 and below
    ``classes`` if that is given, or numbers ``(n,)`` or ``(n, outputs)`` for regression.
    """
    x, y = np.atleast_1d(x), np.atleast_1d(y)
    if len(x) != len(y):
        raise DataError(f"{where}: {len(x)} inputs but {len(y)} targets")
    return Samples(_inputs(x, where), _labels(y, classes, where) if _are_labels(y) else _numbers(y, where))


def from_csv(
    path: Path | str,
    *,
    features: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
    label: str | None = None,
    classes: int | None = None,
) -> Samples:
    """Read a comma-separated table with a header.

    Name the ``targets`` (regression) or the ``label`` (a column of class numbers from 0); a column called ``label`` is
    found without being named. ``features`` are all other columns unless named.
    """
    path = Path(path)
    header, rows = _table(path)
    inputs, wanted = _roles(header, features, targets, label)
    values = _parsed(rows, _positions(header, [*inputs, *wanted], path), header, path)
    x, y = values[:, : len(inputs)], values[:, len(inputs) :]
    return from_arrays(x, y if targets else _whole(y[:, 0], path, wanted[0]), classes=classes, where=str(path))


def csv_features(path: Path, columns: Mapping[str, Any]) -> list[str]:
    """Name the columns that ``from_csv(path, **columns)`` takes for features."""
    return _roles(_table(path)[0], *(columns.get(role) for role in ("features", "targets", "label")))[0]


def from_npz(path: Path | str, *, classes: int | None = None) -> Samples:
    """Read a NumPy archive that holds the arrays ``x`` and ``y`` (see `from_arrays`)."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            arrays = np.load(file, allow_pickle=False)
            names = list(getattr(arrays, "files", []))
            if missing := {"x", "y"} - set(names):
                raise DataError(f"{path} lacks the array {' and '.join(sorted(missing))}: it has {names}")
            return from_arrays(arrays["x"], arrays["y"], classes=classes, where=str(path))
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} cannot be read as a NumPy archive: {error}") from error


def from_image_folders(path: Path | str, *, names: Sequence[str] | None = None) -> Samples:
    """Read ``path/CLASS/*.png`` (or JPEG, BMP, GIF, TIFF, WebP): classes are numbered in the order of their names.

    ``names`` states all classes where a folder may lack some. All images must have one size; if any has colours, all
    become RGB, else grey.
    """
    path = Path(path)
    names = class_names(path) if names is None else names
    found = [(file, names.index(file.parent.name)) for name in names for file in _image_files(path / name)]
    if not found:
        raise DataError(f"{path} holds no images: put them into one folder a class, {path / 'CLASS' / 'image.png'}")
    images = [_image(file) for file, _ in found]
    _require_one_size(images, [file for file, _ in found])
    grey = all(image.shape[0] == 1 for image in images)
    x = np.stack(images if grey else [np.broadcast_to(image, (3, *image.shape[1:])) for image in images])
    return from_arrays(x, np.array([label for _, label in found]), classes=len(names), where=str(path))


def class_names(path: Path) -> list[str]:
    """The sub-folders of a folder, in order; hidden ones do not count."""
    if not path.is_dir():
        raise DataError(f"{path} is not a folder")
    return sorted(entry.name for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def as_raw(train: Samples, test: Samples | None = None) -> Raw:
    """Own samples in the form a task's source has, to be dealt out to clients and damaged as a task's settings say."""
    test = test or Samples(train.x[:0], train.y[:0])
    labels = np.issubdtype(train.y.dtype, np.integer)
    classes = 1 + max(int(train.y.max()), int(test.y.max(initial=0))) if labels else 0
    return Raw(train.x, train.y, test.x, test.y, classes)


def _inputs(x: Array, where: str) -> Array:
    if x.ndim not in (2, 3, 4) or not (np.issubdtype(x.dtype, np.number) or x.dtype == np.bool_):
        raise DataError(f"{where}: inputs are {x.dtype} of shape {x.shape}, not numbers (n, features) or images")
    if 0 in x.shape[1:]:
        raise DataError(f"{where}: inputs have no values, their shape is {x.shape}")
    if x.ndim == 4 and x.shape[1] not in (1, 3) and x.shape[3] in (1, 3):
        raise DataError(f"{where}: images of shape {x.shape[1:]} have their channels last; use x.transpose(0, 3, 1, 2)")
    x = x[:, None] if x.ndim == 3 else x
    return x if x.dtype == np.uint8 and x.ndim == 4 else _finite(x, "inputs", where)


def _are_labels(y: Array) -> bool:
    return y.ndim == 1 and np.issubdtype(y.dtype, np.integer)


def _labels(y: Array, classes: int | None, where: str) -> NDArray[np.int64]:
    """Class numbers, in range."""
    outside = np.flatnonzero((y < 0) | (y >= (np.inf if classes is None else classes)))
    if len(outside):
        limit = "0 or more" if classes is None else f"0 to {classes - 1}"
        raise DataError(f"{where}: label {y[outside[0]]} of sample {outside[0]} is out of range; labels are {limit}")
    return y.astype(np.int64)


def _numbers(y: Array, where: str) -> NDArray[np.float32]:
    """Regression targets, one row a sample."""
    if y.ndim not in (1, 2) or not np.issubdtype(y.dtype, np.number):
        raise DataError(f"{where}: targets are {y.dtype} of shape {y.shape}, not labels (n,) or numbers (n, outputs)")
    return _finite(y.reshape(len(y), -1), "targets", where)


def _finite(given: Array, what: str, where: str) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # what is too large for float32 becomes infinite and is reported
        values = given.astype(np.float32, copy=False)
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        at = tuple(bad[0].tolist())
        raise DataError(
            f"{where}: {len(bad)} {what} are not finite float32 numbers, the first at {at}: fill or drop them"
        )
    return values


def _table(path: Path) -> tuple[list[str], list[list[str]]]:
    """Header and rows, each of the header's length; blank lines do not count."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = [[field.strip() for field in line] for line in csv.reader(file)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as a CSV file: {error}") from error
    header = lines[0] if lines else []
    if len([line for line in lines if line]) < 2:
        raise DataError(f"{path} is empty: it needs a line of column names and at least one row")
    if len(set(header)) < len(header):
        raise DataError(f"{path} has two columns of the same name: {', '.join(header)}")
    for number, line in enumerate(lines, start=1):
        if line and len(line) != len(header):
            raise DataError(f"{path}, line {number}: {len(line)} values for {len(header)} columns")
    return header, [line for line in lines[1:] if line]


def _roles(
    header: list[str], features: Sequence[str] | None, targets: Sequence[str] | None, label: str | None
) -> tuple[list[str], list[str]]:
    """Which columns are features, and which is the label or are the targets."""
    if targets and label is not None:
        raise DataError("name targets (numbers to predict) or a label (a class), not both")
    wanted = list(targets or [label or "label"])
    return [name for name in header if name not in wanted] if features is None else list(features), wanted


def _positions(header: list[str], wanted: list[str], path: Path) -> list[int]:
    for name in wanted:
        if name not in header:
            near = difflib.get_close_matches(name, header, n=1, cutoff=0.4)
            hint = f"did you mean '{near[0]}'?" if near else f"it has {', '.join(header)}"
            raise DataError(f"{path} has no column '{name}': {hint}")
    return [header.index(name) for name in wanted]


def _parsed(rows: list[list[str]], columns: list[int], header: list[str], path: Path) -> NDArray[np.float64]:
    """The wanted columns as finite numbers."""
    try:
        values = np.array([[float(row[column]) for column in columns] for row in rows])
        if np.isfinite(values).all():
            return values
    except ValueError:
        pass
    number, column = next((i, c) for i, row in enumerate(rows, start=1) for c in columns if not _is_number(row[c]))
    content = f"'{rows[number - 1][column]}' is not a finite number"
    raise DataError(f"{path}, row {number}, column '{header[column]}': {content}; correct, fill or drop it")


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _whole(values: NDArray[np.float64], path: Path, label: str) -> NDArray[np.int64]:
    broken = np.flatnonzero((values != np.rint(values)) | (np.abs(values) > _LARGEST_LABEL))
    if len(broken):
        row = broken[0]
        raise DataError(f"{path}, row {row + 1}, column '{label}': {values[row]:g} is not a class number 0, 1, 2, ...")
    return values.astype(np.int64)


def _image_files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.glob("[!.]*") if file.suffix.lower() in IMAGES)


def _image(file: Path) -> NDArray[np.uint8]:
    """One image, channels first: grey as it is, anything else as RGB."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(file) as image:
            pixels = np.asarray(image.convert("L" if image.mode in ("1", "L") else "RGB"))
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise DataError(f"{file} cannot be read as an image: {error}") from error
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def _require_one_size(images: list[NDArray[np.uint8]], files: list[Path]) -> None:
    height, width = images[0].shape[1:]
    odd = [(file, image.shape) for file, image in zip(files, images, strict=True) if image.shape[1:] != (height, width)]
    if odd:
        shown = ", ".join(f"{file} ({shape[2]} x {shape[1]})" for file, shape in odd[:3])
        raise DataError(
            f"images must have one size: {files[0]} is {width} x {height}, but {len(odd)} differ, such as {shown}"
        )
