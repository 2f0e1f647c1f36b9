"""Console blocks of a page: commands with their output, run and compared, or written anew.

python tests/cli/console.py docs/cli.md      # replaces every output in the page by the real one
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
NUMBER = re.compile(r"\d+(?:\.\d+)?")
VARYING = re.compile(r"[\d.]+ s of computing")
WIDTH = "100"


def examples(page):
    """Every command with the output the page shows for it, block by block."""
    return [_commands(block) for block in BLOCK.findall(page)]


def _commands(block):
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append([line[2:], []])
        else:
            found[-1][1].append(line)
    return [(command, "\n".join(lines).rstrip()) for command, lines in found]


def output(command, folder):
    """What a command prints on standard output, run in a folder, without a terminal."""
    program, *arguments = shlex.split(command, comments=True)
    if program == "fedprof":
        return _ours(arguments, folder)
    done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.rstrip()


def _ours(arguments, folder):
    """In this process: starting one for each example would take most of the time."""
    from fedprof.cli.main import app

    out, before = io.StringIO(), os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = WIDTH
    try:
        with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            app(arguments, standalone_mode=False)
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()).rstrip()


def differences(shown, real):
    """Lines that differ: words must be the same, numbers nearly (another processor rounds otherwise)."""
    pairs = list(zip(shown.splitlines(), real.splitlines(), strict=False))
    found = [(a, b) for a, b in pairs if not _alike(a, b)]
    longer = shown.splitlines()[len(pairs) :] + real.splitlines()[len(pairs) :]
    return found + [(line, "only in one of the two") for line in longer]


def _alike(shown, real):
    shown, real = (VARYING.sub("", line) for line in (shown, real))
    if [" ".join(NUMBER.sub("#", line).split()) for line in (shown, real)].count(
        " ".join(NUMBER.sub("#", shown).split())
    ) != 2:
        return False
    pairs = zip(map(float, NUMBER.findall(shown)), map(float, NUMBER.findall(real)), strict=True)
    return all(abs(a - b) <= _tolerance(a) or "client-" in shown for a, b in pairs)


def _tolerance(number):
    """Accuracies vary by little; small counts by one or not at all; costs and divergences by their size."""
    if number == round(number):
        return 0 if number < 4 else max(1, 0.15 * number)
    return 0.03 if 0.5 <= number <= 1 else 0.002 + 0.15 * number


def rewrite(path):
    with tempfile.TemporaryDirectory() as folder:

        def real(match):
            parts = []
            for command, _ in _commands(match.group(1)):
                sys.stderr.write(f"$ {command}\n")
                parts.append(f"$ {command}\n{output(command, folder)}".rstrip())
            return "```console\n" + "\n".join(parts) + "\n```"

        path.write_text(BLOCK.sub(real, path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    rewrite(Path(sys.argv[1]).resolve())
