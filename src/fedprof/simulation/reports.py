"""What reaches the server: of a client's work, only what the way of matching lets through.

Private matching is not carried out here but accounted for: its bytes and cycles enter the costs (see ``start.py``), and
the server is told the divergence rounded just as the client of such a scheme reports it. Encryption for real draws its
keys and noise from the system's random source: a run could not be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fedprof.algorithms.base import Reply, Report, Selection
from fedprof.core.divergence import divergence
from fedprof.simulation.federation import Outcome
from fedprof.training.engine import Update

if TYPE_CHECKING:
    from fedprof.core.profile import Profile


def replies(
    number: int, selection: Selection, outcome: Outcome, updates: Mapping[int, Update], baseline: Profile | None
) -> list[Reply]:
    """Answers of those whose submission the server took; with a ``baseline``, profiles are matched in private."""
    draws = dict(zip(selection.clients.tolist(), selection.draws.tolist(), strict=True))
    made = []
    for one in outcome.merged:
        if (update := updates.get(one.client)) is None:
            continue
        profile, match = shown(update.profile, baseline)
        made.append(
            Reply(
                client=one.client,
                version=number - 1,
                loss=update.loss,
                profile=profile,
                divergence=match,
                weights=update.weights,
                draws=draws[one.client],
            )
        )
    return made


def initial_reports(profiles: Sequence[tuple[int, Profile]], baseline: Profile | None) -> list[Report]:
    """Clients' first profiles (Algorithm 1, line 4)."""
    reports = []
    for client, given in profiles:
        profile, match = shown(given, baseline)
        reports.append(Report(client, 0, profile=profile, divergence=match))
    return reports


def shown(profile: Profile | None, baseline: Profile | None) -> tuple[Profile | None, float | None]:
    """A profile in the clear, or the divergence instead."""
    if profile is None or baseline is None:
        return profile, None
    from fedprof.matching.base import rounded

    return None, rounded(divergence(profile, baseline))
