"""`fedprof compare`: in parallel, resumable, and gone without a trace when it is interrupted."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from console import output

from fedprof.report.stored import read_all
from fedprof.simulation.batch import Assignment, recorded_rounds

COMMAND = "compare digits -a fedavg,fedprof --engine torch"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("compare")
    (made / "shown.txt").write_text(output(f"fedprof {COMMAND} --seeds 2 --rounds 3 --jobs 2", made))
    return made


def test_every_algorithm_and_seed_has_a_run_of_its_own(folder):
    names = {path.name for path in (folder / "runs" / "digits").glob("*.sqlite")}
    assert names == {
        f"digits-{algorithm}-s{seed}.sqlite"
        for algorithm in ("fedavg-full", "fedprof-full", "fedprof-partial")
        for seed in (0, 1)
    }


def test_the_table_has_both_groups_and_is_written_in_three_forms(folder):
    shown = (folder / "shown.txt").read_text()
    assert shown.index("full aggregation") < shown.index("FedAvg") < shown.index("partial aggregation")
    assert "2 seeds" in shown
    assert {path.name for path in (folder / "runs" / "digits").glob("table.*")} == {
        "table.md",
        "table.csv",
        "table.tex",
    }


def test_a_second_time_nothing_runs_again(folder):
    runs = sorted((folder / "runs" / "digits").glob("*.sqlite"))
    before = [path.stat().st_mtime_ns for path in runs]
    again = output(f"fedprof {COMMAND} --seeds 2 --rounds 3", folder)
    assert again == (folder / "shown.txt").read_text()
    assert [path.stat().st_mtime_ns for path in runs] == before


def test_fewer_rounds_are_summed_up_as_if_no_more_had_been_run(folder):
    fewer = output(f"fedprof {COMMAND} --seeds 2 --rounds 1", folder)
    alone = output(f"fedprof {COMMAND} --seeds 2 --rounds 1 --jobs 1 -o alone", folder)
    assert fewer.splitlines()[:6] == alone.splitlines()[:6]


def test_an_override_goes_to_the_algorithm_that_has_it():
    from fedprof.cli.compare import plans

    made = plans("digits", None, range(1), Path("x"), None, ["alpha=3", "mu=0.5", "rate=0.2"])
    assert len(made) == 8
    for one in made:
        server = one.plan.server
        assert one.plan.settings.training.rate == 0.2
        assert getattr(server, "alpha", 3) == 3
        assert getattr(server, "mu", 0.5) == 0.5


def descendants(pid):
    """Processes below one, at any depth."""
    found, below = [], {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        below.setdefault(int(fields[1]), []).append(int(entry.parent.name))
    waiting = [pid]
    while waiting:
        children = below.get(waiting.pop(), [])
        found, waiting = found + children, waiting + children
    return found


def begun(folder):
    """Runs that have recorded a round."""
    made = folder.glob("runs/digits/*.sqlite")
    return [path for path in made if recorded_rounds(Assignment(None, path)) >= 1]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="counts processes in /proc")
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_however_it_ends_no_process_is_left_and_the_rounds_recorded_are_whole(sent, code, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "fedprof", *COMMAND.split(), "--seeds", "1", "--rounds", "5000", "--jobs", "2"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while len(begun(tmp_path)) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    children = descendants(process.pid)
    assert len(children) >= 2
    os.kill(process.pid, sent)
    told = process.communicate(timeout=60)[1]
    assert process.returncode == code
    assert "Traceback" not in told
    while any(map(alive, children)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert [child for child in children if alive(child)] == []
    for run in read_all(begun(tmp_path)):
        history = run.history
        assert [row.round for row in history] == list(range(len(history)))
