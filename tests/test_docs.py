"""Every Python block of the README and the docs runs; links between pages lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from fedprof.data.sources import load

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


EXTENDING = ROOT / "docs" / "extending.md"


def run_task(name, folder):
    """Run a task file of the page on extending, as its reader would; gives what is printed."""
    (settings,) = [text for text in blocks(EXTENDING, "toml") if f'name = "{name}"' in text]
    (folder / f"{name}.toml").write_text(settings, encoding="utf-8")
    command = [sys.executable, "-m", "fedprof", "run", f"{name}.toml", "--engine", "torch", "--workers", "1"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_task_and_a_model_of_ones_own_run_from_two_short_files(tmp_path):
    (code,) = [text for text in blocks(EXTENDING, "python") if "def moons" in text]
    (tmp_path / "my_task.py").write_text(code, encoding="utf-8")
    assert "fedprof (partial) on moons, seed 0: 10 rounds" in run_task("moons", tmp_path)


def test_folders_of_images_are_a_task_from_one_short_file(tmp_path):
    digits = load("digits")
    for holder, start in (("north", 0), ("south", 100), ("west", 200), ("validation", 300)):
        for row in range(start, start + 100):
            image = tmp_path / "clinics" / holder / str(digits.train_y[row]) / f"{row}.png"
            image.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(digits.train_x[row, 0] * 15).save(image)
    assert "fedprof (partial) on clinics, seed 0: 10 rounds" in run_task("clinics", tmp_path)
