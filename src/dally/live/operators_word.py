"""What people said that is to hold until they take it back: who is not to run, who comes first.

It is ours, not the cluster's: the same on every backend, and known after a restart.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from dally.live.backends import base
from dally.live.backends.base import ClusterState
from dally.live.store import Store
from dally.model import NEVER

FACT: Final = "operators_word"  # of the store

# Kinds of word.
HOLD: Final = "hold"
FIRST: Final = "priority"
PATIENCE: Final = "patience"  # its value: from when on the job takes any place, on the engine's clock
TIMER: Final = "timer"  # of gangs of a size; its value: for how many seconds they hold out
OF_JOBS: Final = (HOLD, FIRST, PATIENCE)


@dataclass(frozen=True)
class Word:
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
class Words:
    """All that stands, by kind and then by whom it is about. Never changed: `saying` and `without` give others."""

    said: dict[str, dict[str, Word]] = field(default_factory=dict)

    def of(self, kind: str) -> dict[str, Word]:
        """What stands of a kind."""
        return self.said.get(kind, {})

    def said_by(self, kind: str, about: str) -> str:
        """Who said that; empty: nobody."""
        word = self.of(kind).get(about)
        return "" if word is None else word.who

    def saying(self, kind: str, about: str, word: Word) -> Words:
        """With this."""
        return Words({**self.said, kind: {**self.of(kind), about: word}})

    def without(self, kind: str, about: str) -> Words:
        """With that taken back."""
        return Words({**self.said, kind: {name: word for name, word in self.of(kind).items() if name != about}})

    def outlive(self, ended: Container[str]) -> Words:
        """Without what was said of jobs that ended; the same if nothing was."""
        found = self
        for kind in OF_JOBS:
            for job_id in [name for name in self.of(kind) if name in ended]:
                found = found.without(kind, job_id)
        return found

    def over(self, found: ClusterState) -> ClusterState:
        """What the backend tells, with our own holds: a job that waits is held if somebody said so."""
        held = self.of(HOLD)
        if not held:
            return found
        jobs = [
            replace(job, state=base.HELD) if job.job_id in held and job.state == base.QUEUED else job
            for job in found.jobs
        ]
        return replace(found, jobs=tuple(jobs))

    def timers_s(self) -> dict[int, float]:
        """For how long gangs hold out, by their GPUs."""
        return {int(gpus): word.value for gpus, word in self.of(TIMER).items()}

    def patient_until_s(self, job_id: str) -> float:
        """From when on the job takes any place; NEVER: nobody said."""
        word = self.of(PATIENCE).get(job_id)
        return NEVER if word is None else word.value

    def plain(self) -> dict[str, Any]:
        """For the store."""
        return {kind: {about: asdict(word) for about, word in rows.items()} for kind, rows in self.said.items()}


def read_words(store: Store) -> Words:
    """As the store knows them."""
    kept: dict[str, dict[str, Any]] = store.fact(FACT) or {}
    return Words({kind: {about: Word(**row) for about, row in rows.items()} for kind, rows in kept.items()})
