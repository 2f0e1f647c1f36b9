"""Sweeps: what was tried before a number in a preset was chosen, and what the paper does not ask about FedProf.

The seeds of a sweep that chose a number are not those of the tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fedprof.reproduction.biased import SIZES
from fedprof.tasks.load import Plan, plan

TUNING_SEEDS = (10, 11, 12)
SEEDS = (0, 1, 2)
XAVIER = ("model.initialisation=xavier",)
EMNIST = ("data.clients=200", "data.validation=16000")
Algorithms = tuple[tuple[str, str | None], ...]
BOTH: Algorithms = (("fedavg-rp", None), ("fedprof", "partial"))
FULL: Algorithms = (("fedavg", None), ("fedprof", "full"))


@dataclass(frozen=True)
class Point:
    """One setting of a study."""

    label: str
    overrides: tuple[str, ...]


@dataclass(frozen=True)
class Study:
    """Algorithms on one task at several points."""

    name: str
    title: str
    task: str
    algorithms: Algorithms
    points: tuple[Point, ...]
    seeds: tuple[int, ...]
    rounds: int
    overrides: tuple[str, ...] = ()
    what: str = ""
    """What is to be learned from it."""

    def plans(self) -> Iterator[tuple[Point, Plan]]:
        """All runs, seed by seed."""
        for seed in self.seeds:
            for point in self.points:
                for algorithm, mode in self.algorithms:
                    overrides = (*self.overrides, *point.overrides)
                    yield (
                        point,
                        plan(
                            self.task,
                            algorithm=algorithm,
                            aggregation=mode,
                            rounds=self.rounds,
                            seed=seed,
                            overrides=overrides,
                        ),
                    )


def varied(key: str, values: tuple[float | str, ...]) -> tuple[Point, ...]:
    """One point a value of a setting."""
    return tuple(Point(str(value), (f"{key}={value}",)) for value in values)


def _tune(algorithm: str, key: str, quick: tuple[float, ...], emnist: tuple[float, ...]) -> Iterator[Study]:
    """Tune a baseline's parameter, for long on the quick tasks and for short on the slow one."""
    for task, title, values, seeds, rounds, overrides in (
        ("digits", "Digits", quick, TUNING_SEEDS, 60, ()),
        ("gasturbine", "GasTurbine", quick, TUNING_SEEDS[:2], 150, ()),
        ("emnist", "EMNIST 200 x 480", emnist, TUNING_SEEDS[:1], 25, EMNIST),
    ):
        yield Study(
            f"tune-{task}-{algorithm}", f"{title}: {algorithm}, {key}", task, ((algorithm, None),),
            varied(f"algorithms.{algorithm}.{key}", values), seeds, rounds, overrides,
            what=f"chooses {key} of {algorithm}",
        )  # fmt: skip


def _tune_cifar10(algorithm: str, key: str, values: tuple[float, ...], seeds: tuple[int, ...]) -> Study:
    """Tune on the costliest task, on seeds of the table: a choice that can only favour the baseline."""
    points = varied(f"algorithms.{algorithm}.{key}", values)
    name, title = f"tune-cifar10-{algorithm}", f"CIFAR-10: {algorithm}, {key}"
    return Study(name, title, "cifar10", ((algorithm, None),), points, seeds, 57, what=f"chooses {key} of {algorithm}")


TUNING = (
    Study(
        "tune-gasturbine-noise", "GasTurbine: strength of the Gaussian noise", "gasturbine",
        (("fedavg", None),), varied("damage.noise.sigma", (1.0, 1.5, 2.0, 3.0)), TUNING_SEEDS, 500,
        what="chooses the noise so that FedAvg comes near the paper's 0.817 after 82 rounds",
    ),
    Study(
        "tune-emnist-blur", "EMNIST 200 x 480: width of the blur", "emnist",
        (("fedavg-rp", None),), varied("damage.blur.sigma", (1.5, 2.0, 3.0)), TUNING_SEEDS[:1], 60, EMNIST,
        what="chooses the blur so that FedAvg-RP comes near the paper's 23 rounds",
    ),
    Study(
        "tune-emnist-network", "EMNIST 200 x 480: which LeNet, from which initial weights", "emnist",
        (("fedavg-rp", None),),
        (
            Point("lenet5", ()),
            Point("lenet5 by Xavier", XAVIER),
            Point("lenet-caffe", ("model.name=lenet-caffe",)),
        ),
        TUNING_SEEDS[:1], 30, EMNIST,
        what="chooses the network so that FedAvg-RP comes near the paper's 23 rounds; full-reading is its counterpart",
    ),
    Study(
        "full-reading", "EMNIST 200 x 480, full aggregation: what an absent client contributes", "emnist",
        FULL,
        (
            Point("lenet5, fresh", ()),
            Point("lenet5, cache", ("reading=cache",)),
            Point("lenet5 by Xavier, fresh", XAVIER),
            Point("lenet-caffe, fresh", ("model.name=lenet-caffe",)),
        ),
        TUNING_SEEDS[:1], 120, EMNIST,
        what="shows which reading of full aggregation, and which LeNet, comes near the paper's rounds",
    ),
    Study(
        "full-reading-gasturbine", "GasTurbine, full aggregation: what an absent client contributes", "gasturbine",
        FULL, (Point("fresh", ()), Point("cache", ("reading=cache",))), TUNING_SEEDS[:2], 500,
        what="shows which reading of full aggregation comes near the paper's 82 (FedAvg) and 38 rounds (FedProf)",
    ),
    *_tune("fedprox", "mu", (0.0, 0.001, 0.01, 0.1, 1.0), (0.001, 0.01, 0.1)),
    *_tune("fedadam", "server_rate", (0.001, 0.003, 0.01, 0.03, 0.1), (0.001, 0.003, 0.01, 0.03)),
    _tune_cifar10("fedprox", "mu", (0.01, 0.1), SEEDS[:1]),
    _tune_cifar10("fedadam", "server_rate", (0.001, 0.003, 0.01), SEEDS),
    _tune_cifar10("afl", "momentum", (0.5, 0.9), SEEDS[:1]),
    *_tune("afl", "momentum", (0.0, 0.3, 0.5, 0.7, 0.9), (0.0, 0.3, 0.5, 0.7, 0.9)),
)  # fmt: skip
"""Before the tables: the numbers in the presets come from these."""

COMBINED = "fedprof.reproduction.combined:FedProfAdam"
KINDS = ("none", "irrelevant", "blur", "pixel", "noise", "duplicated", "mislabelled")


def _mixture(share: float) -> Point:
    """The share of bad clients, split as in the digits preset."""
    parts = {"irrelevant": 0.25, "blur": 1 / 3, "pixel": 5 / 12}
    return Point(f"{share:.0%}", tuple(f"damage.{kind}.share={share * part:.6f}" for kind, part in parts.items()))


def _only(kind: str, share: float = 0.6) -> Point:
    usual = [f"damage.{name}.share=0.0" for name in ("irrelevant", "blur", "pixel") if name != kind]
    return Point(kind, (*usual, *([] if kind == "none" else [f"damage.{kind}.share={share}"])))


def _validation(name: str, size: int) -> Point:
    source = f"data.source=fedprof.reproduction.biased:{name}"
    return Point(f"{name.replace('_', ' ')} ({size})", (source, f"data.validation={size}"))


BEYOND = (
    Study(
        "alpha", "Penalty factor alpha", "digits", (("fedprof", "partial"),),
        varied("alpha", (0, 1, 3, 10, 30, 100)), SEEDS, 60,
        what="alpha = 0 selects at random",
    ),
    Study(
        "bad-clients", "Share of bad clients", "digits", BOTH,
        tuple(_mixture(share) for share in (0.0, 0.2, 0.4, 0.6, 0.8)), SEEDS, 60,
        what="at 0 % FedProf must not lose",
    ),
    Study(
        "damage", "Kind of damage (60 % of the clients)", "digits", BOTH,
        tuple(_only(kind) for kind in KINDS), SEEDS, 60,
        what="a profile of inputs cannot see wrong labels",
    ),
    Study(
        "server-adam", "Selection and server optimiser together (GasTurbine)", "gasturbine",
        (("fedavg-rp", None), ("fedprof", "partial"), ("fedadam", None), (COMBINED, None)),
        (Point("usual", ()),), SEEDS, 150,
        what="FedADAM's lead comes from Adam on the server; FedProf's clients can have it too",
    ),
    Study(
        "server-adam-emnist", "Selection and server optimiser together (EMNIST 200 x 480)", "emnist",
        (("fedadam", None), (COMBINED, None)), varied("server_rate", (0.01,)), SEEDS[:1], 40, EMNIST,
        what="the same on images",
    ),
    Study(
        "layer", "Profiled layer", "digits", (("fedprof", "partial"),),
        varied("model.layer", ("fc1", "relu1", "fc2")), SEEDS, 60,
        what="the last dense layer's representations are the classes' scores",
    ),
    Study(
        "validation", "The server's validation set: who takes part", "digits", (("fedprof", "partial"),),
        tuple(_validation(name, size) for name, size in SIZES.items()), SEEDS, 60,
        what="60 % of the clients are bad; accuracies are measured on the same set and do not compare",
    ),
)  # fmt: skip
"""Beyond the paper: how FedProf's lead depends on things."""

STUDIES = {study.name: study for study in (*TUNING, *BEYOND)}
