"""What a result was measured on."""

from __future__ import annotations

import os
import platform
from datetime import date
from importlib.metadata import version
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def described(*packages: str) -> str:
    """One paragraph: processor, cores, vector units, memory, system, versions, and how busy the machine is now."""
    load = ", ".join(f"{value:.2f}" for value in os.getloadavg())
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    parts = [f"{processor()}, {os.cpu_count()} CPUs ({vector_unit()}), {memory()}", f"{platform.system()}"]
    parts += [f"Python {platform.python_version()}", *([versions] if versions else [])]
    return f"{', '.join(parts)}. Load averages at the start: {load}."


def processor() -> str:
    """Its name with family and model, which hypervisors leave true."""
    facts = _cpu_facts()
    numbers = f"family {facts['cpu family']}, model {facts['model']}" if "cpu family" in facts else ""
    name = facts.get("model name", platform.processor() or platform.machine())
    return f"{name} ({numbers})" if numbers else name


def vector_unit() -> str:
    flags = _cpu_facts().get("flags", "").split()
    return next((shown for flag, shown in (("avx512f", "AVX-512"), ("avx2", "AVX2")) if flag in flags), "no AVX2")


def memory() -> str:
    return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"


def table(columns: list[str], rows: list[list[str]], text_columns: int = 1) -> str:
    """A Markdown table; columns of figures are aligned to the right."""
    rule = ["---"] * text_columns + ["---:"] * (len(columns) - text_columns)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [columns, rule, *rows])


def write(name: str, text: str, folder: Path) -> Path:
    """Write a result under today's date."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{date.today().isoformat()}.md"
    path.write_text(text.rstrip() + "\n", encoding="utf-8")
    return path


def _cpu_facts() -> dict[str, str]:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").split("\n\n")[0].splitlines() if path.exists() else []
    pairs = (line.partition(":") for line in lines)
    return {name.strip(): value.strip() for name, _, value in pairs}
