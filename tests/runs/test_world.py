"""One configuration for simulations, the daemon and what-ifs; values over a file's merge alike everywhere."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from dally.cluster.spec import read_topology
from dally.engine.cycle import cycle
from dally.engine.executor import Executor
from dally.job_spec import JobSpec
from dally.live.config import Config, Setup
from dally.model import RUNNING, SUBMIT, Event, Job, job_of_spec, make_allocation
from dally.runs.scenario import Scenario
from dally.runs.world import World, WorldConfig, merge, setting_values


def test_settings_merge_key_by_key() -> None:
    base = Scenario("", "", "fifo", {"lease_s": "1"}, network_settings={"nic_gbps": "4"})
    found = merge(base, {"trace": "t", "set.tuner": "off", "network.nic_gbps": "5", "network.background": "0"})
    assert (found.trace, found.settings) == ("t", {"lease_s": "1", "tuner": "off"})
    assert found.network_settings == {"nic_gbps": "5", "background": "0"}
    assert base.settings == {"lease_s": "1"}


@pytest.mark.parametrize(
    ("policy", "settings"),
    [("las", {"lease_s": "1", "x": "2"}), ("fifo", {"x": "2"}), (None, {"lease_s": "1", "x": "2"})],
)
def test_another_policy_leaves_settings_behind(policy: str | None, settings: dict[str, str]) -> None:
    values = {"set.x": "2"} if policy is None else {"policy": policy, "set.x": "2"}
    assert merge(Setup("las", {"lease_s": "1"}), values).settings == settings


def test_setting_values_are_what_merge_takes() -> None:
    found = merge(WorldConfig(), setting_values({"lease_s": "1"}, {"nic_gbps": "5"}))
    assert (found.settings, found.network_settings) == ({"lease_s": "1"}, {"nic_gbps": "5"})


def test_what_a_run_and_a_daemon_state_alike_is_stated_once() -> None:
    """A daemon's other fields are none of a run's, and the other way round, but for where the machines are.

    `health` is what is slow in a run, and what a daemon does about slow machines.
    """
    shared = {item.name for item in fields(WorldConfig)}
    run = {item.name for item in fields(Scenario)} - shared
    daemon = ({item.name for item in fields(Setup)} | {item.name for item in fields(Config)}) - shared
    assert run & daemon == {"cluster", "health"}


def test_a_daemon_and_a_run_have_the_same_world() -> None:
    topology = read_topology("2x2x8")
    config = WorldConfig("las", {"lease_s": "60"}, network="slow", congestion="0.5", restart_s=7.0)
    daemon = World(Setup(**config.world_values()), topology)
    run = World(Scenario("t.csv", "2x2x8", **config.world_values()), topology)
    assert daemon.costs == run.costs
    job = Job(0, "a", 0.0, 16, 600.0, "vgg16")
    place = make_allocation(1, [(0, 8), (1, 8)])
    assert daemon.speed.slowdown(job, place) == run.speed.slowdown(job, place) > (1.0, 0.0)
    assert type(daemon.policy()) is type(run.policy())
    assert daemon.policy().lease_s == run.policy().lease_s == 60.0


def test_a_daemon_makes_queues_of_accounts_as_jobs_come(tmp_path: Path) -> None:
    """No job is there when the daemon begins: a limit of each account holds all the same."""
    queues = tmp_path / "queues.toml"
    queues.write_text('[accounts]\nmake = "account"\nlimit = 8\n')
    state = Setup("fifo-backfill", queues=str(queues)).world(read_topology("1x4x8")).state()
    jobs = [
        job_of_spec(number, f"j{number}", 0.0, JobSpec(gpus=8, account="ab"[number % 2]), 600.0)
        for number in range(4)
    ]
    cycle(state, [Event(SUBMIT, job) for job in jobs], 0.0, Executor())
    assert [job.status == RUNNING for job in jobs] == [True, True, False, False]
