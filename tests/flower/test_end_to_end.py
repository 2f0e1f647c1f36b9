"""The examples with Flower's real processes: a simulation, and a secure deployment on the loopback interface."""

import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs the flower extra: pip install 'fedprof[flower]'")

from fedprof.simulation.store import Store, holds_nothing
from fedprof.simulation.summary import summarise

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sysconfig.get_path("scripts")

pytestmark = [pytest.mark.flower, pytest.mark.timeout(1800)]


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


def simulate(app, env, cwd, *options, **settings):
    config = " ".join(f"{key.replace('_', '-')}={value}" for key, value in settings.items())
    command = ["flwr", "run", str(app), "local", "--stream", *options, "--run-config", config]
    done = run(command, env, cwd)
    if (
        "Failed to start local SuperLink within" in done.stdout + done.stderr
    ):  # it is given 15 s, which are not always enough
        done = run(command, env, cwd)
    return done


def query(path, sql):
    store = Store.open(path, read_only=True)
    try:
        return store.query(sql)
    finally:
        store.close()


def picks(path):
    return dict(query(path, "SELECT name, SUM(selected) FROM clients JOIN participation USING (client) GROUP BY name"))


def test_the_quickstart_runs_as_it_is_on_the_two_nodes_that_flower_simulates(tmp_path, env):
    """The small form of all below: real processes, in continuous integration too."""
    app, path = tmp_path / "app", tmp_path / "run.sqlite"
    shutil.copytree(EXAMPLES / "flower-quickstart", app)
    done = simulate(app, env, tmp_path, num_server_rounds=2, store=f'"{path}"', matching='"masked"')
    assert "After 2 rounds" in done.stdout, done.stdout + done.stderr
    assert picks(path) == {"partition-0": 2, "partition-1": 0}


@pytest.mark.slow
def test_the_quickstart_runs_in_flowers_simulation_and_goes_on(tmp_path, env):
    app, path = tmp_path / "app", tmp_path / "run.sqlite"
    shutil.copytree(EXAMPLES / "flower-quickstart", app)
    ten = ("--federation-config", "num-supernodes=10")
    first = simulate(app, env, tmp_path, *ten, num_server_rounds=3, store=f'"{path}"')
    assert first.returncode == 0, first.stdout + first.stderr
    assert "After 3 rounds" in first.stdout
    second = simulate(app, env, tmp_path, *ten, num_server_rounds=8, store=f'"{path}"')
    assert "Going on after round 3" in second.stdout
    store = Store.open(path)
    summary = summarise(store)
    store.close()
    assert summary.rounds == 8
    assert summary.best_accuracy > 0.5
    bad = {"partition-1", "partition-3", "partition-6", "partition-8"}
    assert {name for name, count in picks(path).items() if count == 0} >= bad


@pytest.mark.slow
def test_the_secure_federation_trains_refuses_strangers_and_leaves_nothing_behind(tmp_path, env):
    done = secure_example(tmp_path, env, "plain")
    for name in ("clinic-a", "clinic-b", "clinic-c"):
        assert f"{name}: connected" in done.stdout
    for name, why in {
        "unregistered-key": "Failed to activate SuperNode",
        "no-key": "All SuperNodes must be registered",
        "no-ca": "CERTIFICATE_VERIFY_FAILED",
        "plain-connection": "Server disconnected without sending a response",
    }.items():
        assert re.search(f"{name}: refused \\(.*{why}", done.stdout)
    assert picks(tmp_path / "plain.sqlite") == {"clinic-a": 5, "clinic-b": 5, "clinic-c": 0}


@pytest.mark.slow
def test_the_secure_federation_gets_the_same_scores_by_masked_matching_as_by_plain(tmp_path, env):
    found = {}
    for matching in ("plain", "masked"):
        secure_example(tmp_path, env, matching)
        rows = query(
            tmp_path / f"{matching}.sqlite",
            "SELECT round, name, selected, divergence, score FROM participation JOIN clients USING (client) "
            "ORDER BY round, name",
        )
        found[matching] = [row[:3] for row in rows], [value for row in rows for value in row[3:]]
    assert found["masked"][0] == found["plain"][0]
    assert found["masked"][1] == pytest.approx(found["plain"][1], rel=1e-4, abs=1e-5)


def secure_example(tmp_path, env, matching):
    """Run it, and see that nothing of it is left but the store."""
    scratch = tmp_path / "scratch"
    scratch.mkdir(exist_ok=True)
    command = [sys.executable, str(EXAMPLES / "flower-secure" / "run.py"), "--matching", matching]
    store = ["--store", str(tmp_path / f"{matching}.sqlite")]
    done = run([*command, *store], {**env, "TMPDIR": str(scratch)}, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(scratch.glob("fedprof-secure-*")) == []
    assert not [pid for pid in map(cmdline, all_processes()) if str(scratch) in pid]
    return done


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


@pytest.mark.slow
def test_killed_clients_and_nodes_cost_their_updates_only_and_a_killed_server_app_goes_on(tmp_path, secure, env):
    """Three nodes, all wanted every round; a client process of one is killed, another node, then the ServerApp."""
    path = tmp_path / "run.sqlite"
    with secure.processes() as running:
        federation = secure.Federation(tmp_path)
        secure.certificates(tmp_path)
        running.append(federation.superlink())
        secure.expect(running[0], secure.READY)
        ca = f"--root-certificates={tmp_path / 'ca.crt'}"
        for name, partition in secure.NODES.items():
            key = secure.node_key(tmp_path / name)
            federation.flwr("supernode", "register", f"{key}.pub", "secure")
            running.append(federation.supernode(name, partition, ca, f"--auth-supernode-private-key={key}"))
        for node in running[1:]:
            secure.expect(node, secure.CONNECTED)
        app = slow_app(tmp_path)
        train(secure, federation, running, path, app, 30)
        wait_for_round(path, 1)
        kill_training_process(running[2], tmp_path)
        wait_for(lambda: "clinic-b" in failures(path), "the killed process's failure was not recorded")
        os.killpg(running[3].process.pid, signal.SIGKILL)
        wait_for(lambda: "clinic-c" in failures(path), "the killed node's failure was not recorded")
        (server,) = [folder for folder in all_processes() if is_server_app(folder, federation.port)]
        os.kill(int(server.name), signal.SIGKILL)
        reached = last_round(path)
        train(secure, federation, running, path, app, reached + 2)
        wait_for_round(path, reached + 2)
    rounds = [number for (number,) in query(path, "SELECT round FROM rounds ORDER BY round")]
    assert rounds == list(range(len(rounds)))
    assert set(failures(path)) == {"clinic-b", "clinic-c"}
    assert "no answer in time" not in failures(path).values()


def train(secure, federation, running, path, app, rounds):
    settings = f'num-server-rounds={rounds} fraction-train=1.0 store="{path}"'
    command = [secure.script("flwr"), "run", str(app), "secure", "--run-config", settings]
    running.append(secure.Started(command, federation.folder / f"flwr-run-{rounds}.log", federation.env))


def failures(path):
    """The first recorded reason of each client that failed."""
    rows = query(
        path,
        "SELECT name, failure FROM participation JOIN clients USING (client) WHERE failure > '' ORDER BY round DESC",
    )
    return dict(rows)


def slow_app(folder):
    """The quickstart, but every training process leaves its id in the folder and takes some seconds."""
    app = folder / "app"
    shutil.copytree(EXAMPLES / "flower-quickstart", app)
    with (app / "quickstart" / "task.py").open("a", encoding="utf-8") as task:
        task.write(SLOWLY.format(folder=folder))
    return app


SLOWLY = """

def slowly(*arguments, quickly=train):
    import os, pathlib, time
    pathlib.Path("{folder}", f"training-{{os.getpid()}}").touch()
    time.sleep(5)
    return quickly(*arguments)


train = slowly
"""


def kill_training_process(node, folder):
    """Kill the process that a SuperNode has started for a training message: it shares the SuperNode's session."""

    def killed():
        for mark in folder.glob("training-*"):
            process = int(mark.name.removeprefix("training-"))
            with contextlib.suppress(ProcessLookupError):
                if os.getsid(process) == node.process.pid and "flwr-clientapp" in cmdline(Path(f"/proc/{process}")):
                    os.kill(process, signal.SIGKILL)
                    return True
        return False

    for earlier in folder.glob("training-*"):
        earlier.unlink()
    wait_for(killed, "no training process was seen")


def is_server_app(folder, port):
    command = cmdline(folder)
    return "flwr-serverapp" in command and str(port) in command


def last_round(path):
    if holds_nothing(path):
        return -1
    store = Store.open(path, read_only=True)
    try:
        last = store.last_round()
    finally:
        store.close()
    return -1 if last is None else last.round


def wait_for_round(path, number):
    wait_for(lambda: last_round(path) >= number, f"round {number} was not reached")


def wait_for(condition, otherwise, seconds=400):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.5)
