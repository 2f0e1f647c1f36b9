"""An HTTP server on this machine that misbehaves as told."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass
class Page:
    """Some content and how each request for it is answered; the last way is used for all further requests."""

    content: bytes
    ways: list[Callable[[Any, bytes], None]]


@dataclass
class UnreliableServer:
    """Pages by path, and a record of what was asked for."""

    pages: dict[str, Page] = field(default_factory=dict)
    asked: dict[str, list[str | None]] = field(default_factory=lambda: defaultdict(list))
    """The Range header of every request for a path."""
    released: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def add(self, path: str, content: bytes, *ways: Callable[[Any, bytes], None]) -> str:
        """Serve content under a path in these ways, one a request; returns its address."""
        self.pages[path] = Page(content, list(ways) or [well])
        return f"http://127.0.0.1:{self._server.server_port}{path}"

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            unreliable = outer

            def do_GET(self) -> None:
                page = outer.pages[self.path]
                outer.asked[self.path].append(self.headers["Range"])
                way = page.ways.pop(0) if len(page.ways) > 1 else page.ways[0]
                with contextlib.suppress(ConnectionError):  # a client may well hang up
                    way(self, page.content)

            def log_message(self, *_: object) -> None:
                """Stay silent."""

        return Handler


def well(handler: Any, content: bytes) -> None:
    """Answer as asked, ranges and all."""
    _head(handler, content)
    handler.wfile.write(content[_start(handler) :])


def ignoring_ranges(handler: Any, content: bytes) -> None:
    _answer(handler, 200, content)


def corrupted(handler: Any, content: bytes) -> None:
    """Flip the last byte."""
    well(handler, content[:-1] + bytes([content[-1] ^ 0xFF]))


def without_length(handler: Any, content: bytes) -> None:
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(content)


def at_another_place(handler: Any, content: bytes) -> None:
    """Answer a range with another one."""
    handler.send_response(206)
    handler.send_header("Content-Range", f"bytes 0-{len(content) - 1}/{len(content)}")
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


def cut(count: int) -> Callable[[Any, bytes], None]:
    """Announce everything, send ``count`` bytes, hang up."""

    def way(handler: Any, content: bytes) -> None:
        _head(handler, content)
        handler.wfile.write(content[_start(handler) :][:count])

    return way


def stalled(count: int) -> Callable[[Any, bytes], None]:
    """Announce everything, send ``count`` bytes, and then nothing more."""

    def way(handler: Any, content: bytes) -> None:
        _head(handler, content)
        handler.wfile.write(content[_start(handler) :][:count])
        handler.wfile.flush()
        handler.unreliable.released.wait(30)

    return way


def answering(code: int, text: bytes = b"<html>sorry</html>") -> Callable[[Any, bytes], None]:
    return lambda handler, _content: _answer(handler, code, text)


def redirecting(code: int, path: str) -> Callable[[Any, bytes], None]:
    def way(handler: Any, _content: bytes) -> None:
        handler.send_response(code)
        handler.send_header("Location", path)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return way


def _start(handler: Any) -> int:
    asked = handler.headers["Range"]
    return int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0


def _head(handler: Any, content: bytes) -> None:
    start = _start(handler)
    if start and start >= len(content):
        handler.send_error(416)
        return
    handler.send_response(206 if start else 200)
    if start:
        handler.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
    handler.send_header("Content-Length", str(len(content) - start))
    handler.end_headers()


def _answer(handler: Any, code: int, text: bytes) -> None:
    handler.send_response(code)
    handler.send_header("Content-Length", str(len(text)))
    handler.end_headers()
    handler.wfile.write(text)
