"""How little a Flower app changes: counted, for the example and for Flower's own quickstart."""

import difflib
import os
import re
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest

pytest.importorskip("flwr", reason="needs the flower extra: pip install 'fedprof[flower]'")

from flower_fakes import Net, loader

from fedprof import profile
from fedprof.flower import FedProf, FedProfClientApp

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "flower-quickstart" / "quickstart"
PLAIN = Path(__file__).parent / "plain_app"
GUIDE = ROOT / "docs" / "flower.md"
SIDES = ("client_app", "server_app")
AT_MOST = 6

pytestmark = pytest.mark.flower


def changes(before, after):
    """Lines that are new or different, blank ones aside."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return [line[1:] for line in lines if line.startswith("+") and not line.startswith("+++") and line[1:].strip()]


def documented():
    """The guide's diff against Flower's quickstart: by file, each hunk's lines with their marks."""
    block = re.search(r"```diff\n(--- pytorchexample/.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)[1]
    hunks = {}
    for line in block.splitlines():
        if line.startswith("+++ "):
            hunks[line.removeprefix("+++ pytorchexample/")] = found = []
        elif line.startswith("@@"):
            found.append([])
        elif not line.startswith("---"):
            found[-1].append(line)
    return hunks


def part(hunk, marks):
    """One side of a hunk."""
    return "".join(f"{line[1:]}\n" for line in hunk if line[0] in marks)


def test_the_example_differs_from_a_plain_app_in_at_most_six_lines_both_sides_together():
    new = [
        line
        for side in SIDES
        for line in changes(
            (PLAIN / f"{side}.txt").read_text(encoding="utf-8"), (EXAMPLE / f"{side}.py").read_text(encoding="utf-8")
        )
    ]
    assert 0 < len(new) <= AT_MOST
    assert sum("FedProf" in line for line in new) == 4  # two imports, the client's app, the server's strategy


def test_the_guides_diff_against_flowers_quickstart_changes_at_most_six_lines_both_sides_together():
    hunks = documented()
    assert set(hunks) == {"client_app.py", "server_app.py"}
    added = [line for found in hunks.values() for hunk in found for line in hunk if line[0] == "+" and line[1:].strip()]
    assert 0 < len(added) <= AT_MOST


def test_the_guides_new_lines_do_what_they_should():
    """They are run among stand-ins for what Flower's app defines."""
    lines = [dedent(part(hunk, " +")) for side in SIDES for hunk in documented()[f"{side}.py"]]
    names = {
        "Net": Net,
        "load_data": lambda partition, partitions, batch: (loader(partition), None),
        "load_centralized_dataset": lambda: loader(99),
        "fraction_evaluate": 0.5,
        "global_model": Net(),
    }
    exec("".join(lines), names)
    assert isinstance(names["app"], FedProfClientApp)
    model, data = names["profile_source"](SimpleNamespace(node_config={"partition-id": 1, "num-partitions": 10}))
    assert profile(model, data, "fc1").count == 40
    assert isinstance(names["strategy"], FedProf)
    assert names["strategy"].base.fraction_train == 0.3
    assert names["strategy"].members.layer == "fc1"


def test_the_guides_diff_applies_to_flowers_quickstart():
    place = os.environ.get("FLOWER_QUICKSTART")
    if not place:
        pytest.skip("set FLOWER_QUICKSTART to a copy of Flower's app: flwr new @flwrlabs/quickstart-pytorch")
    for name, found in documented().items():
        (path,) = Path(place).rglob(name)
        source = path.read_text(encoding="utf-8")
        for hunk in found:
            assert source.count(part(hunk, " -")) == 1, f"{name} has not exactly one {part(hunk, ' -')}"
            source = source.replace(part(hunk, " -"), part(hunk, " +"))
        compile(source, name, "exec")
