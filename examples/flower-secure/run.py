"""A secure federation on one machine: TLS, node authentication, three nodes, one with bad data, five rounds.

    python examples/flower-secure/run.py [--rounds N] [--matching masked] [--store FILE]

Makes certificates and keys in a temporary folder, starts one SuperLink and three SuperNodes on the loopback interface,
shows that a node without a registered key, without the authority's certificate or without TLS is refused, runs
``examples/flower-quickstart`` on the others, prints what the server thinks of each, and ends every process it started.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sysconfig
import tempfile
from pathlib import Path

from keys import certificates, node_key
from processes import Started, free_port, processes

from fedprof.matching import MATCHINGS
from fedprof.simulation.store import Store

APP = Path(__file__).resolve().parents[1] / "flower-quickstart"
NODES = {"clinic-a": 2, "clinic-b": 4, "clinic-c": 1}
"""The app's partition of each node, of ten; partition 1 holds noise."""
RUN_SECONDS = 600
TLS_FILES = {"ca-cert": "ca.crt", "cert": "server.pem", "key": "server.key"}
READY, CONNECTED = "Uvicorn running", "SuperNode ID:"
REFUSED = {
    "unregistered-key": "Failed to activate SuperNode",
    "no-key": "All SuperNodes must be registered",
    "no-ca": "CERTIFICATE_VERIFY_FAILED",
    "plain-connection": "Server disconnected without sending a response",
}
"""What each node says that is refused: each lacks one thing, and must be refused for that."""


def script(name: str) -> str:
    """A program installed beside this Python."""
    return str(Path(sysconfig.get_path("scripts")) / name)


class Federation:
    """Where everything is, and how its processes are started."""

    def __init__(self, folder: Path, matching: str = "plain") -> None:
        self.folder, self.port, self.matching = folder, free_port(), matching
        self.address = f"127.0.0.1:{self.port}"
        self.env = {
            **os.environ,
            "PATH": os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")]),
            "FLWR_HOME": str(folder / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        }
        (folder / "flwr").mkdir()
        connection = f'[superlink]\ndefault = "secure"\n\n[superlink.secure]\naddress = "{self.address}"\n'
        certificate = f'root-certificates = "{folder / "ca.crt"}"\n'
        (folder / "flwr" / "config.toml").write_text(connection + certificate, encoding="utf-8")

    def start(self, name: str, program: str, *arguments: object) -> Started:
        """Start one of Flower's programs."""
        return Started([script(program), *map(str, arguments)], self.folder / f"{name}.log", self.env)

    def superlink(self) -> Started:
        """Start the SuperLink; it answers over TLS only, and to registered nodes only."""
        secrets = [f"--ssl-{part}file={self.folder / name}" for part, name in TLS_FILES.items()]
        options = ["--host=127.0.0.1", f"--port={self.port}", "--disable-runtime-dependency-installation"]
        return self.start("superlink", "flower-superlink", *options, *secrets, "--enable-supernode-auth")

    def supernode(self, name: str, partition: int, *security: object) -> Started:
        """Start a SuperNode; it lets its profile be matched in this way only, whatever the server asks."""
        config = f'name="{name}" partition-id={partition} num-partitions=10 matching="{self.matching}"'
        return self.start(
            name,
            "flower-supernode",
            f"--superlink={self.address}",
            f"--port={free_port()}",
            "--node-config",
            config,
            *security,
        )

    def key(self, name: str) -> str:
        """Make a key for a node; the option that gives it to a SuperNode."""
        return f"--auth-supernode-private-key={node_key(self.folder / name)}"

    def register(self, name: str) -> None:
        """Let in the node that has this key."""
        self.flwr("supernode", "register", self.folder / f"{name}.pub", "secure")

    def flwr(self, *arguments: object) -> str:
        """Run the command line."""
        command = [script("flwr"), *map(str, arguments)]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout


def demonstrate(federation: Federation, running: list[Started], rounds: int, store: Path) -> None:
    """Start everything, show who gets in and who does not, and train."""
    certificates(federation.folder)
    running.append(federation.superlink())
    expect(running[0], READY)
    ca = f"--root-certificates={federation.folder / 'ca.crt'}"
    keys = {name: federation.key(name) for name in NODES}
    for name in NODES:
        federation.register(name)
    nodes = [federation.supernode(name, partition, ca, keys[name]) for name, partition in NODES.items()]
    running += nodes
    refused = [federation.supernode(name, 0, *security) for name, security in uninvited(federation, ca).items()]
    running += refused
    for node in nodes:
        expect(node, CONNECTED)
        print(f"{node.name}: connected", flush=True)
    for node in refused:
        expect(node, REFUSED[node.name])
        print(f"{node.name}: refused ({line_with(REFUSED[node.name], node.said())})", flush=True)
    settings = f'num-server-rounds={rounds} fraction-train=0.67 matching="{federation.matching}"'
    settings += f" store={json.dumps(str(store))}"
    command = [script("flwr"), "run", str(APP), "secure", "--stream", "--run-config", settings]
    running.append(Started(command, federation.folder / "flwr-run.log", federation.env))
    running[-1].process.wait(RUN_SECONDS)
    print(running[-1].said())


def uninvited(federation: Federation, ca: str) -> dict[str, list[str]]:
    """Nodes that each lack one thing. A plain connection has no key either: a SuperNode sends none without TLS."""
    no_ca = federation.key("no-ca-key")
    federation.register("no-ca-key")
    return {
        "unregistered-key": [ca, federation.key("stranger-key")],
        "no-key": [ca],
        "no-ca": [no_ca],
        "plain-connection": ["--insecure", "--max-retries=1"],
    }


def expect(one: Started, text: str) -> None:
    """Wait until a process logs a text."""
    if one.wait_for(text) is None:
        raise SystemExit(f"{one.name} did not say {text!r}; it said:\n{one.said()}")


def line_with(text: str, log: str) -> str:
    """The line of a log that holds a text."""
    return next(line.strip() for line in log.splitlines() if text in line)


def show(store: Path, rounds: int) -> None:
    """Print what the run's store holds of every node."""
    with contextlib.closing(Store.open(store, read_only=True)) as run:
        rows = run.query(
            "SELECT name, divergence, score, picked FROM clients JOIN (SELECT client, SUM(selected) AS picked FROM "
            "participation GROUP BY client) USING (client) JOIN participation USING (client) WHERE round = ? "
            "ORDER BY name",
            rounds,
        )
    if not rows:
        raise SystemExit(f"round {rounds} was not reached")
    print(f"{'node':<12}{'divergence':>12}{'score':>12}{'picked':>8}")
    for name, divergence, score, picked in rows:
        print(f"{name:<12}{divergence:>12.4f}{score:>12.3g}{picked:>8}")


def main() -> None:
    """Parse the options and run it all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--matching", choices=MATCHINGS, default="plain", help="what the server learns of a profile")
    parser.add_argument("--store", type=Path, help="keep the run's file here, for `fedprof report`")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fedprof-secure-") as name, processes() as running:
        store = (options.store or Path(name) / "run.sqlite").resolve()
        demonstrate(Federation(Path(name), options.matching), running, options.rounds, store)
        show(store, options.rounds)
    print("All processes have ended.")


if __name__ == "__main__":
    main()
