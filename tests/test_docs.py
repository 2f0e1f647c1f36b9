"""Every Python block of the README and the docs runs; links between pages lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TESTED_BY_THEIR_OWN = {"cli.md", "store.md", "flower.md"}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def blocks(page, language):
    return [text for kind, text in BLOCK.findall(page.read_text(encoding="utf-8")) if kind == language]


@pytest.mark.parametrize(
    "page", [p for p in PAGES if blocks(p, "python") and p.name not in TESTED_BY_THEIR_OWN], ids=lambda p: p.name
)
def test_python_blocks_run(page, tmp_path):
    """One page's blocks run one after another, as its reader would paste them."""
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks(page, "python")), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    missing = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / link).exists()]
    assert not missing


def test_a_task_and_a_model_of_ones_own_run_from_two_short_files(tmp_path):
    page = ROOT / "docs" / "extending.md"
    (code,) = [text for text in blocks(page, "python") if "def moons" in text]
    (settings,) = [text for text in blocks(page, "toml") if "moons" in text]
    (tmp_path / "my_task.py").write_text(code, encoding="utf-8")
    (tmp_path / "moons.toml").write_text(settings, encoding="utf-8")
    command = [sys.executable, "-m", "fedprof", "run", "moons.toml", "--engine", "torch", "--workers", "1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    assert "fedprof (partial) on moons, seed 0: 10 rounds" in done.stdout
