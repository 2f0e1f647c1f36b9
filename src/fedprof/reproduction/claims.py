"""The paper's claims about its experiments, one by one, each with a measure and a verdict computed from the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from fedprof.report.comparison import NAMES
from fedprof.reproduction.experiments import GROUPS
from fedprof.reproduction.results import Cost, Entry, Outcome
from fedprof.reproduction.statistics import paired


class Verdict(StrEnum):
    """What became of a claim."""

    CONFIRMED = "confirmed"
    DIRECTION = "confirmed in direction"
    NOT = "not confirmed"
    OPEN = "not measured"


@dataclass(frozen=True)
class Finding:
    """A verdict and the figures behind it."""

    verdict: Verdict
    measured: str


Judge = Callable[[Outcome], Finding]
OPEN = Finding(Verdict.OPEN, "runs are missing")


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


def faster(mode: str) -> Judge:
    """FedProf needs fewer rounds to the goal than every baseline of its group; confirmed if significant throughout."""

    def judge(outcome: Outcome) -> Finding:
        ours, others = _pair(outcome, mode)
        if ours is None or not others:
            return OPEN
        parts, fewer, significant = [], True, True
        for other in others:
            test = paired(ours.to_goal("rounds"), other.to_goal("rounds"))
            wins, seeds = _earlier(ours, other)
            fewer &= 2 * wins > seeds
            significant &= (test is not None and test.significant and test.difference < 0) or _never(ours, other)
            parts.append(f"{NAMES[other.algorithm]} {_rounds(other)} (earlier on {wins} of {seeds} seeds)")
        verdict = Verdict.CONFIRMED if fewer and significant else Verdict.DIRECTION if fewer else Verdict.NOT
        return Finding(verdict, f"rounds: FedProf {_rounds(ours)}; " + ", ".join(parts))

    return judge


def most_accurate(mode: str) -> Judge:
    """FedProf has the highest best accuracy of its group; confirmed if significantly so against each."""

    def judge(outcome: Outcome) -> Finding:
        ours, others = _pair(outcome, mode)
        if ours is None or not others:
            return OPEN
        tests = [(other, paired(ours.best, other.best)) for other in others]
        ahead = all(test is not None and test.difference > 0 for _, test in tests)
        sure = ahead and all(test is not None and test.significant for _, test in tests)
        verdict = Verdict.CONFIRMED if sure else Verdict.DIRECTION if ahead else Verdict.NOT
        parts = [f"{100 * test.difference:+.1f} points on {NAMES[other.algorithm]}" for other, test in tests if test]
        return Finding(verdict, f"FedProf {ours.mean_best:.3f}; " + ", ".join(parts))

    return judge


def gain(paper: float) -> Judge:
    """Best accuracy gained on FedAvg (full) or FedAvg-RP (partial), the larger of the two, against the paper's."""

    def judge(outcome: Outcome) -> Finding:
        gains = {
            baseline: ours.mean_best - other.mean_best
            for mode, baseline in (("full", "fedavg"), ("partial", "fedavg-rp"))
            if (ours := outcome.get("fedprof", mode)) and (other := outcome.get(baseline, mode))
        }
        if not gains:
            return OPEN
        text = ", ".join(f"{100 * value:+.1f} points on {NAMES[name]}" for name, value in gains.items())
        return Finding(_sized(max(gains.values()), paper), f"{text}; the paper: up to {100 * paper:.1f}")

    return judge


def reduction(cost: Cost, mode: str, baselines: tuple[str, ...], paper: float) -> Judge:
    """How much of a cost FedProf saves, the most over these baselines, against the paper's share."""

    def judge(outcome: Outcome) -> Finding:
        ours, _ = _pair(outcome, mode)
        others = [other for name in baselines if (other := outcome.get(name, mode))]
        if ours is None or not others:
            return OPEN
        saved = {name.algorithm: _saved(ours, name, cost) for name in others}
        known = {name: share for name, share in saved.items() if share is not None}
        if not known:
            return Finding(Verdict.NOT, _unreached(ours, others))
        text = ", ".join(f"{100 * share:.1f} % less than {NAMES[name]}" for name, share in known.items())
        return Finding(_sized(max(known.values()), paper), f"{cost}: {text}; the paper: {100 * paper:.1f} %")

    return judge


def partial_is_faster(outcome: Outcome) -> Finding:
    """FedAvg-RP (partial) needs fewer rounds than FedAvg (full)."""
    partial, full = outcome.get("fedavg-rp", "partial"), outcome.get("fedavg", "full")
    if partial is None or full is None:
        return OPEN
    wins, seeds = _earlier(partial, full)
    verdict = Verdict.CONFIRMED if wins == seeds else Verdict.DIRECTION if 2 * wins > seeds else Verdict.NOT
    return Finding(verdict, f"FedAvg-RP {_rounds(partial)}, FedAvg {_rounds(full)} rounds")


def under_30_against_100(outcome: Outcome) -> Finding:
    """FedAvg-RP under 30 rounds, FedAvg over 100."""
    partial, full = outcome.get("fedavg-rp", "partial"), outcome.get("fedavg", "full")
    if partial is None or full is None:
        return OPEN
    rounds = partial.mean("rounds")
    return _both(
        rounds is not None and rounds < 30, _beyond(full, 100), f"FedAvg-RP {_rounds(partial)}, FedAvg {_rounds(full)}"
    )


def within_60(outcome: Outcome) -> Finding:
    """FedProf within 60 rounds, FedAvg and CFCFM over 100."""
    ours, others = _pair(outcome, "full")
    if ours is None or not others:
        return OPEN
    rounds = ours.mean("rounds")
    text = ", ".join(f"{NAMES[entry.algorithm]} {_rounds(entry)}" for entry in (ours, *others))
    return _both(rounds is not None and rounds <= 60, all(_beyond(other, 100) for other in others), text)


def less_than_half(outcome: Outcome) -> Finding:
    """FedProf takes less than half the rounds of most other algorithms."""
    ratios = {}
    for mode in GROUPS:
        ours, others = _pair(outcome, mode)
        if ours is None or (mine := ours.mean("rounds")) is None:
            continue
        for other in others:
            theirs = other.mean("rounds")
            ratios[f"{NAMES[other.algorithm]}"] = 0.0 if theirs is None else mine / theirs
    if not ratios:
        return OPEN
    below = sum(ratio < 0.5 for ratio in ratios.values())
    verdict = Verdict.CONFIRMED if 2 * below > len(ratios) else Verdict.NOT
    if verdict is Verdict.NOT and sum(ratio < 1 for ratio in ratios.values()) * 2 > len(ratios):
        verdict = Verdict.DIRECTION
    parts = ", ".join(
        f"{ratio:.2f} of {name}'s" if ratio else f"{name}: not always reached" for name, ratio in ratios.items()
    )
    return Finding(verdict, f"below half of {below} of {len(ratios)}: {parts}")


def afl_is_closest(outcome: Outcome) -> Finding:
    """Of the partial baselines, AFL needs fewest rounds."""
    _, others = _pair(outcome, "partial")
    means = {other.algorithm: other.mean("rounds") for other in others}
    if "afl" not in means or len(means) < len(GROUPS["partial"]) - 1:
        return OPEN
    known = {name: mean for name, mean in means.items() if mean is not None}
    nearest = min(known, key=known.__getitem__, default="")
    text = ", ".join(f"{NAMES[other.algorithm]} {_rounds(other)}" for other in others)
    return Finding(Verdict.CONFIRMED if nearest == "afl" else Verdict.NOT, f"rounds: {text}")


def afl_fails(outcome: Outcome) -> Finding:
    """AFL never reaches the goal."""
    entry = outcome.get("afl", "partial")
    if entry is None:
        return OPEN
    verdict = Verdict.NOT if entry.to_goal("rounds") else Verdict.CONFIRMED
    return Finding(verdict, f"AFL's best accuracy {entry.mean_best:.3f}; rounds {_rounds(entry)}")


def speedup(mode: str, baseline: str, paper: float) -> Judge:
    """How many times sooner, by the clock, FedProf reaches the goal."""

    def judge(outcome: Outcome) -> Finding:
        ours, other = outcome.get("fedprof", mode), outcome.get(baseline, mode)
        if ours is None or other is None:
            return OPEN
        mine, theirs = ours.mean("minutes"), other.mean("minutes")
        if mine is None or theirs is None:
            return Finding(Verdict.NOT, _unreached(ours, [other]))
        factor = theirs / mine
        return Finding(_sized(factor - 1, paper - 1), f"{factor:.1f} times; the paper: {paper:.1f}")

    return judge


def cfcfm_is_quickest(outcome: Outcome) -> Finding:
    """CFCFM reaches the goal in the least time of the full group."""
    entries = outcome.group("full")
    times = {entry.algorithm: entry.mean("minutes") for entry in entries}
    if len(times) < len(GROUPS["full"]):
        return OPEN
    known = {name: time for name, time in times.items() if time is not None}
    if "cfcfm" not in known:
        return Finding(Verdict.NOT, "CFCFM did not reach the goal on every seed")
    quickest = min(known, key=known.__getitem__)
    text = ", ".join(f"{NAMES[name]} {time:.1f}" for name, time in known.items())
    return Finding(Verdict.CONFIRMED if quickest == "cfcfm" else Verdict.NOT, f"minutes: {text}")


def avoids(*kinds: str, below: float) -> Judge:
    """Clients of these kinds take part less than ``below`` times as often as an even chance would give."""

    def judge(outcome: Outcome) -> Finding:
        entries = [entry for mode in GROUPS if (entry := outcome.get("fedprof", mode))]
        shares = [(entry.mode, kind, entry.share_of(kind)) for entry in entries for kind in kinds]
        known = [(mode, kind, share) for mode, kind, share in shares if share is not None]
        if not known:
            return OPEN
        worst = max(share for _, _, share in known)
        verdict = Verdict.CONFIRMED if worst < below else Verdict.DIRECTION if worst < 1 else Verdict.NOT
        text = ", ".join(f"{kind} {share:.2f} ({mode})" for mode, kind, share in known)
        return Finding(verdict, f"participation relative to an even chance: {text}")

    return judge


def _pair(outcome: Outcome, mode: str) -> tuple[Entry | None, list[Entry]]:
    group = outcome.group(mode)
    return outcome.get("fedprof", mode), [entry for entry in group if entry.algorithm != "fedprof"]


def _earlier(ours: Entry, other: Entry) -> tuple[int, int]:
    """On how many of the common seeds ours reached the goal in fewer rounds, or alone."""
    mine, theirs = ours.to_goal("rounds"), other.to_goal("rounds")
    seeds = ours.best.keys() & other.best.keys()
    never = float("inf")
    return sum(mine.get(seed, never) < theirs.get(seed, never) for seed in seeds), len(seeds)


def _never(ours: Entry, other: Entry) -> bool:
    """Whether ours always got there and the other never did, over seeds enough to mean something."""
    return ours.always_reached and not other.to_goal("rounds") and len(other.runs) >= 3


def _beyond(entry: Entry, rounds: int) -> bool:
    return all(needed > rounds for needed in entry.to_goal("rounds").values())


def _saved(ours: Entry, other: Entry, cost: Cost) -> float | None:
    mine, theirs = ours.mean(cost), other.mean(cost)
    return None if mine is None or theirs is None else 1 - mine / theirs


def _rounds(entry: Entry) -> str:
    reached = entry.to_goal("rounds")
    if not reached:
        return "never"
    mean = sum(reached.values()) / len(reached)
    return f"{mean:.0f}" + ("" if entry.always_reached else f" ({len(reached)} of {len(entry.runs)} seeds)")


def _unreached(ours: Entry, others: list[Entry]) -> str:
    named = [entry for entry in (ours, *others) if not entry.always_reached]
    return "the goal was not reached on every seed by " + ", ".join(NAMES[entry.algorithm] for entry in named)


def _sized(measured: float, paper: float) -> Verdict:
    if measured >= paper:
        return Verdict.CONFIRMED
    return Verdict.DIRECTION if measured > 0 else Verdict.NOT


def _both(one: bool, other: bool, measured: str) -> Finding:
    verdict = Verdict.CONFIRMED if one and other else Verdict.DIRECTION if one or other else Verdict.NOT
    return Finding(verdict, measured)


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
        reduction("rounds", "full", ("fedavg",), 0.63),
    ),
    Claim("2.1 times sooner than FedAvg on GasTurbine.", "V-B 4", ("gasturbine",), speedup("full", "fedavg", 2.1)),
    Claim("2.4 times sooner than FedAvg-RP on CIFAR-10.", "V-B 4", ("cifar10",), speedup("partial", "fedavg-rp", 2.4)),
    Claim(
        "Up to 65.7 % less time than FedProx, FedADAM and AFL (CIFAR-10, FedADAM).", "V-B 4", ("cifar10",),
        reduction("minutes", "partial", ("fedprox", "fedadam"), 0.657),
    ),
    Claim("CFCFM is the quickest by the clock on EMNIST.", "V-B 4, Table 4", ("emnist",), cfcfm_is_quickest),
    Claim(
        "37 % less energy than FedAvg and CFCFM on EMNIST.", "V-B 5", ("emnist",),
        reduction("energy", "full", ("fedavg", "cfcfm"), 0.37),
    ),
    Claim(
        "58.9 % less energy than FedAvg-RP, 64.4 % less than FedADAM on CIFAR-10.", "V-B 5", ("cifar10",),
        reduction("energy", "partial", ("fedavg-rp", "fedadam"), 0.644),
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
