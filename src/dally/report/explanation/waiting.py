"""Why a job waits and until when, in a line, from the latest decisions of the policy."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Protocol

from dally.model import INFINITY
from dally.report.stall_words import stall_words

# Why.reason
GPUS: Final = "gpus"  # too few are free
PLACE: Final = "place"  # enough are free, but not where it takes them
PATIENCE: Final = "patience"  # it holds out for a closer place
TURN: Final = "turn"  # others are first
HEAD: Final = "head"  # nobody behind the first in line is offered GPUs, and that one does not fit
SHARE: Final = "share"  # its queue is on hold, or has used up its limit, budget or share
REASONS: Final = (GPUS, PLACE, PATIENCE, TURN, HEAD, SHARE)


class Waiter(Protocol):
    """What of a job that waits is asked for; a Job is one."""

    @property
    def job_id(self) -> str: ...
    @property
    def gpus(self) -> int: ...
    @property
    def group(self) -> int:
        """GPUs that must share a machine."""
        ...

    @property
    def kind(self) -> int:
        """What else the policy tells apart among jobs of one size."""
        ...

    @property
    def lost_s(self) -> float:
        """Since when it waits."""
        ...

    @property
    def delay_until_s(self) -> float:
        """From when on it takes any place, an operator says; below 0: nobody did."""
        ...


class Why(NamedTuple):
    """Why a job waits: a sentence, one of REASONS, and when it will take a farther place."""

    text: str
    reason: str
    next_s: float | None = None


class Offer(NamedTuple):
    """What was last offered to a job, or to all jobs of a demand, and how long they hold out for closer."""

    job_id: str  # empty: to all of the demand
    gpus: int
    group: int
    tier: str  # the closest with room; empty: none
    timers_s: tuple[float, ...]  # by tier above the machine; infinity: never


class Reasons:
    """What was last offered to whom."""

    def __init__(self, tiers: list[str]) -> None:
        self._tiers = tiers
        self._offers: dict[tuple[int, int, int] | str, dict[str, Any]] = {}
        self._first = ""  # the job that holds up the others
        self._first_from_s: float | None = None  # from when on GPUs are kept for it
        self._stalls: dict[str, dict[str, Any]] = {}  # by queue, what its first job waits for

    def learn(self, decisions: list[dict[str, Any]]) -> None:
        """Decisions of one cycle, as the store keeps them."""
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
            elif row["kind"] == "stall":
                self._stalls[told["queue"]] = told

    def forget(self, job_id: str) -> None:
        """The job does not wait any more."""
        self._offers.pop(job_id, None)
        if self._first == job_id:
            self._first = ""

    def offers(self) -> list[Offer]:
        """What is on offer, by demand and then by job."""
        found = []
        for key, told in self._offers.items():
            timers_s = tuple(float(seconds) for seconds in told["timers_s"])
            name = key if isinstance(key, str) else ""
            found.append(Offer(name, told["gpus"], told["group"], told["tier"] or "", timers_s))
        return sorted(found, key=lambda offer: (offer.job_id, offer.gpus, offer.group))

    def why(self, job: Waiter, place: int, free_gpus: int, now: float, queue: str = "") -> Why:
        """Why the job at that place of the order waits. It names no other job: not everybody may see those."""
        found = self._by_itself(job, place, free_gpus, now)
        stalled = stall_words(self._stalls[queue]) if queue in self._stalls else ""
        return Why(f"{stalled}; {found.text}", SHARE) if stalled else found

    def _by_itself(self, job: Waiter, place: int, free_gpus: int, now: float) -> Why:
        """The same, queues apart."""
        ahead = "first in line" if place == 1 else f"{place - 1} ahead of it"
        if self._first and self._first != job.job_id and self._first_from_s is None and free_gpus >= job.gpus:
            return Why(f"{ahead}; the first in line does not fit, and nobody behind it is offered GPUs", HEAD)
        free = f"{free_gpus or 'no'} GPU{'s' if free_gpus != 1 else ''} free"
        if free_gpus < job.gpus:
            return Why(f"{ahead}; {free}, it asks for {int(job.gpus)}", GPUS)
        offer = self._offers.get(job.job_id) or self._offers.get((int(job.gpus), int(job.group), int(job.kind)))
        if offer is None:
            return Why(f"{ahead}; {free}, but not where it takes them", PLACE)
        return self._declined(job, offer, ahead, now)

    def _declined(self, job: Waiter, offer: dict[str, Any], ahead: str, now: float) -> Why:
        if offer["tier"] is None:
            return Why(f"{ahead}; its GPUs are not free in one place", PLACE)
        timers_s = [float(seconds) for seconds in offer["timers_s"]]
        number = self._tiers.index(offer["tier"])
        until_s = job.lost_s + (timers_s[number - 1] if 0 < number <= len(timers_s) else 0.0)
        if job.delay_until_s >= 0.0:  # an operator said so
            until_s = job.delay_until_s
        if now < until_s < INFINITY:
            return Why(f"{ahead}; holds out for closer than one {offer['tier']}", PATIENCE, until_s)
        if until_s == INFINITY:
            return Why(f"{ahead}; never takes as far apart as the {offer['tier']}", PLACE)
        return Why(f"{ahead}; takes the {offer['tier']} when its turn comes", TURN)
