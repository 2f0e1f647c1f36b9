"""A run's summary in a few plain lines."""

from __future__ import annotations

from fedprof.simulation.summary import Summary


def describe(summary: Summary) -> str:
    """Say what a run came to."""
    goal = f"accuracy {summary.goal:g}"
    if summary.rounds_to_goal is None:
        reached = f"{goal} not reached"
    else:
        reached = (
            f"{goal} after {_rounds(summary.rounds_to_goal)}, {summary.minutes_to_goal:.1f} min, "
            f"{summary.energy_wh_to_goal:.3g} Wh"
        )
    name = f"{summary.algorithm} ({summary.aggregation}) on {summary.task}, seed {summary.seed}"
    spent = f"{summary.minutes:.1f} min and {summary.energy_wh:.3g} Wh (virtual)"
    lines = [
        f"{name}: {_rounds(summary.rounds)}",
        f"  best accuracy {summary.best_accuracy:.3f}, final {summary.final_accuracy:.3f}",
        f"  {reached}",
        f"  whole run {spent}, {summary.wall_seconds:.1f} s of computing ({summary.engine})",
        f"  recorded in {summary.run}",
    ]
    return "\n".join(lines)


def _rounds(count: int) -> str:
    return f"{count} round{'s' if count != 1 else ''}"
