"""How claims are judged: each judge measures an outcome and returns a verdict with the figures behind it."""

from __future__ import annotations

from collections.abc import Callable
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
LOST = Finding(Verdict.NOT, "FedProf did not reach the goal on every seed")


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
            parts.append(f"{_name(other)} {_rounds(other)} (earlier on {wins} of {seeds} seeds)")
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
        parts = [f"{100 * test.difference:+.1f} points on {_name(other)}" for other, test in tests if test]
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
        if (mine := ours.mean(cost)) is None:
            return LOST
        saved = [(1 - mine / other.at_least(cost), other) for other in others]
        text = ", ".join(f"{_at_least(other)}{100 * share:.1f} % less than {_name(other)}" for share, other in saved)
        share = max(share for share, _ in saved)
        return Finding(_sized(share, paper), f"{cost}: {text}; the paper: up to {100 * paper:.1f} %")

    return judge


def partial_is_faster(outcome: Outcome) -> Finding:
    """FedAvg-RP (partial) needs fewer rounds than FedAvg (full)."""
    partial, full = outcome.get("fedavg-rp", "partial"), outcome.get("fedavg", "full")
    if partial is None or full is None:
        return OPEN
    if not partial.to_goal("rounds") and not full.to_goal("rounds"):
        return Finding(Verdict.OPEN, f"neither reached the goal in {partial.runs[0].run.rounds} rounds")
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
    text = ", ".join(f"{_name(entry)} {_rounds(entry)}" for entry in (ours, *others))
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
            ratios[f"{_name(other)}"] = 0.0 if theirs is None else mine / theirs
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
    text = ", ".join(f"{_name(other)} {_rounds(other)}" for other in others)
    return Finding(Verdict.CONFIRMED if nearest == "afl" else Verdict.NOT, f"rounds: {text}")


def afl_fails(outcome: Outcome) -> Finding:
    """AFL never reaches the goal."""
    entry = outcome.get("afl", "partial")
    if entry is None:
        return OPEN
    never = Verdict.DIRECTION if entry.cut else Verdict.CONFIRMED
    verdict = Verdict.NOT if entry.to_goal("rounds") else never
    rounds = entry.runs[0].run.rounds
    return Finding(verdict, f"AFL's best accuracy in {rounds} rounds {entry.mean_best:.3f}; goal {_rounds(entry)}")


def speedup(mode: str, baseline: str, paper: float) -> Judge:
    """How many times sooner, by the clock, FedProf reaches the goal."""

    def judge(outcome: Outcome) -> Finding:
        ours, other = outcome.get("fedprof", mode), outcome.get(baseline, mode)
        if ours is None or other is None:
            return OPEN
        if (mine := ours.mean("minutes")) is None:
            return LOST
        factor = other.at_least("minutes") / mine
        return Finding(_sized(factor - 1, paper - 1), f"{_at_least(other)}{factor:.1f} times; the paper: {paper:.1f}")

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


def _rounds(entry: Entry) -> str:
    reached = entry.to_goal("rounds")
    if not reached:
        return f"not in {entry.runs[0].run.rounds}"
    mean = sum(reached.values()) / len(reached)
    return f"{mean:.0f}" + ("" if entry.always_reached else f" ({len(reached)} of {len(entry.runs)} seeds)")


def _name(entry: Entry) -> str:
    return NAMES[entry.algorithm]


def _at_least(entry: Entry) -> str:
    return "" if entry.always_reached else "at least "


def _sized(measured: float, paper: float) -> Verdict:
    if measured >= paper:
        return Verdict.CONFIRMED
    return Verdict.DIRECTION if measured > 0 else Verdict.NOT


def _both(one: bool, other: bool, measured: str) -> Finding:
    verdict = Verdict.CONFIRMED if one and other else Verdict.DIRECTION if one or other else Verdict.NOT
    return Finding(verdict, measured)
