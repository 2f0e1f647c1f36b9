"""Ctrl-C ends a command at once, even while compiled code is at work and Python's own handler would have to wait."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from typing import NoReturn

INTERRUPTED = 130
GRACE_SECONDS = 1.0
"""For the command to end by itself, closing files and processes."""
SHOW_CURSOR = "\x1b[?25h"


def watch() -> None:
    """Have a thread end the process if, a moment after an interrupt, it is still there."""
    ours, pythons = socket.socketpair()
    pythons.setblocking(False)
    signal.set_wakeup_fd(pythons.detach(), warn_on_full_buffer=False)
    threading.Thread(target=_wait, args=(ours,), daemon=True).start()


def leave() -> NoReturn:
    """Say how to go on, and exit without waiting for threads."""
    if sys.stderr.isatty():
        sys.stderr.write(SHOW_CURSOR)
    sys.stderr.write("\nInterrupted. What is recorded is safe; the same command goes on from there.\n")
    sys.stderr.flush()
    os._exit(INTERRUPTED)


def _wait(ours: socket.socket) -> None:
    while ours.recv(1) != bytes([signal.SIGINT]):
        pass
    time.sleep(GRACE_SECONDS)
    leave()
