"""Why a job waits and until when, in words, from the latest decisions of the policy.

The one place that says so: the daemon's status, `dally explain`, reports and replays all ask it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from dally.model import INFINITY
from dally.policies.gate.notes import LATER_TEXTS, STALL_TEXTS

# Why.reason
GPUS: Final = "gpus"
PLACE: Final = "place"
DELAY: Final = "delay"
ORDER: Final = "order"
HEAD: Final = "head"
QUEUE: Final = "queue"
REASONS: Final = {  # what the job waits for
    GPUS: "free GPUs",
    PLACE: "a placement it accepts",
    DELAY: "a closer placement",
    ORDER: "jobs ahead of it",
    HEAD: "the head of the queue",
    QUEUE: "its queue's quota",
}
NAMED: Final = 3  # jobs that a sentence names
COUNTS_HOLD_S: Final = 10.0  # after which what a queue holds is not said any more


class Waiter(Protocol):
    """What an explanation needs of a waiting job; a Job is one."""

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
        """From when on it accepts any placement by an operator's override; below 0: there is none."""
        ...


class Moment(NamedTuple):
    """The cluster around a waiting job. Names are None where the reader may not see other jobs."""

    now: float
    free_gpus: int
    place: int  # in the order; 1 is first
    jobs_before: Sequence[str] | None = None  # the first jobs of the order, as far as they are before it
    holders: Sequence[tuple[str, int]] | None = None  # jobs that hold GPUs, and how many, most first
    queue: str = ""


class Why(NamedTuple):
    """Why a job waits: a sentence, one of REASONS, and the moment that the sentence ends with, if any."""

    text: str
    reason: str
    until_s: float | None = None

    def sentence(self, clock: Callable[[float], str]) -> str:
        """With the moment, as the clock writes it."""
        return self.text if self.until_s is None else f"{self.text} at {clock(self.until_s)}"


class Offer(NamedTuple):
    """What was last offered to a job, or to all jobs of a demand, and their delay before each tier."""

    job_id: str  # empty: to all of the demand
    gpus: int
    group: int
    tier: str  # the closest with room; empty: none
    timers_s: tuple[float, ...]  # by tier above the machine; infinity: never


class WaitRecords:
    """The latest decision of each kind, as rows of the store or of decisions.parquet tell it."""

    def __init__(self, tiers: Sequence[str]) -> None:
        self._tiers = tiers
        self._offers: dict[tuple[int, int, int] | str, Mapping[str, Any]] = {}
        self._first = ""  # the job that holds up the others
        self._first_s: float | None = None  # its reservation begins then; None: it has none
        self._round_s: float | None = None  # GPUs are assigned next then
        self._deferred: set[str] = set()
        self._stalls: dict[str, Mapping[str, Any]] = {}  # by queue, what its first job waits for
        self._worded: dict[tuple[int, bool], Why] = {}  # too few GPUs: by demand, and if behind the first,
        self._worded_at: Moment | None = None  # at this moment

    def learn(self, decisions: Iterable[Mapping[str, Any]]) -> None:
        """Take in rows with `kind`, `job_id` and the kind's own columns as `told`."""
        self._worded_at = None
        for row in decisions:
            kind, job_id, values = row["kind"], row["job_id"], row["told"]
            if kind == "offer":
                demand = (values["gpus"], values["group"], values["demand_kind"])
                self._offers[demand if job_id is None else job_id] = values
            elif kind in ("head", "reserve"):
                self._first = job_id or ""
                self._first_s = _finite(values["until_s"]) if kind == "reserve" else None
            elif kind == "round":
                self._round_s = _finite(values["until_s"])
            elif kind == "defer":
                self._deferred.add(job_id)
            elif kind == "admit":
                self._deferred.discard(job_id)
            elif kind == "stall":
                self._stalls[values["queue"]] = values

    def forget(self, job_id: str) -> None:
        """The job does not wait any more."""
        self._worded_at = None
        self._offers.pop(job_id, None)
        self._deferred.discard(job_id)
        if self._first == job_id:
            self._first = ""

    def offers(self) -> list[Offer]:
        """What is on offer, by demand and then by job."""
        offers = []
        for key, values in self._offers.items():
            timers_s = tuple(float(seconds) for seconds in values["timers_s"])
            name = key if isinstance(key, str) else ""
            offers.append(Offer(name, values["gpus"], values["group"], values["tier"] or "", timers_s))
        return sorted(offers, key=lambda offer: (offer.job_id, offer.gpus, offer.group))

    def why(self, job: Waiter, moment: Moment) -> Why:
        """Why the job waits at that moment."""
        return Why(*self.why_at(job, moment, moment.place, moment.queue))

    def why_at(self, job: Waiter, moment: Moment, place: int, queue: str) -> tuple[str, str, float | None]:
        """The fields of `why` at another place and in another queue than the moment's.

        A cycle asks this of every job that waits: with one moment for all, equal causes are worded once.
        """
        why, order = self._cause(job, moment), _order(place, moment.jobs_before)
        stall = stall_text(self._stalls.get(queue), moment.now) if self._stalls else ""
        if not stall:
            return f"{order}; {why.text}", why.reason, why.until_s
        if why.reason == GPUS:  # another obstacle than the quota
            return f"{stall}; {order}; {why.text}", QUEUE, why.until_s
        return f"{stall}; {order}", QUEUE, None

    def _cause(self, job: Waiter, moment: Moment) -> Why:
        if job.job_id in self._deferred:
            return Why("not admitted yet: the policy's virtual machine is still working on it", ORDER)
        behind = bool(self._first) and self._first != job.job_id
        first = self._first if moment.jobs_before is not None else "the head of the queue"
        if behind and self._first_s is None:
            return Why(f"{first} does not fit, and no job behind it may start", HEAD)
        if moment.free_gpus < job.gpus:
            if self._worded_at is not moment:
                self._worded, self._worded_at = {}, moment
            key = (int(job.gpus), behind)
            if key not in self._worded:
                self._worded[key] = self._too_few(job, moment, first if behind else "")
            return self._worded[key]
        offer = self._offers.get(job.job_id) or self._offers.get((int(job.gpus), int(job.group), int(job.kind)))
        if offer is not None:
            return self._offered(job, offer, moment)
        free = _free(moment.free_gpus)
        if behind:
            return Why(f"{free}, but it would delay {first}, whose reservation begins", ORDER, self._first_s)
        if self._next_round(moment):
            return Why(f"{free}; GPUs are assigned next", ORDER, self._round_s)
        return Why(f"{free}, but not in a placement it accepts", PLACE)

    def _too_few(self, job: Waiter, moment: Moment, first: str) -> Why:
        needs = "1 GPU" if job.gpus == 1 else f"{int(job.gpus)} GPUs"
        free = "none is" if not moment.free_gpus else "1 is" if moment.free_gpus == 1 else f"{moment.free_gpus} are"
        text = f"it needs {needs} and {free} free"
        if moment.holders is not None:
            holders = [f"{name} ({gpus})" for name, gpus in moment.holders[:NAMED]]
            text += f" (in use by {_names(holders, len(moment.holders))})" if holders else " (machines are down)"
        if self._first and self._first_s is not None:
            reservation = f"the reservation of {first}" if first else "its reservation"
            return Why(f"{text}; {reservation} begins", GPUS, self._first_s)
        if self._next_round(moment):
            return Why(f"{text}; GPUs are assigned next", GPUS, self._round_s)
        return Why(text, GPUS)

    def _next_round(self, moment: Moment) -> bool:
        return self._round_s is not None and self._round_s > moment.now

    def _offered(self, job: Waiter, offer: Mapping[str, Any], moment: Moment) -> Why:
        """What keeps it from the closest placement with room."""
        if offer["tier"] is None:
            return Why(f"{_free(moment.free_gpus)}, but not in a placement it accepts", PLACE)
        place = placement_text(self._tiers, offer["tier"])
        number = self._tiers.index(offer["tier"])
        timers_s = [0.0, *(float(seconds) for seconds in offer["timers_s"])]
        until_s = job.lost_s + (timers_s[number] if number < len(timers_s) else 0.0)
        if job.delay_until_s >= 0.0:
            until_s = job.delay_until_s
        if until_s == INFINITY:
            return Why(f"the closest free placement is {place}, which it never accepts", PLACE)
        if until_s > moment.now:
            return Why(f"waits for a closer placement than {place}, which it accepts", DELAY, until_s)
        return Why(
            f"the closest free placement is {place}, which it accepts when the jobs ahead of it have been served",
            ORDER,
        )


def placement_text(tiers: Sequence[str], tier: str) -> str:
    """Where a gang sits, by the closest tier whose one domain holds all of it."""
    return f"GPUs across the {tier}" if tier == tiers[-1] else f"one {tier}"


def stall_text(stall: Mapping[str, Any] | None, now: float) -> str:
    """What its queue has to do with it that a job waits, from a row of stalls.parquet; empty: nothing.

    A row is as old as its cause: what the queue holds is said of that moment alone.
    """
    if stall is None or not stall["cause"]:
        return ""
    cause = stall["cause"]
    if cause == "limit" and stall["held"] < stall["most"]:
        cause = "room"
    return (STALL_TEXTS if now <= stall["time_s"] + COUNTS_HOLD_S else LATER_TEXTS)[cause].format(**stall)


def _order(place: int, jobs_before: Sequence[str] | None) -> str:
    count = place - 1
    if not count:
        return "first in the queue"
    jobs = f"{count} job{'s' if count > 1 else ''} ahead of it"
    return f"{jobs}: {_names(jobs_before, count)}" if jobs_before else jobs


def _free(gpus: int) -> str:
    return "1 GPU is free" if gpus == 1 else f"{gpus or 'no'} GPUs are free"


def _names(names: Sequence[str], count: int) -> str:
    """The first few of so many, and how many more."""
    shown = ", ".join(names[:NAMED])
    return f"{shown} and {count - NAMED} more" if count > NAMED else shown


def _finite(value: Any) -> float | None:
    """A moment; None for infinity, which the store writes as a text."""
    return float(value) if value is not None and float(value) < INFINITY else None
