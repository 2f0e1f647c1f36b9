"""How claims are judged: each judge measures an outcome and returns a verdict with the figures behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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


def faster(mode: str, cost: Cost = "rounds", baselines: tuple[str, ...] = ()) -> Judge:
    """FedProf takes less to the goal than these baselines, by default its whole group; confirmed if significantly."""

    def judge(outcome: Outcome) -> Finding:
        ours, others = _pair(outcome, mode)
        if ours is None:
            return OPEN
        chosen = [other for other in others if not baselines or other.algorithm in baselines]
        parts = []
        for other in chosen:
            wins, seeds = _earlier(ours, other, cost)
            parts.append(f"{_name(other)} {_took(other, cost)} (earlier on {wins} of {seeds} seeds)")
        verdict = _worst(_sooner(ours, other, cost) for other in chosen)
        return Finding(verdict, f"{cost}: FedProf {_took(ours, cost)}; " + ", ".join(parts))

    return judge


def most_accurate(mode: str) -> Judge:
    """FedProf has the highest best accuracy of its group; confirmed if significantly so against each."""

    def judge(outcome: Outcome) -> Finding:
        ours, others = _pair(outcome, mode)
        if ours is None:
            return OPEN
        tests = [(other, paired(ours.best, other.best)) for other in others]
        ahead = all(test is not None and test.difference > 0 for _, test in tests)
        sure = ahead and all(test is not None and test.significant for _, test in tests)
        parts = [f"{100 * test.difference:+.1f} points on {_name(other)}" for other, test in tests if test]
        return Finding(_graded(sure, ahead), f"FedProf {ours.mean_best:.3f}; " + ", ".join(parts))

    return judge


def gain(paper: float) -> Judge:
    """Best accuracy gained on FedAvg (full) or FedAvg-RP (partial), the larger of the two, against the paper's."""

    def judge(outcome: Outcome) -> Finding:
        gains = {
            baseline: two[0].mean_best - two[1].mean_best
            for mode, baseline in (("full", "fedavg"), ("partial", "fedavg-rp"))
            if (two := _matched(outcome, mode, baseline))
        }
        if not gains:
            return OPEN
        text = ", ".join(f"{100 * value:+.1f} points on {NAMES[name]}" for name, value in gains.items())
        return Finding(_sized(max(gains.values()), paper), f"{text}; the paper: up to {100 * paper:.1f}")

    return judge


def reduction(cost: Cost, mode: str, papers: Mapping[str, float], *, up_to: bool = False) -> Judge:
    """How much of a cost FedProf saves against each baseline, beside the paper's share; ``up_to``: the best counts."""

    def judge(outcome: Outcome) -> Finding:
        pairs = [(two, paper) for name, paper in papers.items() if (two := _matched(outcome, mode, name))]
        if len(pairs) < len(papers):
            return OPEN
        verdicts, parts = [], []
        for (ours, other), paper in pairs:
            if (mine := ours.mean(cost)) is None:
                return LOST
            share = 1 - mine / other.at_least(cost)
            verdicts.append(_sized(share, paper))
            parts.append(f"{_at_least(other)}{100 * share:.1f} % less than {_name(other)} ({100 * paper:.1f})")
        verdict = min(verdicts, key=_RANK.index) if up_to else _worst(verdicts)
        return Finding(verdict, f"{cost} (the paper's in brackets): {', '.join(parts)}")

    return judge


def partial_is_faster(outcome: Outcome) -> Finding:
    """FedAvg-RP (partial) needs fewer rounds than FedAvg (full); confirmed if significantly."""
    partial, full = outcome.get("fedavg-rp", "partial"), outcome.get("fedavg", "full")
    if partial is None or full is None:
        return OPEN
    if not partial.to_goal("rounds") and not full.to_goal("rounds"):
        return Finding(Verdict.OPEN, f"neither reached the goal in {partial.runs[0].run.rounds} rounds")
    return Finding(_sooner(partial, full), f"FedAvg-RP {_took(partial)}, FedAvg {_took(full)} rounds")


def under_30_against_100(outcome: Outcome) -> Finding:
    """FedAvg-RP under 30 rounds, FedAvg over 100."""
    partial, full = outcome.get("fedavg-rp", "partial"), outcome.get("fedavg", "full")
    if partial is None or full is None:
        return OPEN
    rounds = partial.mean("rounds")
    text = f"FedAvg-RP {_took(partial)}, FedAvg {_took(full)}"
    return _within(partial, [full], rounds is not None and rounds < 30, text)


def within_60(outcome: Outcome) -> Finding:
    """FedProf within 60 rounds, FedAvg and CFCFM over 100."""
    ours, others = _pair(outcome, "full")
    if ours is None:
        return OPEN
    rounds = ours.mean("rounds")
    text = ", ".join(f"{_name(entry)} {_took(entry)}" for entry in (ours, *others))
    return _within(ours, others, rounds is not None and rounds <= 60, text)


def less_than_half(outcome: Outcome) -> Finding:
    """FedProf takes less than half the rounds of most other algorithms."""
    ratios, parts = [], []
    for mode in GROUPS:
        ours, others = _pair(outcome, mode)
        if ours is None:
            return OPEN
        if (mine := ours.mean("rounds")) is None:
            return LOST
        for other in others:
            ratios.append(mine / other.at_least("rounds"))
            bound = "" if other.always_reached else "at most "
            parts.append(f"{bound}{ratios[-1]:.2f} of {_name(other)}'s")
    below = sum(ratio < 0.5 for ratio in ratios)
    fewer = sum(ratio < 1 for ratio in ratios)
    verdict = _graded(2 * below > len(ratios), 2 * fewer > len(ratios))
    return Finding(verdict, f"below half of {below} of {len(ratios)}: {', '.join(parts)}")


def afl_is_closest(outcome: Outcome) -> Finding:
    """Of the partial baselines, AFL's rounds are nearest to FedProf's."""
    ours, others = _pair(outcome, "partial")
    if ours is None:
        return OPEN
    if (mine := ours.mean("rounds")) is None:
        return LOST
    gaps = {other.algorithm: abs(mean - mine) for other in others if (mean := other.mean("rounds")) is not None}
    nearest = min(gaps, key=gaps.__getitem__, default="")
    text = ", ".join(f"{_name(entry)} {_took(entry)}" for entry in (ours, *others))
    return Finding(_graded(nearest == "afl", False), f"rounds: {text}")


def afl_fails(outcome: Outcome) -> Finding:
    """AFL never reaches the goal."""
    entry = outcome.get("afl", "partial")
    if entry is None:
        return OPEN
    never = Verdict.DIRECTION if entry.cut else Verdict.CONFIRMED
    verdict = Verdict.NOT if entry.to_goal("rounds") else never
    rounds = entry.runs[0].run.rounds
    return Finding(verdict, f"AFL's best accuracy in {rounds} rounds {entry.mean_best:.3f}; goal {_took(entry)}")


def speedup(mode: str, baseline: str, paper: float) -> Judge:
    """How many times sooner, by the clock, FedProf reaches the goal."""

    def judge(outcome: Outcome) -> Finding:
        if (two := _matched(outcome, mode, baseline)) is None:
            return OPEN
        ours, other = two
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
    return Finding(_graded(quickest == "cfcfm", False), f"minutes: {text}")


def avoids(*kinds: str, below: float) -> Judge:
    """Clients of these kinds take part less than ``below`` times as often as those whose data are normal."""

    def judge(outcome: Outcome) -> Finding:
        entries = [entry for mode in GROUPS if (entry := outcome.get("fedprof", mode))]
        known = [
            (entry.mode, kind, share / normal)
            for entry in entries
            if (normal := entry.share_of("normal"))
            for kind in kinds
            if (share := entry.share_of(kind)) is not None
        ]
        if not known:
            return OPEN
        worst = max(share for _, _, share in known)
        text = ", ".join(f"{kind} {share:.2f} ({mode})" for mode, kind, share in known)
        return Finding(
            _graded(worst < below, worst < 1),
            f"how often they take part, beside normal clients: {text}; confirmed below {below:g}",
        )

    return judge


_RANK = list(Verdict)


def _worst(verdicts: Iterable[Verdict]) -> Verdict:
    return max(verdicts, key=_RANK.index)


def _graded(holds: bool, direction: bool) -> Verdict:
    return Verdict.CONFIRMED if holds else Verdict.DIRECTION if direction else Verdict.NOT


def _sized(measured: float, paper: float) -> Verdict:
    return _graded(measured >= paper, measured > 0)


def _pair(outcome: Outcome, mode: str) -> tuple[Entry | None, list[Entry]]:
    """FedProf and all baselines of its group; nobody while one of them is missing."""
    group = outcome.group(mode)
    if len(group) < len(GROUPS[mode]):
        return None, []
    return outcome.get("fedprof", mode), [entry for entry in group if entry.algorithm != "fedprof"]


def _matched(outcome: Outcome, mode: str, baseline: str) -> tuple[Entry, Entry] | None:
    """FedProf and a baseline over the seeds that both have."""
    ours, other = outcome.get("fedprof", mode), outcome.get(baseline, mode)
    if ours is None or other is None or not (seeds := ours.best.keys() & other.best.keys()):
        return None
    return ours.over(seeds), other.over(seeds)


def _sooner(ours: Entry, other: Entry, cost: Cost = "rounds") -> Verdict:
    """Whether ours takes less to the goal: on most seeds, and significantly or where the other never got there."""
    wins, seeds = _earlier(ours, other, cost)
    test = paired(ours.to_goal(cost), other.to_goal(cost))
    never = not other.to_goal(cost) and wins == seeds >= 3
    sure = never or (ours.always_reached and test is not None and test.significant and test.difference < 0)
    return _graded(sure and 2 * wins > seeds, 2 * wins > seeds)


def _earlier(ours: Entry, other: Entry, cost: Cost) -> tuple[int, int]:
    """On how many of the common seeds ours took less to the goal, or got there while the other had not."""
    mine, theirs, bounds = ours.to_goal(cost), other.to_goal(cost), other.bounds(cost)
    seeds = ours.best.keys() & other.best.keys()
    won = [
        mine[seed] < bounds[seed] or (seed not in theirs and mine[seed] == bounds[seed]) for seed in seeds & mine.keys()
    ]
    return sum(won), len(seeds)


def _within(ours: Entry, others: Sequence[Entry], soon: bool, measured: str) -> Finding:
    """Ours soon enough, and all others beyond 100 rounds; in direction if ours is sooner than they."""
    late = all(
        needed > 100 if seed in other.to_goal("rounds") else needed >= 100
        for other in others
        for seed, needed in other.bounds("rounds").items()
    )
    sooner = _worst(_sooner(ours, other) for other in others) is not Verdict.NOT
    return Finding(_graded(soon and late, sooner), measured)


def _took(entry: Entry, cost: Cost = "rounds") -> str:
    reached = entry.to_goal(cost)
    if not reached:
        return f"not in {entry.at_least(cost):.0f}"
    mean = sum(reached.values()) / len(reached)
    places = 0 if cost == "rounds" else 1
    return f"{mean:.{places}f}" + ("" if entry.always_reached else f" ({len(reached)} of {len(entry.runs)} seeds)")


def _name(entry: Entry) -> str:
    return NAMES[entry.algorithm]


def _at_least(entry: Entry) -> str:
    return "" if entry.always_reached else "at least "
