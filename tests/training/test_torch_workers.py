"""Worker processes change the time a round takes and nothing else; whatever happens, none is left behind."""

from __future__ import annotations

import dataclasses
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
import torch_cases as cases

from fedprof.data.clients import ClientData, Samples
from fedprof.errors import SettingsError, WorkerError
from fedprof.models.weights import flatten
from fedprof.training.engine import Recipe
from fedprof.training.torch_crew import packed
from fedprof.training.torch_engine import TorchEngine

RECIPE = Recipe(epochs=2, batch=8, rate=0.05, momentum=0.9, proximal=0.1)


def everything(engine, work):
    """All an engine gives, as bytes."""
    start = flatten(work.model)
    updates = engine.train(start, 3, [2, 0, 1], RECIPE, profile=True)
    moved = np.mean([update.weights for update in updates], axis=0)
    again = engine.train(moved, 4, [1], RECIPE)
    evaluations = [engine.evaluate(start, version=0), engine.evaluate(moved)]
    profiles = engine.profiles(moved, [0, 1], 4)
    return (
        [(u.client, u.weights.tobytes(), u.loss, u.profile and u.profile.to_bytes()) for u in [*updates, *again]],
        [(e.accuracy, e.loss, e.profile and e.profile.to_bytes()) for e in evaluations],
        [profile.to_bytes() for profile in profiles],
    )


@pytest.fixture
def engine_of():
    """Make engines, and close them."""
    engines = []

    def make(work, workers=2):
        engines.append(TorchEngine(work, workers))
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()


@pytest.mark.parametrize("case", ["batch norm", "dropout"])
def test_two_workers_give_the_bits_of_one(case, engine_of):
    work = cases.CASES[case]()
    rng = np.random.default_rng(0)
    shape, labels = work.validation.x.shape[1:], rng.integers(0, 4, 1500)
    work = dataclasses.replace(work, validation=Samples(rng.normal(size=(1500, *shape)).astype(np.float32), labels))
    assert everything(engine_of(work), work) == everything(TorchEngine(work), work)


def test_an_error_in_a_worker_names_the_client_and_the_place(engine_of):
    work = cases.fragile()
    engine, start = engine_of(work), flatten(work.model)
    with pytest.raises(WorkerError, match="while training client 1: ValueError: this sample is broken") as caught:
        engine.train(start, 1, [0, 1], RECIPE)
    assert "in forward" in "".join(caught.value.__notes__)


def test_the_death_of_a_worker_names_the_client_and_the_engine_goes_on(engine_of):
    work = cases.fragile()
    engine, start = engine_of(work), flatten(work.model)
    with pytest.raises(WorkerError, match=r"a worker process died \(signal SIGKILL\) while training client 2"):
        engine.train(start, 1, [0, 2], RECIPE)
    (again,), (here,) = (each.train(start, 1, [0], RECIPE) for each in (engine, TorchEngine(work)))
    assert np.array_equal(again.weights, here.weights)


def test_a_model_that_cannot_be_sent_is_an_error_at_the_start(engine_of):
    work = dataclasses.replace(cases.mlp(), metric=_Unreadable())
    with pytest.raises(WorkerError, match="while starting: RuntimeError: cannot be read back"):
        engine_of(work).evaluate(flatten(work.model))


class _Unreadable:
    def __reduce__(self):
        return _refuse, ()


def _refuse():
    raise RuntimeError("cannot be read back")


@pytest.mark.parametrize(
    ("workers", "device", "problem"), [(0, "cpu", "at least one"), (2, "cuda", "a device takes one")]
)
def test_a_number_of_workers_that_makes_no_sense_is_refused(workers, device, problem):
    with pytest.raises(SettingsError, match=problem):
        TorchEngine(cases.mlp(), workers, device)


def test_arrays_reach_the_workers_as_files_and_mapped_ones_are_not_copied(tmp_path):
    x, rows = np.arange(400_000, dtype=np.float32).reshape(-1, 4), np.arange(100_000)[::-1].copy()
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    folder = tmp_path / "files"
    folder.mkdir()
    for data, files in [(mapped, 2), (mapped[:100_000], 3), (x, 3)]:
        clients = ClientData(Samples(data, np.zeros(100_000, np.int64)), np.array([0, 100_000]), rows)
        message = packed(clients, folder)
        assert len(message) < 5000
        back = pickle.loads(message)
        assert isinstance(back.pool.x, np.memmap)
        assert np.array_equal(back.samples(0)[0], clients.samples(0)[0])
        assert len(list(folder.iterdir())) == files
        for path in folder.iterdir():
            path.unlink()


SCRIPT = """
    import sys
    import numpy as np
    import torch
    from torch import nn
    from fedprof.data.clients import ClientData, Samples
    from fedprof.models.weights import flatten
    from fedprof.training.engine import Recipe, Workload
    from fedprof.training.metrics import classification
    from fedprof.training.torch_engine import TorchEngine

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 2)

        def forward(self, x):
            return self.fc(x)

    data = Samples(np.ones((20, 3), np.float32), np.ones(20, np.int64))
    offsets = np.array([0, 10, 20])
    loss = lambda outputs, targets: (outputs - targets[:, None]).square().mean()
    work = Workload(Net(), "fc", ClientData(data, offsets), data, loss, classification)
    engine = TorchEngine(work, workers=2)
    weights = flatten(work.model)
    print(engine.evaluate(weights).accuracy, flush=True)
    {then}
"""
ENDLESS = "engine.train(weights, 1, [0, 1], Recipe(epochs=10**9, batch=5, rate=0.0))"


def script(tmp_path, then):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(SCRIPT).replace("{then}", then))
    return [sys.executable, str(path)]


def test_a_script_needs_no_guard_and_no_importable_model_and_no_close(tmp_path):
    done = subprocess.run(script(tmp_path, "print('end')"), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0
    assert done.stdout.split()[-1] == "end"
    assert not done.stderr


def children_of(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_gone(pids):
    until = time.monotonic() + 30
    while alive := [pid for pid in pids if Path(f"/proc/{pid}").exists() and not is_zombie(pid)]:
        assert time.monotonic() < until, f"still running: {alive}"
        time.sleep(0.05)


def is_zombie(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for orphans in /proc")
@pytest.mark.parametrize("how", ["SIGINT", "SIGKILL"])
def test_an_interrupted_run_leaves_no_process_behind(tmp_path, how):
    with subprocess.Popen(
        script(tmp_path, ENDLESS), stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as run:
        run.stdout.readline()
        workers = children_of(run.pid)
        time.sleep(0.3)
        if how == "SIGINT":
            os.killpg(run.pid, signal.SIGINT)  # as a terminal does
        else:
            run.kill()
        _, errors = run.communicate(timeout=60)
    assert len(workers) == 2
    wait_gone(workers)
    assert (b"KeyboardInterrupt" in errors) == (how == "SIGINT")


def test_an_engine_may_be_closed_at_any_time(engine_of):
    work = cases.mlp()
    engine, start = engine_of(work), flatten(work.model)
    engine.close()
    engine.evaluate(start)
    engine.close()
    engine.close()
