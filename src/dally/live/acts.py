"""What people do to jobs: written down with who and why before it takes effect.

What is ours (who runs when) stands from the next cycle on. What is the cluster's is asked of its own software.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from dally.live.backends import base
from dally.live.backends.base import BackendError, Drains, RunsAgain, Submission, Submits
from dally.live.cycle import Scheduler
from dally.live.overrides import DELAY, FACT, FIRST, HOLD, TIMER, Override, Overrides
from dally.live.store.database import StoreError
from dally.live.store.log_rows import DONE, PENDING, act_row, add_action, note_outcome
from dally.model import NEVER
from dally.report.time_text import span

if TYPE_CHECKING:
    from dally.live.assembly import Service

# What is done, beside the kinds of override.
RELEASE: Final = "release"
CANCEL: Final = "cancel"
DRAIN: Final = "drain"
RESUME: Final = "resume"
RETRY: Final = "retry"

CYCLE_WITHIN_S: Final = 20.0  # the present cycle ends; if not, the backend is slow

Result = TypeVar("Result")


class ActRefused(Exception):  # noqa: N818 - an answer
    """It makes no sense now, or the backend did not do it; says why in one line. Nothing has changed."""


class Busy(Exception):  # noqa: N818 - an answer
    """The cycle takes its time, or the store cannot be written: ask again. Nothing has changed."""


@dataclass(frozen=True)
class Act:
    """Something that somebody asked for."""

    what: str
    who: str
    why: str
    message: str  # in words, without who and why
    job_id: str | None = None
    owner: str = ""  # whose job that is
    machine: str | None = None

    def sentence(self) -> str:
        """All of it."""
        by = f"by {self.who}: {self.why}" if self.why else f"by {self.who}"
        return f"{self.message} {by}"


class Acts:
    """Done between two cycles of a daemon, one at a time."""

    def __init__(self, service: Service) -> None:
        self._service = service

    # What is ours.

    def hold(self, job_id: str, who: str, why: str, as_user: bool = False) -> Act:
        """The job is not offered GPUs until it is released; one that runs is stopped as if preempted.

        `as_user`: by somebody who is no operator; users release only what users hold.
        """
        return self._between_cycles(lambda: self._hold(job_id, who, why, as_user))

    def _hold(self, job_id: str, who: str, why: str, as_user: bool) -> Act:
        scheduler = self._scheduler()
        observed = _observed_job(scheduler, job_id)
        override = scheduler.overrides.of(HOLD).get(job_id)
        if override is not None and (as_user or not override.by_user):  # an operator's hold goes over a user's
            raise ActRefused(f"job {job_id!r} is held already, {override.by()}")
        if not observed.managed:
            raise ActRefused(f"job {job_id!r}: another scheduler looks after it")
        if observed.state not in (base.QUEUED, base.HELD):
            self._check_not_dry()
        act = Act(HOLD, who, why, "put on hold", job_id, observed.spec.user)
        new = Override(who, why, self._service.clock.now(), by_user=as_user)
        return self._say(scheduler, act, scheduler.overrides.with_override(HOLD, job_id, new))

    def release(self, job_id: str, who: str, why: str, as_user: bool = False) -> Act:
        """Take a hold of ours back."""
        return self._between_cycles(lambda: self._release(job_id, who, why, as_user))

    def _release(self, job_id: str, who: str, why: str, as_user: bool) -> Act:
        scheduler = self._scheduler()
        observed = _observed_job(scheduler, job_id)
        override = scheduler.overrides.of(HOLD).get(job_id)
        if override is None:
            if observed.state == base.HELD:
                by = f"{self._service.backend.name} holds it" + (f": {observed.reason}" if observed.reason else "")
                raise ActRefused(f"job {job_id!r}: {by}; only its own tools release it")
            raise ActRefused(f"job {job_id!r} is not on hold")
        if as_user and not override.by_user:
            raise ActRefused(f"job {job_id!r} is held {override.by()}; only operators release what operators hold")
        act = Act(RELEASE, who, why, "taken off hold", job_id, observed.spec.user)
        return self._say(scheduler, act, scheduler.overrides.without(HOLD, job_id))

    def put_first(self, job_id: str, first: bool, who: str, why: str) -> Act:
        """The job comes before all others who wait; or in its place in the queue again."""
        return self._between_cycles(lambda: self._put_first(job_id, first, who, why))

    def _put_first(self, job_id: str, first: bool, who: str, why: str) -> Act:
        scheduler = self._scheduler()
        observed = _observed_job(scheduler, job_id)
        overrides = scheduler.overrides
        override = overrides.of(FIRST).get(job_id)
        if first and override is not None:
            raise ActRefused(f"job {job_id!r} is first in the queue already, {override.by()}")
        if not first and override is None:
            raise ActRefused(f"job {job_id!r} was not put first in the queue")
        if not observed.managed:
            raise ActRefused(f"job {job_id!r}: another scheduler looks after it")
        what = "put first in the queue" if first else "put back in its place in the queue"
        act = Act(FIRST, who, why, what, job_id, observed.spec.user)
        new = (
            overrides.with_override(FIRST, job_id, self._override(act))
            if first
            else overrides.without(FIRST, job_id)
        )
        return self._say(scheduler, act, new)

    def set_delay(self, job_id: str, seconds: float | None, who: str, why: str) -> Act:
        """For how long from now on the job delays for a closer place; None: as the policy has it."""
        return self._between_cycles(lambda: self._set_delay(job_id, seconds, who, why))

    def _set_delay(self, job_id: str, seconds: float | None, who: str, why: str) -> Act:
        scheduler = self._scheduler()
        observed = _observed_job(scheduler, job_id)
        overrides = scheduler.overrides
        if seconds is None and job_id not in overrides.of(DELAY):
            raise ActRefused(f"job {job_id!r}: no delay has been set for it")
        if seconds is not None:
            self._check_timers(scheduler)
        act = Act(DELAY, who, why, _delay_text(seconds), job_id, observed.spec.user)
        if seconds is None:
            return self._say(scheduler, act, overrides.without(DELAY, job_id))
        new = self._override(act, self._service.clock.now() + seconds)
        return self._say(scheduler, act, overrides.with_override(DELAY, job_id, new))

    def set_timer(self, gpus: int, seconds: float | None, who: str, why: str) -> Act:
        """For how long gangs of that size delay for a closer place; None: as the policy has it."""
        return self._between_cycles(lambda: self._set_timer(gpus, seconds, who, why))

    def _set_timer(self, gpus: int, seconds: float | None, who: str, why: str) -> Act:
        scheduler = self._scheduler()
        overrides = scheduler.overrides
        if seconds is None and str(gpus) not in overrides.of(TIMER):
            raise ActRefused(f"no timer has been set for gangs of {gpus} GPUs")
        if seconds is not None:
            self._check_timers(scheduler)
        act = Act(TIMER, who, why, f"gangs of {gpus} GPUs {_delay_text(seconds)}")
        if seconds is None:
            return self._say(scheduler, act, overrides.without(TIMER, str(gpus)))
        return self._say(scheduler, act, overrides.with_override(TIMER, str(gpus), self._override(act, seconds)))

    def _check_timers(self, scheduler: Scheduler) -> None:
        if scheduler.state.policy.delay_overrides is None:
            name = self._service.config.setup.policy
            raise ActRefused(f"policy {name} has no timers: its jobs do not delay for closer places")

    def _override(self, act: Act, value: float = NEVER) -> Override:
        return Override(act.who, act.why, self._service.clock.now(), value)

    def _say(self, scheduler: Scheduler, act: Act, overrides: Overrides) -> Act:
        """From here on these overrides stand, and the store says since when and why."""
        now = self._service.clock.now()
        event = act_row(now, act.job_id, act.machine, act.sentence())
        store = self._service.store
        with store.transaction() as connection:
            add_action(connection, _row(act, now, DONE))
            store.write_log(connection, [event], [])
            store.keep(connection, FACT, overrides.plain())
        scheduler.take_note(overrides, event)
        return act

    # What is the cluster's.

    def submit(self, request: Submission) -> str:
        """Take in a job; its id."""
        self._check_not_dry()
        backend = self._service.backend
        if not isinstance(backend, Submits):
            raise ActRefused(f"{backend.name}: jobs are submitted with its own tools")
        return self._between_cycles(lambda: backend.submit(request))

    def cancel(self, job_id: str, owner: str, who: str, why: str) -> Act:
        """End a job, wherever it is."""
        self._check_not_dry()
        act = Act(CANCEL, who, why, "cancel requested", job_id, owner)
        return self._between_cycles(lambda: self._ask(act, lambda: self._cancel(job_id)))

    def _cancel(self, job_id: str) -> None:
        (refused,) = self._service.backend.cancel([job_id], self._term())
        if refused:
            raise BackendError(refused)

    def _term(self) -> int:
        """In which what is asked for was decided: that of the latest cycle."""
        scheduler = self._service.daemon.scheduler
        latest = None if scheduler is None else scheduler.roster.snapshot
        return latest.term if latest is not None and latest.machines else self._service.backend.term

    def retry(self, job_id: str, owner: str, who: str, why: str) -> Act:
        """Queue a job that has failed again."""
        self._check_not_dry()
        backend = self._service.backend
        if not isinstance(backend, RunsAgain):
            raise ActRefused(f"{backend.name}: failed jobs run again by its own tools")
        act = Act(RETRY, who, why, "queued again", job_id, owner)
        return self._between_cycles(lambda: self._ask(act, lambda: backend.retry(job_id)))

    def drain(self, machine: str, who: str, why: str) -> Act:
        """What runs on the machine goes on, nothing new starts there."""
        return self._on_machine(Act(DRAIN, who, why, "drained", machine=machine))

    def resume(self, machine: str, who: str, why: str) -> Act:
        """It takes jobs again."""
        return self._on_machine(Act(RESUME, who, why, "resumed", machine=machine))

    def _on_machine(self, act: Act) -> Act:
        self._check_not_dry()
        backend = self._service.backend
        machine = act.machine or ""
        if not isinstance(backend, Drains):
            raise ActRefused(f"{backend.name}: machines are {act.message} with its own tools")
        if act.what == DRAIN:
            return self._between_cycles(lambda: self._ask(act, lambda: backend.drain(machine, act.why)))
        return self._between_cycles(lambda: self._ask(act, lambda: backend.resume(machine)))

    def _ask(self, act: Act, order: Callable[[], None]) -> Act:
        """Write it down, ask the backend, and write down what it says."""
        service = self._service
        now = service.clock.now()
        with service.store.transaction() as connection:
            number = add_action(connection, _row(act, now, PENDING))
        try:
            order()
        except BackendError as error:
            note_outcome(service.store, number, f"refused: {error}")
            raise
        event = act_row(now, act.job_id, act.machine, act.sentence())
        with suppress(StoreError):  # it is done, whoever forgets that
            with service.store.transaction() as connection:
                service.store.write_log(connection, [event], [])
            note_outcome(service.store, number, DONE)
        if service.daemon.scheduler is not None:
            service.daemon.scheduler.take_note(None, event)
        return act

    def _check_not_dry(self) -> None:
        if self._service.config.dry_run:
            raise ActRefused("this is a dry run: nothing is done to the cluster")

    def _scheduler(self) -> Scheduler:
        scheduler = self._service.daemon.scheduler
        if scheduler is None:
            raise Busy("the scheduler is not ready; ask again")
        return scheduler

    def _between_cycles(self, act: Callable[[], Result]) -> Result:
        lock = self._service.daemon.lock
        if not lock.acquire(timeout=CYCLE_WITHIN_S):
            raise Busy("the scheduler is busy; ask again")
        try:
            self._service.backend.check_term(self._term())  # the leader would never hear of it
            return act()
        except BackendError as error:
            raise ActRefused(str(error)) from None
        except StoreError as error:
            raise Busy(f"the store cannot be written: {error}; ask again") from None
        finally:
            lock.release()


def _observed_job(scheduler: Scheduler, job_id: str) -> base.ObservedJob:
    observed = scheduler.roster.observed.get(job_id)
    if observed is None:
        raise ActRefused(f"job {job_id!r} has ended, or the scheduler does not know it yet")
    return observed


def _delay_text(seconds: float | None) -> str:
    if seconds is None:
        return "set to delay as the policy has it"
    if seconds == 0.0:
        return "set to take any place from now on"
    return f"set to delay for a closer place for {span(seconds)}"


def _row(act: Act, now: float, outcome: str) -> dict[str, Any]:
    return {
        "time_s": now, "who": act.who, "what": act.what, "job_id": act.job_id, "owner": act.owner,
        "machine": act.machine, "told": act.message, "why": act.why, "outcome": outcome,
    }  # fmt: skip
