"""What the policy had said by a moment: who waits at which rank, what is on offer, who holds up the others."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import polars as pl

from dally.metrics.record import Record
from dally.model import INFINITY
from dally.report.explanation.latest import NONE, Latest
from dally.report.explanation.waiting import TURN, Reasons, Waiter, Why
from dally.report.stall_words import stall_words

DEMAND: Final = ["gpus", "group", "demand_kind"]
OFFERED: Final = (*DEMAND, "tier", "timers_s")
NOT_YET: Final = "not admitted yet: the policy's virtual machine still works on it"


class Asked(NamedTuple):
    """How a job waits: its rank, what breaks equal ones, and what tells its demand from others of its size."""

    rank: float
    tie: float
    group: int  # GPUs that must share a machine
    demand_kind: int


NOT_ASKED: Final = Asked(INFINITY, INFINITY, 1, 0)


class Told:
    """The decisions of a run, by what they are about."""

    def __init__(self, run: Record) -> None:
        decisions = run.decisions
        self._tiers = run.tiers
        self._ranks = Latest(decisions.filter(pl.col("rank").is_not_null()), "job_id", *Asked._fields)
        self._asked = list(map(Asked, *(self._ranks.values[name] for name in Asked._fields)))
        offers = decisions.filter(pl.col("kind") == "offer").with_columns(
            demand=pl.concat_str([pl.col(name) for name in DEMAND], separator=" ")
        )
        self._to_all = Latest(offers.filter(pl.col("job_id").is_null()), "demand", *OFFERED)
        self._to_one = Latest(offers.filter(pl.col("job_id").is_not_null()), "job_id", *OFFERED)
        firsts = decisions.filter(pl.col("kind").is_in(["head", "reserve"])).with_columns(line=0)
        self._firsts = Latest(firsts, "line", "kind", "job_id", "until_s")
        self._admitted = Latest(decisions.filter(pl.col("kind").is_in(["defer", "admit"])), "job_id", "kind")
        self._stalls = Latest(run.stalls, "queue", *run.stalls.columns[3:])

    def asked(self, job_id: str, at_s: float) -> Asked:
        """What the order and offers to the job go by; those without a rank come last."""
        row = self._ranks.last(job_id, at_s)
        return self._asked[row] if row != NONE else NOT_ASKED

    def reasons(self, waiting: list[str], at_s: float) -> Reasons:
        """Why these wait, as a daemon would know it at that moment."""
        found = Reasons(self._tiers)
        found.learn([row for key in self._to_all if (row := self._offer(self._to_all, key, None, at_s))])
        if len(self._to_one):
            found.learn([row for name in waiting if (row := self._offer(self._to_one, name, name, at_s))])
        first = self._firsts.last(0, at_s)
        values = self._firsts.values
        if first != NONE and values["job_id"][first] in set(waiting):
            kind, until_s = values["kind"][first], values["until_s"][first]
            told = {"until_s": until_s if kind == "reserve" else None}
            found.learn([{"kind": kind, "job_id": values["job_id"][first], "told": told}])
        return found

    def _offer(self, offers: Latest, key: str, job_id: str | None, at_s: float) -> dict[str, Any] | None:
        row = offers.last(key, at_s)
        if row == NONE:
            return None
        return {"kind": "offer", "job_id": job_id, "told": {name: offers.values[name][row] for name in OFFERED}}

    def why(self, reasons: Reasons, waiter: Waiter, queue: str, place: int, free_gpus: int, at_s: float) -> Why:
        """Why a job waits: its queue, its turn to be admitted, or what `reasons` say."""
        admitted = self._admitted.last(waiter.job_id, at_s)
        if admitted != NONE and self._admitted.values["kind"][admitted] == "defer":
            return Why(NOT_YET, TURN)
        found = reasons.why(waiter, place, free_gpus, at_s)
        stalled = self._stalled(queue, at_s) if queue else ""
        return found._replace(text=f"{stalled}; {found.text}") if stalled else found

    def _stalled(self, queue: str, at_s: float) -> str:
        row = self._stalls.last(queue, at_s)
        return (
            stall_words({name: column[row] for name, column in self._stalls.values.items()}) if row != NONE else ""
        )

    def timers_s(self, sizes: set[int], at_s: float) -> dict[int, tuple[float, ...]]:
        """How long gangs of each size hold out for closer than each tier above the machine, as last told to all."""
        rows = [row for key in self._to_all if (row := self._to_all.last(key, at_s)) != NONE]
        values = self._to_all.values
        found = {values["gpus"][row]: tuple(values["timers_s"][row]) for row in rows if values["timers_s"][row]}
        return {gpus: found[gpus] for gpus in sorted(sizes & set(found))}
