"""The answer of every what-if: a sentence, figures of both sides with their spread, who gains and who loses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from dally.metrics.summary import Row
from dally.report.time_text import brief

SECONDS: Final = "s"


@dataclass(frozen=True)
class Figure:
    """One figure on both sides; `low` to `high` is how far the change goes over futures or seeds."""

    name: str
    label: str
    unit: str
    before: float
    after: float
    change: float
    low: float
    high: float
    about: str = ""  # what it is, in a line

    def shown(self, value: float, signed: bool = False) -> str:
        """A value of it for people."""
        text = brief(abs(value)) if self.unit == SECONDS else f"{abs(value):,.1f}".removesuffix(".0")
        if float(text.split()[0].replace(",", "")) == 0.0:
            return text
        return f"−{text}" if value < 0.0 else f"+{text}" if signed else text


@dataclass(frozen=True)
class JobChange:
    """One job: how long until it is done, in the mean, on both sides."""

    job_id: str
    name: str
    user: str
    gpus: int
    state: str
    before_s: float
    after_s: float

    @property
    def change_s(self) -> float:
        """Above 0: it loses."""
        return self.after_s - self.before_s


@dataclass(frozen=True)
class Replay:
    """What a replay of recorded jobs tells beside: all of whatif.json, and what tables are made of."""

    values: dict[str, Any]
    top_users: list[dict[str, Any]]  # as `users` in the values: those with most GPU-hours, and the others as one
    rows: list[Row]  # of its runs


@dataclass(frozen=True)
class WhatIfAnswer:
    """All of it."""

    headline: str
    before: str  # what the two sides are called
    after: str
    figures: list[Figure]
    winners: list[JobChange] = field(default_factory=list)
    losers: list[JobChange] = field(default_factory=list)
    jobs: int = 0  # compared
    better: int = 0
    worse: int = 0
    samples: int = 0  # futures, or seeds
    spread: str = ""  # what `low` to `high` is
    notes: list[str] = field(default_factory=list)
    verdict: str = ""  # how far to trust a replay
    replay: Replay | None = None  # None: it runs from now
