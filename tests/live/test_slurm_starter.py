"""Starts beside the cycles, with tools that answer when the test lets them; needs no Slurm."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dally.job_spec import JobSpec
from dally.live.backends import base
from dally.live.backends.base import BackendError, StartOrder
from dally.live.backends.slurm import SlurmBackend, background_reader
from dally.live.backends.slurm import preempter as preempter_module
from dally.live.backends.slurm import starter as starter_module
from dally.live.backends.slurm.job_record import records_of
from dally.live.backends.slurm.preempter import Preempter
from dally.live.backends.slurm.tools import NoAnswerError, Tools
from tests.live.test_slurm_records import row

NODE = {"name": "a", "gres": "gpu:8", "state": "idle", "cpus": 64, "partitions": ["gpu"]}


class SlowTools:
    """A cluster of one node; `scontrol release` returns when it may, and has had its effect before."""

    def __init__(self) -> None:
        self.jobs = {number: row(job_id=number, admin_comment="dally:submit=1;read=1", tres_per_node="gres:gpu:4")
                     for number in (1, 2)}  # fmt: skip
        self.may_return = threading.Event()
        self.releases = threading.Event()
        self.failing: dict[str, Exception] = {}  # by the second word of the call
        self.calls: list[tuple[str, ...]] = []

    def rows(self, kind: str, *_: str) -> list[dict[str, Any]]:
        return [dict(one) for one in self.jobs.values()]

    def nodes(self) -> list[dict[str, Any]]:
        return [NODE]

    def run(self, *parts: str, **_: Any) -> str:
        self.calls.append(parts)
        if parts[1] in self.failing:
            raise self.failing.pop(parts[1])
        if parts[:2] == ("squeue", "-h") and "-O" in parts:
            return "".join(f"{job:<30}{'gres:gpu:4':<100}a\n" for job in self.jobs)
        if parts[1] == "release":
            for job in map(int, parts[2].split(",")):
                self.jobs[job] |= {
                    "job_state": "RUNNING",
                    "priority": 1,
                    "nodes": "a",
                    "gres_detail": ["gpu:4(IDX:0-3)"],
                }
            self.releases.set()
            assert self.may_return.wait(30)
        return ""


@pytest.fixture
def tools() -> SlowTools:
    return SlowTools()


@pytest.fixture
def backend(tools: SlowTools) -> SlurmBackend:
    result = SlurmBackend()
    result._tools = result._starter._tools = tools  # type: ignore[assignment]
    result.snapshot()
    return result


def states(backend: SlurmBackend) -> list[str]:
    return [job.state for job in backend.snapshot().jobs]


def until(true: Callable[[], bool]) -> None:
    waiting = threading.Event()
    for _ in range(3000):
        if true():
            return
        waiting.wait(0.01)
    raise AssertionError


def test_a_start_under_way_that_shows_already_counts_once(backend: SlurmBackend, tools: SlowTools) -> None:
    """Or a slow `scontrol` would have its neighbours refused, three times in a row."""
    assert backend.start([StartOrder("1", {"a": 4})], 0) == [""]
    assert tools.releases.wait(30)
    assert states(backend) == [base.RUNNING, base.QUEUED]  # and it is still in flight
    assert backend.start([StartOrder("2", {"a": 4})], 0) == [""]
    tools.may_return.set()
    until(lambda: states(backend) == [base.RUNNING, base.RUNNING])
    backend.close()


def test_a_refusal_is_not_lost_on_a_look_that_decides_nothing(backend: SlurmBackend, tools: SlowTools) -> None:
    tools.failing["update"] = BackendError("Invalid qos")
    backend.start([StartOrder("1", {"a": 4})], 0)
    until(lambda: not backend._starter.in_flight())
    for _ in range(2):
        (job, _other) = backend.snapshot().jobs
        assert (job.state, job.reason) == (base.BLOCKED, "Invalid qos")
    tools.may_return.set()
    assert backend.start([StartOrder("2", {"a": 4})], 0) == [""]
    backend.close()


def test_no_answer_is_no_refusal(backend: SlurmBackend, tools: SlowTools, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job is as it was, the problem is told, and the same start is taken again."""
    monkeypatch.setattr(starter_module, "SHOWN_S", 0.0)
    tools.may_return.set()
    for call in ("update", "-h", "release"):
        tools.failing[call] = NoAnswerError("scontrol did not answer within 10 s")
        assert backend.start([StartOrder("1", {"a": 4})], 0) == [""]
        until(lambda: not backend._starter.in_flight())
        observed = backend.snapshot()
        assert observed.jobs[0].state == base.QUEUED
        assert observed.problems == ("start of job 1: scontrol did not answer within 10 s",)
        assert backend.snapshot().problems == ()
    assert backend.start([StartOrder("1", {"a": 4})], 0) == [""]
    until(lambda: states(backend) == [base.RUNNING, base.QUEUED])
    backend.close()


def test_a_job_is_not_held_while_it_is_being_released(backend: SlurmBackend, tools: SlowTools) -> None:
    """The release would come after the hold, and the job would start although it is to stop."""
    backend.start([StartOrder("1", {"a": 4})], 0)
    assert tools.releases.wait(30)
    done = threading.Event()

    def drop() -> None:
        backend._starter.drop("1")
        done.set()

    threading.Thread(target=drop, daemon=True).start()
    assert not done.wait(0.3)
    tools.may_return.set()
    assert done.wait(30)
    backend.close()


def test_a_comment_of_an_array_does_not_reach_the_task_that_starts(backend: SlurmBackend, tools: SlowTools) -> None:
    starter = backend._starter
    with starter._changed:  # nothing is carried out meanwhile
        starter._thread = threading.current_thread()
        starter.comment({"20_[4-5]": "of the array", "21_[0-1]": "of another", "7": "x"})
        starter.add([starter_module.StartRequest("20_4", (), {"a": 4})])
        assert starter._comments == {"21_[0-1]": "of another", "7": "x"}
        starter._thread = None


def test_a_hanging_scontrol_does_not_make_the_rest_stale(backend: SlurmBackend, tools: SlowTools) -> None:
    """Jobs and nodes come from squeue and sinfo; reservations and licences are those of before."""
    backend._limits.look_soon()
    tools.failing["-o"] = NoAnswerError("scontrol did not answer within 10 s")
    tools.jobs[1] |= {"job_state": "RUNNING", "nodes": "a", "gres_detail": ["gpu:4(IDX:0-3)"]}
    observed = backend.snapshot()
    assert observed.jobs[0].state == base.RUNNING
    assert observed.problems == (
        "reservations, licences and limits of partitions: scontrol did not answer within 10 s",
    )
    backend._limits.look_soon()
    until(lambda: backend.snapshot().problems == ())


def test_no_snapshot_waits_for_a_hanging_scontrol(
    backend: SlurmBackend, tools: SlowTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    returns, whole = threading.Event(), tools.run
    shown = "PartitionName=gpu State=UP"

    def hanging(*parts: str, **options: Any) -> str:
        if parts[:2] == ("scontrol", "-o"):
            assert returns.wait(60)
            return shown if parts[-1] == "partition" else ""
        return whole(*parts, **options)

    tools.run = hanging  # type: ignore[method-assign]
    monkeypatch.setattr(background_reader, "WITHIN_S", 0.0)
    backend._limits.look_soon()
    backend._shown_switches.look_soon()
    tools.jobs[1] |= {"job_state": "RUNNING", "nodes": "a", "gres_detail": ["gpu:4(IDX:0-3)"]}
    assert states(backend)[0] == base.RUNNING
    assert backend._limits.partitions() == ""
    returns.set()
    until(lambda: backend.snapshot() is not None and backend._limits.partitions() == shown)


def test_half_of_an_answer_ends_no_later_start(backend: SlurmBackend, tools: SlowTools) -> None:
    tools.may_return.set()
    whole = tools.run

    def halved(*parts: str, **options: Any) -> str:
        answer = whole(*parts, **options)
        if parts[:2] == ("squeue", "-h") and "-O" in parts:
            tools.run = whole  # type: ignore[method-assign]
            return answer.replace("a\n", "a[1-\n")
        return answer

    tools.run = halved  # type: ignore[method-assign]
    backend.start([StartOrder("1", {"a": 4})], backend.term)
    until(lambda: not backend._starter.in_flight())
    assert "PENDING" in str(tools.jobs[1]["job_state"])
    backend.start([StartOrder("2", {"a": 4})], backend.term)
    until(lambda: tools.jobs[2]["job_state"] == "RUNNING")


def test_an_error_of_our_own_ends_no_later_preemption() -> None:
    def drop(job_id: str) -> None:
        if job_id == "1":
            raise RuntimeError("cannot start a thread")

    preempter = Preempter(SlowTools(), lambda: None, drop)  # type: ignore[arg-type]
    preempter.add(["1"])
    assert preempter.wait_idle(30.0)
    assert preempter.take_failures() == ["preempt of jobs 1: cannot start a thread"]
    preempter.add(["2"])
    assert preempter.wait_idle(30.0)


class PausingTools:
    """One running job; Slurm does not answer, or refuses to requeue, as often as the test says."""

    def __init__(self, unanswered: int = 0, refusals: int = 0) -> None:
        self.state, self.unanswered, self.refusals = "RUNNING", unanswered, refusals
        self.calls: list[tuple[str, ...]] = []

    def run(self, *parts: str, **_: Any) -> str:
        self.calls.append(parts)
        if self.state == "STOPPED" and self.unanswered:
            self.unanswered -= 1
            raise NoAnswerError("Unable to contact slurm controller")
        if parts[1] == "requeuehold" and self.refusals:
            self.refusals -= 1
            raise BackendError("Job violates a rule")
        after = {"--signal=STOP": "STOPPED", "--signal=CONT": "RUNNING", "requeuehold": "PENDING"}
        self.state = after.get(parts[1], self.state)
        return f"{'1':<30}{self.state:<30}\n"


@pytest.fixture
def fast_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AGAIN_AFTER_S", "PAUSED_WITHIN_S", "TERMINATED_WITHIN_S"):
        monkeypatch.setattr(preempter_module, name, 0.0)


@pytest.mark.usefixtures("fast_attempts")
@pytest.mark.parametrize("call", ["term", "requeuehold"])
def test_a_job_stays_paused_while_scontrol_alone_does_not_answer(call: str) -> None:
    """It has been sent SIGTERM: if it went on, it would end as if it had run."""
    tools, attempts = PausingTools(), [0]

    def hangs(name: str) -> None:
        if name == call and tools.state == "STOPPED" and attempts[0] < 3 * preempter_module.ATTEMPTS:
            attempts[0] += 1
            raise NoAnswerError("Unable to contact slurm controller")

    answers = tools.run

    def run(*parts: str, **options: Any) -> str:
        hangs(parts[1])
        return answers(*parts, **options)

    tools.run = run  # type: ignore[method-assign]
    preempter = Preempter(tools, lambda: hangs("term"), lambda job_id: None)  # type: ignore[arg-type]
    preempter.add(["1"])
    assert preempter.wait_idle(30.0)
    assert tools.state == "PENDING"
    assert not any("--signal=CONT" in parts for parts in tools.calls)
    preempter.close()


@pytest.mark.usefixtures("fast_attempts")
@pytest.mark.parametrize("unanswered", [1, 2, 3, 7])
def test_a_paused_job_leaves_once_slurm_answers_again(unanswered: int) -> None:
    """Without another order: no cycle need succeed meanwhile."""
    tools = PausingTools(unanswered)
    preempter = Preempter(tools, lambda: None, lambda job_id: None)  # type: ignore[arg-type]
    preempter.add(["1"])
    assert preempter.wait_idle(30.0)
    assert (tools.state, tools.unanswered) == ("PENDING", 0)
    assert preempter._paused == {}
    preempter.close()


@pytest.mark.usefixtures("fast_attempts")
@pytest.mark.parametrize(("refusals", "state"), [(1, "PENDING"), (1000, "RUNNING")])
def test_a_job_that_slurm_refuses_to_requeue_does_not_stay_paused(refusals: int, state: str) -> None:
    tools = PausingTools(refusals=refusals)
    preempter = Preempter(tools, lambda: None, lambda job_id: None)  # type: ignore[arg-type]
    preempter.add(["1"])
    assert preempter.wait_idle(30.0)
    assert tools.state == state
    assert "preempt of job 1: Job violates a rule" in preempter.take_failures()
    refused = state == "RUNNING"  # the table gives up on it in the end: others are not promised its GPUs for ever
    assert preempter.refusal("1") == ("preempt of job 1: Job violates a rule" if refused else "")
    preempter.close()


def test_a_job_left_paused_is_requeued_until_that_succeeds() -> None:
    backend, tools = SlurmBackend(), PausingTools(refusals=2)
    tools.state = "STOPPED"
    backend._tools = tools  # type: ignore[assignment]
    (record,) = records_of([row(job_id=1, job_state="STOPPED")])
    backend._records = {"1": record}
    backend._latest = base.Observed((base.ObservedJob("1", base.RUNNING, JobSpec(1), 0.0, {"a": 1}, True, ""),), ())
    for _ in range(2):
        assert backend.complete() == ["preempt of job 1: Job violates a rule"]
    assert (backend.complete(), tools.state) == ([], "PENDING")
    backend.close()


@pytest.mark.usefixtures("fast_attempts")
def test_a_job_that_ends_by_our_sigterm_as_it_is_requeued_runs_again() -> None:
    """Slurm requeues only what has not ended, unless told otherwise: such a job would have ended for good."""
    tools = PausingTools()
    answers = tools.run

    def run(*parts: str, **options: Any) -> str:
        if parts[1:3] == ("requeuehold", "Incomplete"):
            tools.state = "COMPLETED"
            raise BackendError("Job has already finished")
        return answers(*parts, **options)

    tools.run = run  # type: ignore[method-assign]
    preempter = Preempter(tools, lambda: None, lambda job_id: None)  # type: ignore[arg-type]
    preempter.add(["1"])
    assert preempter.wait_idle(30.0)
    assert (tools.state, preempter.take_failures()) == ("PENDING", [])
    preempter.close()


def test_signals_are_given_longer_where_slurm_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    moments, slept = iter((0.0, 0.0, 0.1, 0.5, 1.0, 9.0)), list[float]()
    monkeypatch.setattr("dally.live.backends.slurm.preempter.time.monotonic", lambda: next(moments))
    monkeypatch.setattr("dally.live.backends.slurm.preempter.time.sleep", slept.append)
    preempter = Preempter(PausingTools(), lambda: None, lambda job_id: None)  # type: ignore[arg-type]
    for _ in range(3):
        preempter._signal("STOP", ["1"], 1.0)
    assert slept == [1.0, 2.0, 5.0]


@pytest.mark.parametrize(
    ("script", "answer"),
    [
        ("echo 'scancel: Job is in transitional state, retrying' >&2; exec sleep 600", ""),
        ("echo 'scancel: Signal 19 to full job 7_1' >&2", ""),
        ("echo first >&2; echo 'scancel: error: Invalid job id specified' >&2; exit 1", "Invalid job id specified"),
        ("echo 'scancel: Signal 19 to full job 7_1' >&2; exec sleep 600", "scancel did not answer within 4 s"),
    ],
)
def test_scancel_is_not_waited_for_once_it_says_that_it_tries_again(
    tmp_path: Path, script: str, answer: str
) -> None:
    tool = tmp_path / "scancel"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    tools = Tools()
    tools._environment["PATH"] = f"{tmp_path}:{tools._environment['PATH']}"
    failed = Preempter(tools, lambda: None, lambda job_id: None)._send("STOP", ["7_1"])
    assert [line.startswith("preempt of job 7_1: ") and answer in line for line in failed] == [True] * bool(answer)
