"""A Slurm as a site configures it: what is left alone, what can be rolled back, who leads."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dally.live.backends import base
from dally.live.backends.base import BackendError, StartOrder
from dally.live.backends.slurm import SlurmBackend, lease, preempter, watchdog
from dally.live.backends.slurm.job_mark import read_mark
from dally.live.backends.slurm.job_record import number
from dally.live.backends.slurm.lease import Lease
from dally.live.backends.slurm.left_alone import left_alone, left_note
from dally.live.backends.slurm.original import SETTINGS
from dally.live.backends.slurm.preempter import states_of
from dally.live.backends.slurm.tools import Tools
from dally.live.lock import ClusterLock
from dally.live.private_folder import LOCK
from tests.cli.conftest import Run
from tests.live.slurm_site import SlurmSite
from tests.live.test_slurm_setup import User

OURS = ""


@pytest.fixture
def dally_site(site: SlurmSite, dally: Run) -> Iterator[SlurmSite]:
    """The site with Dally's plugin."""
    conf = ("--conf", str(site.conf))
    assert dally("slurm", "setup", *conf).returncode == 0
    yield site
    site.cancel_all()
    assert dally("slurm", "rollback", *conf, "--force").returncode == 0


def row_of(site: SlurmSite, job_id: str) -> dict[str, Any]:
    rows = Tools(str(site.conf)).rows("jobs", "squeue", "--json")
    return next(row for row in rows if str(row["job_id"]) == job_id)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ("--gres=gpu:2", OURS),
        ("--gpus=8", OURS),
        ("--gpus=a100:4", OURS),
        ("-N2 --gpus-per-node=4 --ntasks-per-node=4 -c2", OURS),
        ("--gpus-per-task=1 -n6", OURS),
        ("--gres=gpu:1 --exclusive", OURS),
        ("--gres=gpu:1 -C ib&fast --licenses=matlab:1 --mem=100 --begin=now+1hour", OURS),
        ("--gres=gpu:1 --array=0-5%2", OURS),
        ("--gpus=0", "no-gpus"),
        ("--gres=gpu:0", "no-gpus"),
        ("-H --gpus=a100:2,v100:1", "gpu-types"),  # held, or Slurm would refuse it here
        ("--gpus-per-socket=1 --sockets-per-node=1", "socket"),
        ("--gres=gpu:1 --exclusive=user", "shared"),
        ("--gres=gpu:1 --oversubscribe", "shared"),
        ("--gres=gpu:1 --switches=1", "switches"),
        ("--gres=gpu:1 --contiguous", "contiguous"),
        ("--gres=gpu:1 --tmp=1", "tmp"),
        ("--gres=gpu:1 --prefer=eth -p short", "prefer"),
        ("--gres=gpu:1 -N2 -C [ib*1&fast*1]", "features"),
        ("--gres=gpu:1 : --gres=gpu:1", "het"),
    ],
)
def test_plugin_and_daemon_leave_the_same_jobs_alone(dally_site: SlurmSite, options: str, name: str) -> None:
    """What the plugin holds is what the daemon models; the rest is Slurm's to start or to refuse."""
    job_id = User(dally_site).submit(*options.split()).split(";")[0]
    row = row_of(dally_site, job_id)
    comment = str(row["admin_comment"])
    assert left_note(comment) == name
    assert (read_mark(comment) is not None) == (name == OURS)
    held = number(row["priority"]) == 0 and "PENDING" in row["job_state"]
    assert held == (name == OURS or "-H" in options), row["state_reason"]
    shown_by_slurm = name not in ("switches", "prefer")  # squeue does not show these
    assert left_alone(row) == (name if shown_by_slurm else OURS)
    found = SlurmBackend(conf=str(dally_site.conf)).survey()
    assert [job.job_id for job in found.left] == ([] if name == OURS else left_ids(dally_site, job_id))


def left_ids(site: SlurmSite, job_id: str) -> list[str]:
    """A heterogeneous job is two."""
    rows = Tools(str(site.conf)).rows("jobs", "squeue", "--json")
    return [str(row["job_id"]) for row in rows if row["job_id"] >= int(job_id) and row["job_state"] != "COMPLETED"]


def test_check_names_what_is_left_alone(dally_site: SlurmSite, dally: Run) -> None:
    user = User(dally_site)
    ours, left = user.submit("--gres=gpu:1"), user.submit("--gres=gpu:1", "--contiguous")
    told = json.loads(dally("slurm", "check", "--conf", str(dally_site.conf), "--json").stdout)
    assert told["plugin"] == "set up"
    assert [(job["job_id"], job["reason"]) for job in told["left"]] == [(left, "asks for contiguous nodes")]
    assert told["managed"] == {"PENDING": 1}
    assert f"job {left} (" in dally("slurm", "check", "--conf", str(dally_site.conf)).stdout
    assert row_of(dally_site, ours)["priority"] == 0


def test_what_the_daemon_does_not_model_is_given_back(dally_site: SlurmSite) -> None:
    """A job that came held and was changed since, or whose plugin is of another version, is not held for ever."""
    job_id = User(dally_site).submit("--gres=gpu:1")
    dally_site.run("scontrol", "update", f"JobId={job_id}", "Contiguous=yes")
    backend = SlurmBackend(conf=str(dally_site.conf))
    (job,) = [job for job in backend.snapshot().jobs if job.job_id == job_id]
    assert (job.managed, job.reason) == (False, "asks for contiguous nodes")
    assert backend.complete() == []
    until(lambda: "RUNNING" in row_of(dally_site, job_id)["job_state"])
    assert backend.snapshot().jobs[-1].placement  # its GPUs count as taken


def test_a_mark_that_an_operator_overwrites_comes_back(dally_site: SlurmSite, dally: Run) -> None:
    """Or the job would be held for ever, and no rollback would know it."""
    user = User(dally_site)
    job_id, array = user.submit("--gres=gpu:1"), user.submit("--gres=gpu:1", "--array=0-3")
    backend = SlurmBackend(conf=str(dally_site.conf))
    backend.snapshot()
    for one in (job_id, array):
        dally_site.run("scontrol", "update", f"JobId={one}", "AdminComment=seen by bob")
    ours = [job for job in backend.snapshot().jobs if job.job_id.partition("_")[0] in (job_id, array)]
    assert [(job.managed, job.state) for job in ours] == [(True, base.QUEUED)] * 5
    assert len(backend.complete()) == 2
    for one in (job_id, array):
        comment = str(row_of(dally_site, one)["admin_comment"])
        assert comment.startswith("seen by bob dally:submit=")
    assert row_of(dally_site, array)["array_task_string"] == "0-3"  # not told apart
    backend.snapshot()
    assert backend.complete() == []
    assert dally("slurm", "rollback", "--conf", str(dally_site.conf), "--jobs-only").returncode == 0
    until(lambda: "RUNNING" in row_of(dally_site, job_id)["job_state"])
    assert row_of(dally_site, job_id)["admin_comment"] == "seen by bob"


def until(true: Callable[[], bool], seconds: float = 30.0) -> None:
    until_s = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until_s
        time.sleep(0.2)


KEPT_FIELDS = [setting.shown for setting in SETTINGS] + ["dependency", "array_max_tasks", "features", "partition"]


class Submitted:
    """Jobs as they were when they came, by name."""

    def __init__(self, site: SlurmSite) -> None:
        self._site, self._user = site, User(site)
        self.ids: dict[str, str] = {}
        self.rows: dict[str, dict[str, Any]] = {}

    def add(self, name: str, *options: str) -> str:
        self.ids[name] = self._user.submit("--mem=100", "--time=30", *options)
        self.rows[name] = row_of(self._site, self.ids[name])
        return self.ids[name]

    def differences(self, name: str) -> dict[str, tuple[Any, Any]]:
        """What is not as it was; a requeued job's number of nodes is that of its last run, which Slurm shows."""
        now, before = row_of(self._site, self.ids[name]), self.rows[name]
        requeued = number(now["restart_cnt"]) > 0
        fields = [field for field in KEPT_FIELDS if not (requeued and field == "node_count")]
        return {field: (before[field], now[field]) for field in fields if now[field] != before[field]}


def run_and_stop(backend: SlurmBackend, job_id: str, placement: dict[str, int]) -> None:
    def state() -> str:
        return next(job.state for job in backend.snapshot().jobs if job.job_id == job_id)

    until(lambda: state() == base.QUEUED)
    assert backend.start([StartOrder(job_id, placement)], 0) == [""]
    until(lambda: state() == base.RUNNING)
    assert backend.preempt([job_id], 0) == [""]
    until(lambda: state() == base.QUEUED)


def test_rolled_back_jobs_are_as_they_came(dally_site: SlurmSite, dally: Run) -> None:
    site, user = dally_site, User(dally_site)
    conf = ("--conf", str(site.conf))
    jobs = Submitted(site)
    total = jobs.add("total", "--gpus=8", "-n8")
    jobs.add("plain", "--gres=gpu:1", "-C", "ib")
    either = jobs.add("either", "--gres=gpu:1", "-p", "gpu,old")
    span = jobs.add("range", "-N2-4", "--gpus-per-node=1")
    pinned = jobs.add("pinned", "--gres=gpu:1", "-w", "n03")
    jobs.add("dependent", "--gres=gpu:1", f"--dependency=afterany:{pinned}")
    array = jobs.add("array", "--gres=gpu:1", "--array=0-5%2")
    held = jobs.add("held", "--gres=gpu:1", "-H")
    later = jobs.add("later", "--gres=gpu:1", "--begin=now+2hours")
    held_later = jobs.add("held later", "--gres=gpu:1", "-H", "--begin=now+1hour")
    by_operator = jobs.add("held by an operator", "--gres=gpu:1")
    site.run("scontrol", "hold", by_operator)
    backend = SlurmBackend(conf=str(site.conf))
    backend.snapshot()
    run_and_stop(backend, total, {"n01": 4, "n02": 4})  # reshaped, pinned and requeued
    run_and_stop(backend, f"{array}_0", {"n04": 1})
    run_and_stop(backend, either, {"n07": 1})
    run_and_stop(backend, span, {"n01": 1, "n03": 1})
    assert row_of(site, either)["partition"] == "old"
    assert row_of(site, total)["required_nodes"] == "n01,n02"
    assert jobs.differences("total")
    plan = json.loads(dally("slurm", "rollback", *conf, "--dry-run", "--json").stdout)
    assert any("ReqNodeList=" in line for line in plan["done"])
    told = dally("slurm", "rollback", *conf, "--check")
    assert (told.returncode, told.stdout.count("waits for Dally")) == (1, 12)
    for name in ("gpu", "short", "old"):
        site.run(
            "scontrol", "update", f"PartitionName={name}", "State=DOWN"
        )  # so that all of them can be looked at
    try:
        for _ in range(2):  # the second time there is nothing to do
            told = json.loads(dally("slurm", "rollback", *conf, "--json").stdout)
            assert told["remaining"] == []
        for name, job_id in jobs.ids.items():
            expected = {"cpus": (1, 2)} if name == "range" else {}  # Slurm counts one for each node once it is set
            assert jobs.differences(name) == expected, name
            assert row_of(site, job_id)["admin_comment"] == ""
    finally:
        for name in ("gpu", "short", "old"):
            site.run("scontrol", "update", f"PartitionName={name}", "State=UP")
    assert not site.conf.with_name("job_submit.lua").exists()
    on_hold = {name for name, job_id in jobs.ids.items() if number(row_of(site, job_id)["priority"]) == 0}
    assert on_hold == {"held", "held later", "held by an operator"}
    assert number(row_of(site, later)["eligible_time"]) > time.time() + 3600.0
    assert number(row_of(site, held_later)["eligible_time"]) < time.time() + 3700.0
    check_they_run(site, user, jobs, held)
    assert dally("slurm", "rollback", *conf, "--check").stdout == "All jobs are rolled back\n"


def check_they_run(site: SlurmSite, user: User, jobs: Submitted, held: str) -> None:
    """Under Slurm alone, each as it would have."""
    user.run("scontrol", "release", held)
    for name in ("plain", "pinned", "held", "total"):
        until(lambda name=name: "RUNNING" in row_of(site, jobs.ids[name])["job_state"], 60.0)  # type: ignore[misc]
    assert row_of(site, jobs.ids["pinned"])["nodes"] == "n03"
    until(lambda: site.run("squeue", "-h", "-r", "-t", "R", "-j", jobs.ids["array"], "-o", "%i").count("_") == 2)
    site.run("scancel", jobs.ids["pinned"])
    until(lambda: "RUNNING" in row_of(site, jobs.ids["dependent"])["job_state"])


def test_a_daemon_that_is_away_for_long_is_rolled_back(
    dally_site: SlurmSite, dally: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "RENEW_EVERY_S", 0.5)
    conf = ("--conf", str(dally_site.conf), "--folder", str(tmp_path))
    job_id = User(dally_site).submit("--gres=gpu:1")
    state = tmp_path / "watchdog.json"
    watch = ("slurm", "watchdog", *conf, "--state", str(state), "--after", "10m", "--json")
    script = dally_site.conf.with_name("job_submit.lua")

    def none_since(seconds: float) -> None:
        state.write_text(json.dumps({"term": 0, "renewed_s": 0.0, "since_s": time.time() - seconds}))

    os.utime(script, (time.time() - 9_000.0,) * 2)
    tools = Tools(str(dally_site.conf))
    lead = Lease(tools, "n01", lambda: True, tmp_path / "term")
    told = json.loads(dally(*watch).stdout)
    assert (told["rolled_back"], told["term"]) == (False, lead.term)
    refused = dally("slurm", "rollback", *conf)
    assert refused.returncode == 2
    assert "a daemon schedules this cluster" in refused.stderr
    with monkeypatch.context() as jump:
        ahead = watchdog.Absence(3600.0, lead.term, renewed_s=1.0)  # as seen when our clock jumps ahead
        jump.setattr(watchdog, "absence", lambda *_: ahead)
        told = json.loads(dally(*watch).stdout)
    assert (told["rolled_back"], told["done"]) == (False, ["but it is there: nothing is rolled back"])
    lead.release()
    assert json.loads(dally(*watch).stdout)["rolled_back"] is False  # the first time that there is none
    none_since(601.0)
    alone = ClusterLock(tmp_path / LOCK, "keeps its state in this folder")  # a daemon with --i-am-alone
    assert json.loads(dally(*watch).stdout)["rolled_back"] is False
    assert f"a daemon runs in {tmp_path}" in dally("slurm", "rollback", *conf).stderr
    alone.release()
    os.utime(script)  # it was set up just now, and the daemon is to be started next
    assert json.loads(dally(*watch).stdout)["rolled_back"] is False
    os.utime(script, (time.time() - 9_000.0,) * 2)
    dead = Lease(tools, "n01", lambda: False, tmp_path / "term")
    time.sleep(1.5)
    told = json.loads(dally(*watch[:-3], "--after", "1s", "--json").stdout)
    assert (told["rolled_back"], told["term"]) == (True, dead.term)
    dead.release()
    assert not dally_site.conf.with_name("job_submit.lua").exists()
    until(lambda: "RUNNING" in row_of(dally_site, job_id)["job_state"])


def test_only_one_daemon_of_all_hosts_leads(
    site: SlurmSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second waits; once the first no longer renews its lease it takes over, and the first is refused."""
    monkeypatch.setattr(lease, "EXPIRES_S", 4.0)
    monkeypatch.setattr(lease, "RENEW_EVERY_S", 1.0)
    monkeypatch.setattr(lease, "POLL_S", 0.2)
    alive = [True]
    tools = Tools(str(site.conf))
    first = Lease(tools, "n01", lambda: alive[0], tmp_path / "host1")
    began_s = time.monotonic()
    backend = SlurmBackend(conf=str(site.conf))
    monkeypatch.setattr(backend, "_is_scheduling", lambda: True)
    monkeypatch.setattr(lease.log, "info", lambda *_, **__: alive.__setitem__(0, False))  # once it is said to wait
    second = backend.take_lease(tmp_path / "host2")
    assert time.monotonic() - began_s >= 4.0
    assert (first.term, backend.term) == (1, 2)
    time.sleep(1.1)
    with pytest.raises(BackendError, match="term 1 is over: another daemon leads since term 2"):
        first.check()
    backend.check_term(2)
    with pytest.raises(BackendError, match="decided in term 1, and this is term 2"):
        backend.start([], 1)
    second.release()
    again = Lease(tools, "n01", lambda: True, tmp_path / "host1")
    again.release()
    assert lease.leases(tools) == []


def test_a_daemon_that_died_need_not_expire_on_its_own_host(site: SlurmSite, tmp_path: Path) -> None:
    tools = Tools(str(site.conf))
    dead = Lease(tools, "n01", lambda: False, tmp_path / "host")
    began_s = time.monotonic()
    next_one = Lease(tools, "n01", lambda: True, tmp_path / "host")
    assert next_one.term == dead.term + 1
    assert time.monotonic() - began_s < lease.EXPIRES_S / 2.0
    next_one.release()


def test_a_job_that_has_completed_is_not_run_again(site: SlurmSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although `requeuehold` requeues finished jobs: it may complete right after we have looked."""
    tools = Tools(str(site.conf))
    job_id = site.run(
        "sbatch", "--parsable", "--requeue", "-o", "/dev/null", "--gres=gpu:1", "--wrap", "true"
    ).strip()
    backend = SlurmBackend(conf=str(site.conf))
    until(lambda: "COMPLETED" in tools.run("squeue", "-h", "-t", "all", "-j", job_id, "-o", "%T"))
    stale = [{job_id: "RUNNING"}]  # as of a moment ago
    monkeypatch.setattr(preempter, "states_of", lambda *asked: stale.pop() if stale else states_of(*asked))
    backend.preempt_job(job_id)
    assert not stale
    assert "COMPLETED" in tools.run("squeue", "-h", "-t", "all", "-j", job_id, "-o", "%T")


PAUSABLE = """#!/bin/bash
trap 'echo stopped >> {mark}; exit 0' TERM
echo begin >> {mark}
sleep 1 & wait
while [ -e {mark} ]; do sleep 0.1; done
"""


@pytest.mark.parametrize("by", ["the next daemon", "roll back"])
def test_a_job_that_a_daemon_left_paused_is_requeued(
    dally_site: SlurmSite, dally: Run, tmp_path: Path, by: str
) -> None:
    """It died between the pause and the order to requeue."""
    mark = tmp_path / "mark"
    script = PAUSABLE.format(mark=mark)
    words = ("sbatch", "--parsable", "--requeue", "-o", "/dev/null", "--gres=gpu:1")
    job_id = dally_site.run(*words, given=script).strip()
    backend = SlurmBackend(conf=str(dally_site.conf))
    backend.snapshot()
    backend.start_job(job_id, {"n01": 1})
    until(mark.exists)
    dally_site.run("scancel", "--signal=STOP", "--full", job_id)
    until(lambda: row_of(dally_site, job_id)["job_state"] == "STOPPED")
    if by == "roll back":
        assert dally("slurm", "rollback", "--conf", str(dally_site.conf)).returncode == 0
        until(
            lambda: mark.read_text().split() == ["begin", "stopped", "begin"], 240.0
        )  # Slurm delays requeued jobs
        return
    backend = SlurmBackend(conf=str(dally_site.conf))
    backend.snapshot()
    assert backend.complete() == []
    until(lambda: {job.job_id: job.state for job in backend.snapshot().jobs}[job_id] == base.QUEUED)
    assert mark.read_text().split() == ["begin", "stopped"]
    mark.unlink()


def test_tasks_of_an_array_whose_others_wait_are_stopped_without_waiting_for_scancel(
    site: SlurmSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """slurmctld sends such a task the signal and answers that it cannot; scancel repeats that for 95 s."""
    words = (
        "sbatch",
        "--parsable",
        "--requeue",
        "-o",
        "/dev/null",
        "--gres=gpu:1",
        "--mem=100",
        "-H",
        "--array=0-3",
    )
    array = site.run(*words, "--wrap", "sleep 600").strip()
    site.run("scontrol", "update", f"JobId={array}", "AdminComment=dally:read=1")
    backend = SlurmBackend(conf=str(site.conf))
    tasks = [f"{array}_0", f"{array}_2"]
    for task in tasks:
        backend.start_job(task, {"n02": 1})
    tools = Tools(str(site.conf))
    until(lambda: list(states_of(tools, tasks).values()) == ["RUNNING"] * 2)
    answered = list[str]()
    whole = Tools.run

    def run(tools: Tools, *parts: str, **options: Any) -> str:
        answer = whole(tools, *parts, **options)
        if parts[0] == "scancel":
            answered.append(parts[-1])
        return answer

    monkeypatch.setattr(Tools, "run", run)
    backend.snapshot()
    assert backend.preempt(tasks, backend.term) == ["", ""]
    assert backend._preempter.wait_idle(120.0)
    assert answered  # all of them if the machine is not too busy for that

    def states() -> set[str]:
        return {job.state for job in backend.snapshot().jobs if job.job_id.startswith(f"{array}_")}

    until(lambda: states() == {base.QUEUED}, 150.0)  # one that is stopped as it begins can take a minute
    site.run("scancel", array)
    backend.close()
