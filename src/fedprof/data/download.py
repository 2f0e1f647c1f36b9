"""Fetching public data sets over unreliable networks.

Addresses are tried in turn. A broken transfer is resumed where it stopped, a stalled one is given up and resumed, and
nothing is put in its place before its checksum is right; then it appears all at once.
"""

from __future__ import annotations

import gzip
import http.client
import shutil
import ssl
import tarfile
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from fedprof.data.catalogue import Download, File, Source, data_home
from fedprof.data.sources import checksum, verify
from fedprof.errors import DataError

Progress = Callable[[str, int, int | None], None]
"""Told the name of what is being fetched, the bytes there are, and the bytes there will be (if known)."""

_CHUNK = 1 << 18
_RETRIED = {408, 425, 429, 500, 502, 503, 504}
_BROKEN_ARCHIVE = (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, KeyError)
_NETWORK = (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError)


@dataclass(frozen=True)
class Patience:
    """How long to put up with a bad network."""

    attempts: int = 4
    """In a row without a byte gained, per address."""
    pause: float = 1.0
    """Seconds before the second attempt; doubled for each further one."""
    stall: float = 30.0
    """Seconds without a byte after which a transfer is given up."""


class _WrongContentError(Exception):
    """The address answers, but not with what was asked for."""


def fetch(
    source: Source,
    data_dir: Path | str | None = None,
    progress: Progress | None = None,
    *,
    patience: Patience = Patience(),
    force: bool = False,
) -> list[Path]:
    """Download what a source still lacks; ``force`` also replaces files that are usable but not the official ones."""
    home = data_home(data_dir)
    try:
        findings = verify(source, home)
        present = {found.file for found in findings if found.state == "official" or (found.usable and not force)}
        for download in source.downloads:
            if not present.issuperset(download.files):
                _obtain(download, home, progress or _silent, patience)
    except OSError as error:
        raise DataError(f"cannot write to the data folder {home}: {error}; name another with --data") from error
    return [home / file.path for file in source.files]


def _obtain(download: Download, home: Path, progress: Progress, patience: Patience) -> None:
    """Get one download from the first address that has it."""
    failures = []
    for url in download.urls:
        try:
            _from_address(url, download, home, progress, patience)
        except (_WrongContentError, *_NETWORK) as error:
            failures.append(f"  {url}: {_reason(error)}")
        else:
            return
    wanted = ", ".join(file.path for file in download.files)
    raise DataError(
        f"cannot download {wanted}:\n" + "\n".join(failures) + f"\nTry again later (a broken download is resumed), or "
        f"put the files into {home} yourself"
    )


def _from_address(url: str, download: Download, home: Path, progress: Progress, patience: Patience) -> None:
    """Transfer and place; content that fails its check is fetched once more from the start."""
    try:
        _fetch_once(url, download, home, progress, patience)
    except _WrongContentError:
        _fetch_once(url, download, home, progress, patience)


def _fetch_once(url: str, download: Download, home: Path, progress: Progress, patience: Patience) -> None:
    """An unfinished download survives a broken network, to be resumed; one with wrong content does not."""
    part = _part_path(download, home)
    part.parent.mkdir(parents=True, exist_ok=True)
    try:
        _transfer(url, part, download, progress, patience)
        _place(part, download, home)
    except _WrongContentError:
        part.unlink(missing_ok=True)
        raise
    part.unlink(missing_ok=True)


def _part_path(download: Download, home: Path) -> Path:
    """Where the unfinished download waits, beside its destination; the same for every address."""
    first = home / download.files[0].path
    return first.with_name(f"{first.name}.{download.archive or 'file'}.part")


def _transfer(url: str, part: Path, download: Download, progress: Progress, patience: Patience) -> None:
    """Fill the unfinished download from one address, resuming as often as that gains bytes."""
    failed = 0
    while True:
        before = _size(part)
        try:
            return _receive(url, part, download, progress, patience.stall)
        except _NETWORK as error:
            if isinstance(error, urllib.error.HTTPError) and error.code not in _RETRIED:
                raise
            failed = failed + 1 if _size(part) <= before else 1
            if failed >= patience.attempts:
                raise
            time.sleep(patience.pause * 2 ** (failed - 1))


def _receive(url: str, part: Path, download: Download, progress: Progress, stall: float) -> None:
    """One request: append what is missing, or start again where the server will not resume."""
    request = urllib.request.Request(url, headers={"User-Agent": "fedprof", "Accept-Encoding": "identity"})  # noqa: S310 - the catalogue's
    if _size(part):
        request.add_header("Range", f"bytes={_size(part)}-")
    try:
        with urllib.request.urlopen(request, timeout=stall) as response:  # noqa: S310 - the catalogue's
            _append(response, part, download, progress)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not _size(part):
            raise  # otherwise the server has no more: the checksum decides whether this is all


def _append(response: http.client.HTTPResponse, part: Path, download: Download, progress: Progress) -> None:
    """Write an answer where its bytes belong, and see that all of them came."""
    start = _resumed_at(response, _size(part))
    announced = response.headers.get("Content-Length")
    total = start + int(announced) if announced else None
    name = urllib.parse.unquote(response.url.rsplit("/", 1)[-1])
    with part.open("r+b" if start else "wb") as file:
        file.seek(start)
        for done in _copied(response, file, start):
            if done > (download.size or done):
                raise _WrongContentError(f"more than the expected {download.size:,} bytes")
            progress(name, done, total or download.size)
    if total is not None and _size(part) < total:
        raise ConnectionError(f"cut off after {_size(part):,} of {total:,} bytes")


def _resumed_at(response: http.client.HTTPResponse, size: int) -> int:
    """Where the answer's bytes belong."""
    if response.status != http.HTTPStatus.PARTIAL_CONTENT:
        return 0
    if not response.headers.get("Content-Range", "").startswith(f"bytes {size}-"):
        raise _WrongContentError("the server resumes at another place than asked")
    return size


def _copied(response: http.client.HTTPResponse, file: IO[bytes], done: int) -> Iterator[int]:
    """Copy in pieces as they come in; yields the bytes there are."""
    while chunk := response.read1(_CHUNK):
        file.write(chunk)
        done += len(chunk)
        yield done


def _place(part: Path, download: Download, home: Path) -> None:
    """Check the download and put its files in their places."""
    if download.checksum and not _matches(part, download.checksum):
        raise _WrongContentError("its checksum is wrong")
    if download.archive is None:
        _place_file(part, download.files[0], home)
        return
    try:
        with _members(part, download.archive) as open_member:
            for file in download.files:
                _extract(open_member, file, home)
    except _BROKEN_ARCHIVE as error:
        raise _WrongContentError(f"not a usable archive ({error})") from error


def _extract(open_member: Callable[[str], IO[bytes]], file: File, home: Path) -> None:
    """Take one member out. Only its content is used: a path inside an archive never becomes a path on disk."""
    unpacked = (home / file.path).with_name(f"{file.name}.unpacked")
    unpacked.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open_member(file.name) as member, unpacked.open("wb") as target:
            shutil.copyfileobj(member, target, _CHUNK)
        _place_file(unpacked, file, home)
    finally:
        unpacked.unlink(missing_ok=True)


def _place_file(ready: Path, file: File, home: Path) -> None:
    if not _matches(ready, file.checksum):
        raise _WrongContentError(f"the checksum of {file.name} is wrong")
    ready.replace(home / file.path)


@contextmanager
def _members(path: Path, archive: str) -> Iterator[Callable[[str], IO[bytes]]]:
    """A function that opens a member by the last part of its name."""
    if archive == "zip":
        with zipfile.ZipFile(path) as packed:
            names = {name.rsplit("/", 1)[-1]: name for name in packed.namelist()}
            yield lambda name: packed.open(names[name])
        return
    with tarfile.open(path) as packed_tar:
        members = {member.name.rsplit("/", 1)[-1]: member for member in packed_tar if member.isreg()}
        yield lambda name: _opened(packed_tar.extractfile(members[name]))


def _opened(member: IO[bytes] | None) -> IO[bytes]:
    assert member is not None, "only regular members are listed"
    return member


def _matches(path: Path, expected: str) -> bool:
    algorithm, digest = expected.split(":")
    return checksum(path, algorithm) == digest


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _silent(_name: str, _done: int, _total: int | None) -> None:
    """Report nothing."""


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answers {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return f"no connection ({error.reason})"
    return "stalled" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
