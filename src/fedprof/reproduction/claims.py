"""The paper's claims about its experiments, one by one: what it says, where, and who judges it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fedprof.reproduction.judges import (
    Finding,
    Judge,
    afl_fails,
    afl_is_closest,
    avoids,
    cfcfm_is_quickest,
    faster,
    gain,
    less_than_half,
    most_accurate,
    partial_is_faster,
    reduction,
    speedup,
    under_30_against_100,
    within_60,
)
from fedprof.reproduction.results import Outcome


@dataclass(frozen=True)
class Claim:
    """What the paper says, where, and how it is judged."""

    text: str
    where: str
    tasks: tuple[str, ...]
    judge: Judge

    def findings(self, outcomes: Mapping[str, Outcome]) -> list[tuple[str, Finding]]:
        """Judge it on every experiment of its tasks that there are results of."""
        return [(name, self.judge(one)) for name, one in outcomes.items() if one.experiment.task in self.tasks]


ALL = ("gasturbine", "emnist", "cifar10")
CLAIMS = (
    Claim("Partial aggregation converges faster than full aggregation.", "V-B 1", ALL, partial_is_faster),
    Claim(
        "On EMNIST FedAvg-RP needs fewer than 30 rounds to 90 %, FedAvg more than 100.",
        "V-B 1", ("emnist",), under_30_against_100,
    ),
    Claim("FedProf converges faster than every baseline, full aggregation.", "V-B 1", ALL, faster("full")),
    Claim("FedProf converges faster than every baseline, partial aggregation.", "V-B 1", ALL, faster("partial")),
    Claim("FedProf reaches the best accuracy, full aggregation.", "Tables 3-5", ALL, most_accurate("full")),
    Claim("FedProf reaches the best accuracy, partial aggregation.", "Tables 3-5", ALL, most_accurate("partial")),
    Claim("Up to 1.8 points over FedAvg and FedAvg-RP on GasTurbine.", "V-B 2", ("gasturbine",), gain(0.018)),
    Claim("Up to 1.7 points over FedAvg and FedAvg-RP on EMNIST.", "V-B 2", ("emnist",), gain(0.017)),
    Claim("Up to 6.8 points over FedAvg and FedAvg-RP on CIFAR-10.", "V-B 2", ("cifar10",), gain(0.068)),
    Claim("Less than half the rounds of other algorithms in most cases.", "V-B 3", ("gasturbine",), less_than_half),
    Claim("Within 60 rounds on EMNIST; FedAvg and CFCFM over 100.", "V-B 3", ("emnist",), within_60),
    Claim("AFL comes closest to FedProf on EMNIST.", "V-B 3", ("emnist",), afl_is_closest),
    Claim("AFL fails to reach 60 % on CIFAR-10.", "V-B 3", ("cifar10",), afl_fails),
    Claim(
        "Up to 63 % fewer rounds (CIFAR-10).", "I-B", ("cifar10",),
        reduction("rounds", "full", {"fedavg": 0.63}),
    ),
    Claim("2.1 times sooner than FedAvg on GasTurbine.", "V-B 4", ("gasturbine",), speedup("full", "fedavg", 2.1)),
    Claim("2.4 times sooner than FedAvg-RP on CIFAR-10.", "V-B 4", ("cifar10",), speedup("partial", "fedavg-rp", 2.4)),
    Claim(
        "Less time to the goal than CFCFM (its own Table 4 has CFCFM quicker).", "V-B 4", ALL,
        faster("full", "minutes", ("cfcfm",)),
    ),
    Claim(
        "Less time to the goal than FedProx, FedADAM and AFL.", "V-B 4", ALL,
        faster("partial", "minutes", ("fedprox", "fedadam", "afl")),
    ),
    Claim(
        "Up to 65.7 % less time than these (CIFAR-10, FedADAM).", "V-B 4", ("cifar10",),
        reduction("minutes", "partial", dict.fromkeys(("fedprox", "fedadam"), 0.657), up_to=True),
    ),
    Claim("CFCFM is the quickest by the clock on EMNIST.", "V-B 4, Table 4", ("emnist",), cfcfm_is_quickest),
    Claim(
        "37 % less energy than FedAvg and CFCFM on EMNIST.", "V-B 5", ("emnist",),
        reduction("energy", "full", {"fedavg": 0.37, "cfcfm": 0.37}),
    ),
    Claim(
        "58.9 % less energy than FedAvg-RP, 64.4 % less than FedADAM on CIFAR-10.", "V-B 5", ("cifar10",),
        reduction("energy", "partial", {"fedavg-rp": 0.589, "fedadam": 0.644}),
    ),
    Claim(
        "Polluted and noisy sensors take part significantly less.", "V-B 6", ("gasturbine",),
        avoids("polluted", "noise", below=0.5),
    ),
    Claim(
        "Clients with irrelevant or severely blurred images are basically excluded.", "V-B 6", ("emnist",),
        avoids("irrelevant", "blur", below=0.1),
    ),
    Claim(
        "Clients with moderately noisy (salt-and-pepper) images take part less.", "V-B 6", ("emnist",),
        avoids("pixel", below=1.0),
    ),
    Claim(
        "Low-value clients are avoided throughout.", "V-B 6", ("cifar10",),
        avoids("irrelevant", "blur", "pixel", below=0.5),
    ),
)  # fmt: skip
