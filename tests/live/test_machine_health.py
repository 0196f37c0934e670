"""Machines that jobs' steps show to be slow: drained with the evidence, never too many, back after a probe."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from dally.errors import InputError
from dally.job_spec import JobSpec
from dally.live import machine_health
from dally.live.health_settings import HealthSettings, read_settings
from dally.live.job_progress import StepCount
from dally.live.machine_health import REASON, MachineHealth
from dally.model import RUNNING, Job, make_allocation
from tests.waiting import wait_for

MACHINES = 20


def health_of(settings: HealthSettings, daemon: Any, site: Site) -> MachineHealth:
    """What looks after the site, put together as a service does."""
    return MachineHealth(settings, daemon, site)


class Site:
    """A cluster of one job of 8 GPUs on every machine, each 100 steps per look; what is drained is noted."""

    def __init__(self, settings: HealthSettings) -> None:
        self.factor = dict.fromkeys(range(MACHINES), 1.0)
        self.states = {f"m{number}": ("up", "") for number in range(MACHINES)}
        self.signs: dict[str, tuple[str, ...]] = {}  # as the backend has them
        self.jobs = [self.job(number) for number in range(MACHINES)]
        self.worked_s = dict.fromkeys(range(MACHINES), 0.0)
        self.done = 0.0
        self.now = 0.0
        self.roster: Any = self
        self.progress: Any = self
        self.topology = SimpleNamespace(names=[list(self.states)])
        daemon: Any = SimpleNamespace(watchers=[], lock=threading.Lock(), scheduler=self)
        self.watchers = daemon.watchers
        self.keeper = health_of(settings, daemon, self)

    def job(self, number: int) -> Job:
        job = Job(number, f"j{number}", 0.0, 8, 1e6)
        job.status, job.placed_s, job.rate = RUNNING, 0.0, 1.0
        job.allocation = make_allocation(0, [(number, 8)])
        return job

    def __iter__(self) -> Any:
        return iter(self.jobs)

    @property
    def snapshot(self) -> Any:
        rows = [
            SimpleNamespace(name=name, state=state, reason=why, signs=self.signs.get(name, ()))
            for name, (state, why) in self.states.items()
        ]
        return SimpleNamespace(machines=rows)

    def step_count(self, job: Job) -> StepCount:
        number = int(job.index)
        return StepCount(0.0, self.worked_s[number], self.done)

    def drain(self, machine: str, who: str, why: str) -> None:
        self.states[machine] = ("draining", why)

    def resume(self, machine: str, who: str, why: str) -> None:
        self.states[machine] = ("up", "")

    def cycles(self, count: int) -> None:
        for _ in range(count):
            self.done += 100.0
            self.now += 60.0
            for number, factor in self.factor.items():
                self.worked_s[number] += 60.0 * factor
            for watcher in self.watchers:
                watcher(SimpleNamespace(now=self.now, failed=""), 0.0)

    def drained(self) -> list[str]:
        return [name for name, (state, _) in self.states.items() if state == "draining"]


ACTS = HealthSettings(act=True, most_out=0.1, probe=("true",), again_s=1.0)


def test_machine_whose_job_became_slow_is_drained_with_the_evidence() -> None:
    site = Site(ACTS)
    site.cycles(10)
    assert site.drained() == []
    site.factor[3] = 1.4
    site.cycles(5)
    assert site.drained() == ["m3"]
    why = site.states["m3"][1]
    assert why.startswith(REASON)
    assert "j3" in why


def test_it_is_probed_once_idle_and_comes_back() -> None:
    site = Site(ACTS)
    site.cycles(10)
    site.factor[3] = 1.4
    site.cycles(5)
    del site.jobs[3]

    def back() -> bool:
        site.cycles(1)
        return site.drained() == []

    wait_for(back, 20.0)


def test_failed_probe_leaves_it_drained() -> None:
    site = Site(ACTS._replace(probe=("false",)))
    site.cycles(10)
    site.factor[3] = 1.4
    site.cycles(5)
    del site.jobs[3]
    site.cycles(1)
    probe, _ = site.keeper._probes["m3"]
    probe.wait(20.0)
    site.cycles(1)
    assert site.drained() == ["m3"]
    assert site.keeper._probes == {}


def test_never_more_than_the_share_and_none_where_all_are_slow() -> None:
    site = Site(ACTS)
    site.cycles(10)
    for number in range(5):
        site.factor[number] = 2.0
    site.cycles(10)
    assert len(site.drained()) == 2
    site = Site(ACTS)
    site.cycles(10)
    site.factor = dict.fromkeys(range(MACHINES), 1.5)
    site.cycles(10)
    assert site.drained() == []


def test_nothing_is_done_by_default_and_one_job_is_not_enough_without_a_probe() -> None:
    for settings in (ACTS._replace(act=False), ACTS._replace(probe=())):
        site = Site(settings)
        site.cycles(10)
        site.factor[3] = 1.4
        site.cycles(5)
        assert [suspect.name for suspect in site.keeper.suspects] == ["m3"]
        assert site.drained() == []


def test_machines_that_others_drained_are_left_alone() -> None:
    site = Site(ACTS)
    site.states["m5"] = ("draining", "new fans")
    del site.jobs[5]
    site.cycles(5)
    assert site.drained() == ["m5"]
    assert site.keeper._probes == {}


def test_fastest_steps_are_known_of_so_many_kinds_of_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of jobs are their users' to choose: a daemon of months has seen any number of them."""
    monkeypatch.setattr(machine_health, "MOST_KINDS", 3)
    keeper = Site(ACTS).keeper
    assert [keeper._fastest_s(kind, 2.0) for kind in ("a", "b", "c")] == [2.0] * 3
    assert keeper._fastest_s("a", 3.0) == 2.0
    keeper._fastest_s("d", 1.0)
    assert list(keeper._least_s) == ["c", "a", "d"]
    assert keeper._fastest_s("a", 1.5) == 1.5


def test_settings() -> None:
    read = read_settings({"act": "on", "probe": "ssh 'a b' check", "most_out": "0.2"})
    assert (read.act, read.probe, read.most_out) == (True, ("ssh", "a b", "check"), 0.2)
    assert read_settings({}) == HealthSettings()
    for table in ({"act": "yes"}, {"most_out": "2"}, {"every_s": "x"}, {"prob": "true"}):
        with pytest.raises(InputError, match="health"):
            read_settings(table)


@pytest.mark.parametrize(("other", "drained"), [("ann", []), ("ben", ["m3"])])
def test_without_a_probe_two_users_have_to_agree(other: str, drained: list[str]) -> None:
    """One user's jobs may print what they like, under as many names as they like."""
    site = Site(ACTS._replace(probe=()))
    for job in list(site.jobs):
        job.spec = JobSpec(8, user="ann", name="train")
        second = site.job(int(job.index))
        second.job_id, second.spec = f"k{int(job.index)}", JobSpec(8, user=other, name="tune")
        site.jobs.append(second)
    site.cycles(10)
    site.factor[3] = 1.4
    site.cycles(5)
    assert [suspect.name for suspect in site.keeper.suspects] == ["m3"]
    assert site.drained() == drained
