"""What people said that is to hold until they take it back: who is not to run, who comes first.

It is ours, not the cluster's: the same on every backend, and known after a restart.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from dally.live.backends import base
from dally.live.backends.base import Observed
from dally.live.store import Store
from dally.model import NEVER

FACT: Final = "overrides"  # of the store

# Kinds of override.
HOLD: Final = "hold"
FIRST: Final = "priority"
DELAY: Final = "delay"  # its value: from when on the job takes any place, on the engine's clock
TIMER: Final = "timer"  # of gangs of a size; its value: for how many seconds they delay
OF_JOBS: Final = (HOLD, FIRST, DELAY)
EARLIER: Final = {"patience": DELAY}  # how earlier versions stored a kind


@dataclass(frozen=True)
class Override:
    """Who said so, why, and when on the engine's clock."""

    who: str
    why: str
    at_s: float
    value: float = NEVER
    by_user: bool = False  # who is no operator

    def by(self) -> str:
        """By whom and why, to end a sentence with."""
        return f"by {self.who}: {self.why}" if self.why else f"by {self.who}"


@dataclass(frozen=True)
class Overrides:
    """All that stands, by kind and then by whom it is about. Never changed: changes give others."""

    by_kind: dict[str, dict[str, Override]] = field(default_factory=dict)

    def of(self, kind: str) -> dict[str, Override]:
        """What stands of a kind."""
        return self.by_kind.get(kind, {})

    def author(self, kind: str, about: str) -> str:
        """Who said that; empty: nobody."""
        override = self.of(kind).get(about)
        return "" if override is None else override.who

    def with_override(self, kind: str, about: str, override: Override) -> Overrides:
        """With this."""
        return Overrides({**self.by_kind, kind: {**self.of(kind), about: override}})

    def without(self, kind: str, about: str) -> Overrides:
        """With that taken back."""
        return Overrides(
            {**self.by_kind, kind: {name: override for name, override in self.of(kind).items() if name != about}}
        )

    def without_jobs(self, ended: Container[str]) -> Overrides:
        """Without what was said of jobs that ended; the same if nothing was."""
        rest = self
        for kind in OF_JOBS:
            for job_id in [name for name in self.of(kind) if name in ended]:
                rest = rest.without(kind, job_id)
        return rest

    def apply_to(self, observed: Observed) -> Observed:
        """What the backend reports, with our own holds: a job that waits is held if somebody said so."""
        held = self.of(HOLD)
        if not held:
            return observed
        jobs = [
            replace(job, state=base.HELD) if job.job_id in held and job.state == base.QUEUED else job
            for job in observed.jobs
        ]
        return replace(observed, jobs=tuple(jobs))

    def timers_s(self) -> dict[int, float]:
        """For how long gangs delay, by their GPUs."""
        return {int(gpus): override.value for gpus, override in self.of(TIMER).items()}

    def delay_until_s(self, job_id: str) -> float:
        """From when on the job takes any place; NEVER: nobody said."""
        override = self.of(DELAY).get(job_id)
        return NEVER if override is None else override.value

    def plain(self) -> dict[str, Any]:
        """For the store."""
        return {
            kind: {about: asdict(override) for about, override in rows.items()}
            for kind, rows in self.by_kind.items()
        }


def read_overrides(store: Store) -> Overrides:
    """As the store knows them."""
    stored: dict[str, dict[str, Any]] = store.fact(FACT) or {}
    return Overrides(
        {
            EARLIER.get(kind, kind): {about: Override(**row) for about, row in rows.items()}
            for kind, rows in stored.items()
        }
    )
