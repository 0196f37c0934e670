"""Jobs that change while they wait, and jobs for which it is too late."""

from __future__ import annotations

from typing import Any

import pytest

from dally.live.backends import base
from dally.live.backends.slurm import SlurmBackend
from dally.live.backends.slurm.job_mark import read_mark
from dally.live.backends.slurm.job_record import JobRecord, records_of
from dally.live.backends.slurm.job_shape import note_of, shape_of, update_arguments
from dally.live.backends.slurm.jobs_json import JobReader
from dally.live.backends.slurm.order_checks import too_late
from dally.live.backends.slurm.original import original_of
from dally.live.backends.slurm.requeue_holds import REQUEUED_HELD, RequeueHolds
from dally.live.backends.stated_facts import NOTHING_STATED
from tests.live.slurm_site import SlurmSite
from tests.live.test_slurm_records import NOW_S, OURS, row
from tests.live.test_slurm_setup import User
from tests.live.test_slurm_site import dally_site, row_of, until

__all__ = ["dally_site"]
LEFT_WITHIN_S = 150.0  # a job that is stopped as it begins can take Slurm's next attempt, a minute later


@pytest.mark.parametrize(
    ("came", "now", "original"),
    [
        ("", "a,b", ""),  # as we set it for the latest start
        ("", "", ""),  # Slurm did not take that
        ("c,d", "c,d", "c,d"),
        ("c,d", "b,a", "c,d"),
        ("c,d", "", ""),  # its user no longer asks for nodes
        ("c,d", "c", "c"),  # or for others
        ("", "a", "a"),
    ],
)
def test_a_node_list_that_its_user_changes_after_a_start_is_what_the_job_asks_for(
    came: str, now: str, original: str
) -> None:
    (record,) = records_of([row(node_count=2, required_nodes=came)])
    note = note_of(record, 16, {"b": 8, "a": 8})
    (again,) = records_of([row(admin_comment=note, restart_cnt=1, required_nodes=now)])
    assert original_of(again)["nodelist"] == original
    assert (read_mark(note_of(again, 16, {"c": 8, "d": 8})) or {}).get("nodelist", "") == original
    (runs,) = records_of([row(admin_comment=note, job_state="RUNNING", required_nodes="x")])
    assert original_of(runs)["nodelist"] == came


@pytest.mark.parametrize(
    ("shown", "state"),
    [
        ({}, base.QUEUED),
        ({"deadline": 1_001_199, "time_limit": 20}, base.QUEUED),
        ({"deadline": 1_001_198, "time_limit": 20}, base.BLOCKED),
        ({"deadline": 1_001_198, "time_limit": 20, "time_minimum": 10}, base.QUEUED),
        ({"deadline": 999_998, "time_limit": 20, "priority": 1}, base.BLOCKED),
        ({"deadline": 999_998, "time_limit": 20, "state_reason": "JobHeldAdmin"}, base.HELD),
        ({"deadline": 999_998, "time_limit": 20, "job_state": "RUNNING", "nodes": "a"}, base.RUNNING),
    ],
)
def test_a_job_that_cannot_end_before_its_deadline_waits_for_slurm_to_end_it(
    shown: dict[str, Any], state: str
) -> None:
    (record,) = records_of([row(**(OURS | shown))])
    job = JobReader(frozenset(), 8).job(record, NOTHING_STATED, NOW_S)
    assert job.state == state
    due = [job.job_id] if state == base.BLOCKED and not record.released else []
    assert too_late([job], {job.job_id: record}) == due


def test_a_job_whose_gpus_its_user_changes_after_a_start_starts_on_those_it_came_with() -> None:
    """Slurm would give it what it shows, and Dally would move it for ever to where it should have fewer."""
    (record,) = records_of([row()])
    note = note_of(record, 8, {"a": 8})
    changed, unchanged = (
        next(records_of([row(admin_comment=note, restart_cnt=1, tres_per_node=gres)]))
        for gres in ("gres:gpu:2", "gres:gpu:8")
    )
    setting = "TresPerNode=gres:gpu:8"
    assert setting in update_arguments(changed, shape_of(changed, 8), {"a": 8}, False)
    assert setting not in update_arguments(unchanged, shape_of(unchanged, 8), {"a": 8}, False)


def shown(site: SlurmSite, job_id: str, field: str) -> str:
    return str(row_of(site, job_id)[field])


def test_a_user_changes_the_node_list_of_a_job_that_has_run(dally_site: SlurmSite) -> None:
    """It was preempted, and shows the nodes of its last start as its own: what its user writes then counts."""
    user = User(dally_site)
    job_id = user.submit("--gres=gpu:1", "--mem=100", "-w", "n01")
    backend = SlurmBackend(conf=str(dally_site.conf))
    backend.snapshot()
    backend.start_job(job_id, {"n01": 1})
    until(lambda: shown(dally_site, job_id, "job_state") == "RUNNING")
    backend.preempt_job(job_id)
    until(lambda: {job.job_id: job.state for job in backend.snapshot().jobs}[job_id] == base.QUEUED, LEFT_WITHIN_S)

    def asks_for() -> str:
        return {job.job_id: job.spec.include for job in backend.snapshot().jobs}[job_id]

    assert asks_for() == "n01"
    user.run("scontrol", "update", f"JobId={job_id}", "ReqNodeList=n03")
    assert asks_for() == "n03"
    user.run("scontrol", "update", f"JobId={job_id}", "TresPerNode=gres:gpu:2")
    backend.snapshot()
    backend.start_job(job_id, {"n03": 1})
    until(lambda: shown(dally_site, job_id, "nodes") == "n03", LEFT_WITHIN_S)
    assert asks_for() == "n03"
    assert {job.job_id: job.placement for job in backend.snapshot().jobs}[job_id] == {"n03": 1}
    backend.close()


def test_slurm_ends_a_job_that_misses_its_deadline(dally_site: SlurmSite) -> None:
    """Not as long as it is held."""
    job_id = User(dally_site).submit("--gres=gpu:1", "-t", "1", "--deadline=now+65")
    backend = SlurmBackend(conf=str(dally_site.conf))

    def state() -> tuple[str, str]:
        backend.snapshot()
        assert backend.complete() == []
        return next((job.state, job.reason) for job in backend.snapshot().jobs if job.job_id == job_id)

    until(lambda: state()[0] == base.FAILED, 60.0)
    assert state() == (base.FAILED, "DEADLINE, DeadLine")
    assert shown(dally_site, job_id, "nodes") == ""
    backend.close()


def requeue_held(restarts: int = 1, **changes: Any) -> JobRecord:
    shown = {"state_description": REQUEUED_HELD, "restart_cnt": restarts}
    return next(records_of([row(**(OURS | shown | changes))]))


RUNS = next(records_of([row(**(OURS | {"job_state": "RUNNING", "nodes": "a"}))]))
FAILED = next(records_of([row(**(OURS | {"job_state": "FAILED", "nodes": "a"}))]))
LEAVES = next(records_of([row(**(OURS | {"job_state": "COMPLETING", "nodes": "a"}))]))


@pytest.mark.parametrize(
    ("seen", "ordered", "is_held"),
    [
        ((RUNS, requeue_held()), False, True),
        ((RUNS, LEAVES, requeue_held()), False, True),
        ((RUNS, LEAVES, requeue_held(), requeue_held()), False, True),  # the hold is not written yet
        ((RUNS, requeue_held()), True, False),
        ((RUNS, LEAVES, requeue_held(), requeue_held()), True, False),
        ((FAILED, requeue_held()), True, False),  # tried again
        ((FAILED, requeue_held()), False, True),
        ((RUNS, RUNS, requeue_held(2)), True, True),  # Dally's order came to nothing, or was of the run before
        ((requeue_held(),), False, False),  # an earlier daemon may have stopped it
        ((RUNS, requeue_held(priority=1)), False, False),  # released meanwhile
        ((RUNS, requeue_held(state_description="")), False, False),  # held otherwise
    ],
)
def test_a_job_that_others_requeue_and_hold_is_on_hold(
    seen: tuple[JobRecord, ...], ordered: bool, is_held: bool
) -> None:
    holds = RequeueHolds()
    if ordered:
        holds.ordered(["7"])
    before: dict[str, JobRecord] = {}
    for number, record in enumerate(seen):
        holds.look({"7": record}, before, frozenset(["7"]) if ordered and not number else frozenset())
        before = {"7": record}
    job = JobReader(frozenset(), 8).job(seen[-1], NOTHING_STATED, NOW_S)
    assert (holds.apply_to(job).state == base.HELD) == is_held


def test_an_operator_requeues_and_holds_a_job(dally_site: SlurmSite) -> None:
    job_id = User(dally_site).submit("--gres=gpu:1", "--mem=100")
    backend = SlurmBackend(conf=str(dally_site.conf))
    backend.snapshot()
    backend.start_job(job_id, {"n01": 1})
    until(lambda: shown(dally_site, job_id, "job_state") == "RUNNING")
    backend.snapshot()
    dally_site.run("scontrol", "requeuehold", job_id)

    def state() -> tuple[str, str]:
        states = {job.job_id: (job.state, job.reason) for job in backend.snapshot().jobs}
        assert backend.complete() == []
        return states[job_id]

    until(lambda: state() == (base.HELD, "JobHeldAdmin"), LEFT_WITHIN_S)
    other = SlurmBackend(conf=str(dally_site.conf))  # the next daemon
    assert {job.job_id: job.state for job in other.snapshot().jobs}[job_id] == base.HELD
    for one in (backend, other):
        one.close()
