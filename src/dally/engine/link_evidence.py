"""What each job's speed says of links that may be slow: the model is asked what all jobs would do if one were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from dally.health.suspicion import ELEVATED, LEAST_SHIFT, LINK_FACTORS, Member, PlacedSpeed
from dally.model import Job
from dally.perf.hidden_faults import HiddenFaults
from dally.perf.link_effects import LinkEffects

LINK: Final = "link "  # names of members that are links begin so


class LinkEvidence:
    """Asked only of links that a slow gang uses: each answer costs as much as placing the gangs on it."""

    def __init__(self, faults: HiddenFaults) -> None:
        self._effects = LinkEffects(faults.expected)

    def attach(self, rows: Sequence[PlacedSpeed], running: Mapping[int, Job]) -> list[PlacedSpeed]:
        """The rows with each suspected link's shifts of their steps; also of jobs that do not cross it."""
        links = {member.name: member.place for row in rows if _is_slow(row) for member in row.members
                 if member.name.startswith(LINK)}  # fmt: skip
        if not links:
            return list(rows)
        self._effects.follow(job for job in running.values() if len(_machines(job)) > 1)
        by_name = {job.job_id: int(job.index) for job in running.values()}
        effects = {
            name: [self._effects.of(int(name.removeprefix(LINK)), factor) for factor in LINK_FACTORS]
            for name in links
        }
        result: list[PlacedSpeed] = []
        for row in rows:
            members = {member.name: member for member in row.members}
            index = by_name[row.job]
            for name, by_factor in effects.items():
                shifts = tuple(effect.get(index, 0.0) for effect in by_factor)
                if max(shifts) > LEAST_SHIFT or min(shifts) < -LEAST_SHIFT or name in members:
                    share = members[name].share if name in members else 0.0
                    members[name] = Member(name, share, links[name], shifts)
            result.append(row._replace(members=tuple(members.values())))
        return result


def _is_slow(row: PlacedSpeed) -> bool:
    usual = 0.0 if row.before is None else min(0.0, row.before.mean)
    return row.now.mean - usual > ELEVATED


def _machines(job: Job) -> tuple[tuple[int, int], ...]:
    assert job.allocation is not None
    return tuple(job.allocation.parts())
