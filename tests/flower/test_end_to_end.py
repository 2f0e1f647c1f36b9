"""The examples with Flower's real processes: a simulation, and a secure deployment on the loopback interface."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs the flower extra: pip install 'fedprof[flower]'")

from fedprof.simulation.store import Store
from fedprof.simulation.summary import summarise

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sysconfig.get_path("scripts")

pytestmark = [pytest.mark.flower, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def env(tmp_path):
    """A private Flower home; Flower's local SuperLink, which outlives ``flwr run``, is ended with the test."""
    home = tmp_path / "home"
    yield {
        **os.environ,
        "PATH": os.pathsep.join([SCRIPTS, os.environ.get("PATH", "")]),
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    }
    end_processes_of(home)


def end_processes_of(home):
    """End every process whose environment names this Flower home."""
    for signum, patience in ((signal.SIGTERM, 15), (signal.SIGKILL, 5)):
        for pid in processes_of(home):
            os.kill(pid, signum)
        deadline = time.monotonic() + patience
        while processes_of(home) and time.monotonic() < deadline:
            time.sleep(0.2)


def processes_of(home):
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"FLWR_HOME={home}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue  # ended meanwhile, or not ours
    return found


def run(command, env, cwd):
    return subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, timeout=800, check=False)


def simulate(app, env, cwd, **settings):
    config = " ".join(f"{key.replace('_', '-')}={value}" for key, value in settings.items())
    command = ["flwr", "run", str(app), "local", "--stream", "--federation-config", "num-supernodes=10"]
    done = run([*command, "--run-config", config], env, cwd)
    if (
        "Failed to start local SuperLink within" in done.stdout + done.stderr
    ):  # Flower waits 15 s, on a busy machine too few
        done = run([*command, "--run-config", config], env, cwd)
    return done


def picks(store):
    return dict(store.query("SELECT name, SUM(selected) FROM clients JOIN participation USING (client) GROUP BY name"))


def test_the_quickstart_runs_in_flowers_simulation_and_goes_on(tmp_path, env):
    app, path = tmp_path / "app", tmp_path / "run.sqlite"
    shutil.copytree(EXAMPLES / "flower-quickstart", app)
    first = simulate(app, env, tmp_path, num_server_rounds=3, store=f'"{path}"')
    assert first.returncode == 0, first.stdout + first.stderr
    assert "After 3 rounds" in first.stdout
    second = simulate(app, env, tmp_path, num_server_rounds=8, store=f'"{path}"')
    assert "Going on after round 3" in second.stdout
    store = Store.open(path)
    summary, picked = summarise(store), picks(store)
    store.close()
    assert summary.rounds == 8
    assert summary.best_accuracy > 0.5
    bad = {"partition-0", "partition-1", "partition-5", "partition-6"}
    assert {name for name, count in picked.items() if count == 0} >= bad


def test_the_secure_federation_trains_refuses_strangers_and_leaves_nothing_behind(tmp_path, env):
    path = tmp_path / "run.sqlite"
    command = [sys.executable, str(EXAMPLES / "flower-secure" / "run.py"), "--store", str(path)]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = run(command, {**env, "TMPDIR": str(scratch)}, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("clinic-a", "clinic-b", "clinic-c"):
        assert f"{name}: connected" in done.stdout
    for name in ("unregistered-key", "no-key", "no-ca", "plain-connection"):
        assert f"{name}: refused" in done.stdout
    store = Store.open(path)
    assert picks(store) == {"clinic-a": 5, "clinic-b": 5, "clinic-c": 0}
    store.close()
    assert list(scratch.glob("fedprof-secure-*")) == []
    assert not [pid for pid in map(cmdline, all_processes()) if str(scratch) in pid]


def all_processes():
    return list(Path("/proc").glob("[0-9]*"))


def cmdline(folder):
    try:
        return (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


@pytest.fixture
def secure(monkeypatch):
    """The secure example's modules."""
    monkeypatch.syspath_prepend(str(EXAMPLES / "flower-secure"))
    spec = importlib.util.spec_from_file_location("secure_run", EXAMPLES / "flower-secure" / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_supernode_killed_mid_run_costs_its_updates_only_and_a_killed_server_app_goes_on(tmp_path, secure, env):
    """Three nodes, all wanted every round; one is killed after round 1, then the ServerApp after round 2."""
    path = tmp_path / "run.sqlite"
    with secure.processes() as running:
        federation = secure.Federation(tmp_path)
        secure.certificates(tmp_path)
        running.append(federation.superlink())
        secure.expect(running[0], secure.READY)
        ca = f"--root-certificates={tmp_path / 'ca.crt'}"
        for number, name in enumerate(secure.NODES):
            key = secure.node_key(tmp_path / name)
            federation.flwr("supernode", "register", f"{key}.pub", "secure")
            running.append(federation.supernode(name, number + 2, ca, f"--auth-supernode-private-key={key}"))
        for node in running[1:]:
            secure.expect(node, secure.CONNECTED)
        train(secure, federation, running, path, 30)
        wait_for_round(path, 1)
        os.killpg(running[3].process.pid, signal.SIGKILL)
        wait_for_round(path, 3)
        (server,) = [folder for folder in all_processes() if is_server_app(folder, federation.port)]
        os.kill(int(server.name), signal.SIGKILL)
        reached = last_round(path)
        train(secure, federation, running, path, reached + 2)
        wait_for_round(path, reached + 2)
    store = Store.open(path)
    rows = store.query("SELECT round, name, failure FROM participation JOIN clients USING (client) WHERE failure > ''")
    rounds = [row.round for row in store.rounds()]
    store.close()
    assert rounds == list(range(len(rounds)))
    assert {name for _, name, _ in rows} == {"clinic-c"}


def train(secure, federation, running, path, rounds):
    settings = f'num-server-rounds={rounds} fraction-train=1.0 store="{path}"'
    command = [secure.script("flwr"), "run", str(secure.APP), "secure", "--run-config", settings]
    running.append(secure.Started(command, federation.folder / f"flwr-run-{rounds}.log", federation.env))


def is_server_app(folder, port):
    command = cmdline(folder)
    return "flwr-serverapp" in command and str(port) in command


def last_round(path):
    if not path.exists():
        return -1
    store = Store.open(path, read_only=True)
    try:
        last = store.last_round()
    finally:
        store.close()
    return -1 if last is None else last.round


def wait_for_round(path, number, seconds=400):
    deadline = time.monotonic() + seconds
    while last_round(path) < number:
        assert time.monotonic() < deadline, f"round {number} was not reached"
        time.sleep(1)
