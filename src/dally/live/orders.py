"""From the policy's actions to the backend: noted first, written down, and then carried out."""

from __future__ import annotations

from dally.engine.executor import Executor
from dally.live.backends import base
from dally.live.backends.base import Backend, BackendError, ClusterJob, ClusterState
from dally.live.facts import placement_of
from dally.live.roster import Roster
from dally.live.wanted import PREEMPT, START, Wanted
from dally.live.withheld import Withheld
from dally.model import Action, Preempt

DRY_RUN = "dry run: nothing is done"
ASK_AGAIN_S = 20.0  # of the wall clock: before a backend that took an order is asked for the same again


class Orders(Executor):
    """Notes what is wanted of which job; nothing happens to the cluster before `carry_out`."""

    def __init__(self, roster: Roster, withheld: Withheld, dry_run: bool = False) -> None:
        super().__init__()
        self.dry_run = dry_run
        self._would: dict[str, str] = {}  # in a dry run: what was last to become of which job
        self._news: list[tuple[str, str]] = []
        self._roster = roster
        self._withheld = withheld

    def before_pass(self, now: float) -> None:
        """What is not to be had is not offered."""
        self._withheld.withhold(now)

    def apply(self, action: Action, now: float) -> str:
        """Note the action; why not, if the backend would not take it."""
        job = action.job
        told = self._roster.told[job.job_id]
        target = None if isinstance(action, Preempt) else placement_of(self._roster.topology, action.allocation)  # type: ignore[attr-defined]
        if self.dry_run:
            self._note_would(job.job_id, _in_words(target))
            return DRY_RUN
        if not told.managed:
            return "another scheduler looks after this job"
        if self._roster.is_stopping(job):
            return "it is on hold, and about to stop"
        shut = self._roster.closed()
        closed = [name for name in target or () if name in shut]
        if closed:
            return f"{closed[0]} takes no new jobs"
        self._roster.want(job.job_id, target, now)
        return ""

    def _note_would(self, job_id: str, what: str) -> None:
        if self._would.get(job_id) != what:
            self._would[job_id] = what
            self._news.append((job_id, what))

    def news(self) -> list[tuple[str, str]]:
        """In a dry run: jobs, and what would have become of them, as far as that is new."""
        self._would = {job_id: what for job_id, what in self._would.items() if job_id in self._roster.jobs}
        found, self._news = self._news, []
        return found


def carry_out(backend: Backend, roster: Roster, now: float, speed: float) -> list[str]:
    """Ask the backend for what is wanted and can be done now; what it refused, a line each."""
    starts: list[Wanted] = []
    problems: list[str] = []
    for wanted in _due(roster, now, speed):
        if wanted.asked == START:
            starts.append(wanted)
            continue
        try:
            backend.preempt(wanted.job_id)
        except BackendError as error:
            problems += _refused(wanted, str(error))
    answers = backend.start_all([(wanted.job_id, wanted.placement or {}) for wanted in starts])
    for wanted, answer in zip(starts, answers, strict=True):
        problems += _refused(wanted, answer) if answer else []
    return problems


def _due(roster: Roster, now: float, speed: float) -> list[Wanted]:
    """What is to be asked for now, noted as asked."""
    told = {job.job_id: job for job in roster.latest.jobs}
    free = _free_gpus(roster.latest, roster)
    found: list[Wanted] = []
    for wanted in roster.wanted.values():
        job = told.get(wanted.job_id)
        asked = "" if job is None else _next_step(job, wanted)
        if not asked or (asked == wanted.asked and now - wanted.tried_s < ASK_AGAIN_S * speed and not wanted.error):
            continue
        if asked == START and not _take(free, wanted):
            continue
        wanted.asked, wanted.tried_s, wanted.error = asked, now, ""
        wanted.tries += asked == START
        found.append(wanted)
    return found


def _refused(wanted: Wanted, error: str) -> list[str]:
    wanted.error = error
    return [f"{wanted.asked} of job {wanted.job_id}: {error}"]


def _next_step(job: ClusterJob, wanted: Wanted) -> str:
    """What to ask for, given where the job is; empty: to wait."""
    state = job.state
    if state == base.QUEUED:
        return START if wanted.placement is not None else ""
    if not job.managed:
        return ""  # whoever looks after it would lose it
    if state == base.RUNNING:
        return PREEMPT if job.placement != wanted.placement else ""  # stopped in the books, and back in its place
    return PREEMPT if state == base.STARTING and wanted.placement is None else ""


def _free_gpus(found: ClusterState, roster: Roster) -> dict[str, int]:
    """GPUs by machine that nobody holds and nobody was promised."""
    free = {machine.name: machine.gpus if machine.state == base.UP else 0 for machine in found.machines}
    for job in found.jobs:
        if job.state in base.ENDED:
            continue
        held = job.placement
        if job.state == base.STARTING and not held:
            wanted = roster.wanted.get(job.job_id)
            held = (wanted.placement if wanted is not None else None) or {}
        for name, gpus in held.items():
            free[name] = free.get(name, 0) - gpus
    return free


def _take(free: dict[str, int], wanted: Wanted) -> bool:
    """Promise the GPUs to the job, if they are free: those of a job that is being stopped are not yet."""
    parts = (wanted.placement or {}).items()
    if any(free.get(name, 0) < gpus for name, gpus in parts):
        return False
    for name, gpus in parts:
        free[name] -= gpus
    return True


def _in_words(placement: dict[str, int] | None) -> str:
    if placement is None:
        return "stop"
    return "run on " + "+".join(f"{name}:{gpus}" for name, gpus in placement.items())
