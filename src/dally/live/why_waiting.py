"""Why a job waits and until when, in a line, from the latest decisions of the policy."""

from __future__ import annotations

from typing import Any

from dally.model import INFINITY, Job


class Reasons:
    """What was last offered to whom."""

    def __init__(self, tiers: list[str]) -> None:
        self._tiers = tiers
        self._offers: dict[tuple[int, int, int] | str, dict[str, Any]] = {}
        self._first = ""  # the job that holds up the others
        self._first_from_s: float | None = None  # from when on GPUs are kept for it

    def learn(self, decisions: list[dict[str, Any]]) -> None:
        """Decisions of one turn, as the store keeps them."""
        for row in decisions:
            told = row["told"]
            if row["kind"] == "offer":
                of_all = row["job_id"] is None
                key = (told["gpus"], told["group"], told["demand_kind"]) if of_all else row["job_id"]
                self._offers[key] = told
            elif row["kind"] in ("head", "reserve"):
                self._first = row["job_id"] or ""
                until_s = told["until_s"]
                self._first_from_s = until_s if isinstance(until_s, float) else None

    def forget(self, job_id: str) -> None:
        """The job does not wait any more."""
        self._offers.pop(job_id, None)
        if self._first == job_id:
            self._first = ""

    def why(self, job: Job, place: int, free_gpus: int, now: float) -> tuple[str, float | None]:
        """Why the job at that place of the order waits, and when it will take a farther place."""
        ahead = "first in line" if place == 1 else f"{place - 1} ahead of it"
        if self._first and self._first != job.job_id and self._first_from_s is None and free_gpus >= job.gpus:
            return f"{ahead}; {self._first} does not fit, and nobody behind it is offered GPUs", None
        if free_gpus < job.gpus:
            return f"{ahead}; {free_gpus or 'no'} GPUs free, it asks for {int(job.gpus)}", None
        offer = self._offers.get(job.job_id) or self._offers.get((int(job.gpus), int(job.group), int(job.kind)))
        if offer is None:
            return f"{ahead}; {free_gpus} GPUs free, but not where it takes them", None
        return self._declined(job, offer, ahead, now)

    def _declined(self, job: Job, offer: dict[str, Any], ahead: str, now: float) -> tuple[str, float | None]:
        if offer["tier"] is None:
            return f"{ahead}; its GPUs are not free in one place", None
        timers_s = [float(seconds) for seconds in offer["timers_s"]]
        number = self._tiers.index(offer["tier"])
        until_s = job.lost_s + (timers_s[number - 1] if 0 < number <= len(timers_s) else 0.0)
        if now < until_s < INFINITY:
            return f"{ahead}; holds out for closer than one {offer['tier']}", until_s
        if until_s == INFINITY:
            return f"{ahead}; never takes as far apart as the {offer['tier']}", None
        return f"{ahead}; takes the {offer['tier']} when its turn comes", None
