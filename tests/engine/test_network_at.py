"""Links that lose bandwidth on the way and get it back: by hand, on random runs, through snapshots."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dally import Cluster, Profile
from dally.cluster.links import Network
from dally.cluster.spec import read_shares
from dally.engine.failures import Failures
from dally.engine.simulate import Simulation
from dally.engine.snapshot import resume, save
from dally.errors import InputError
from dally.metrics.simulated import Simulated
from dally.metrics.summary import summarize
from dally.model import NETWORK, Costs, Job, make_allocation
from dally.perf.network_model import NetworkModel
from dally.policies.registry import build
from dally.runs.execute import execute
from dally.runs.going_on import Keep, saved_scenario
from dally.runs.scenario import Scenario
from dally.testing import check_record, record_of
from dally.testing.strategies import Case, cases
from tests.engine.test_snapshot import CASE, ended, stopped, tables
from tests.examples import many

SHARES = [(400.0, 0.5), (3000.0, 0.25), (6000.0, 1.0)]
PROFILE = Profile(compute_s=1.0, nbytes=1e9, overlap=0.0)


def model(cluster: Cluster) -> NetworkModel:
    network = cluster.network
    assert isinstance(network, Network)
    return NetworkModel(network, network, lambda model, gpus: PROFILE)


def ideal() -> Cluster:
    """Four machines of 2 GPUs with 1 GB/s each and no latency."""
    return Cluster.grid(1, 4, 2, 1e6, 1.0, 4.0, 0.0, 0.0, 0.0, ideal=True)


def run(shares: list[tuple[float, float]]) -> Simulation:
    cluster = ideal()
    jobs = [Job(0, "a", 0.0, 4, 100.0, "m"), Job(1, "b", 0.0, 2, 100.0, "m")]
    simulation = Simulation(
        jobs, cluster, build("fifo"), model(cluster), Costs(0.0, 0.0, 0.0), Failures(), shares=shares
    )
    simulation.run()
    return simulation


def test_half_the_network_for_30_seconds_by_hand() -> None:
    """An iteration is 1 s of compute and 1 s of exchange; with half the bandwidth 3 s instead of 2.

    50 s of work are done at 50 s, 30 · 2/3 more at 80 s, and the other 30 s of work end at 110 s. Exposed:
    a half of 80 s and two thirds of 30 s. The other job sits in one machine and feels nothing.
    """
    simulation = run([(50.0, 0.5), (80.0, 1.0)])
    spread, inside = simulation.jobs
    assert spread.finish_s == pytest.approx(110.0, rel=1e-4)
    assert spread.comm_s == pytest.approx(60.0, rel=1e-4)
    assert inside.finish_s == pytest.approx(100.0, rel=1e-4)
    summary = summarize(Simulated(simulation))
    assert summary["comm_floor_s"] == pytest.approx(50.0, rel=1e-3), "as if nothing had happened"
    log = simulation.state.log
    assert [log.times[row] for row in range(len(log)) if log.kinds[row] == NETWORK] == [50.0, 80.0]


def test_changes_before_the_first_job_hold_from_then_on() -> None:
    """1.5 times as long from its submission on, whether it changed then or before."""
    cluster = ideal()
    job = Job(0, "a", 10.0, 4, 100.0, "m")
    shares = [(0.0, 0.25), (5.0, 0.5)]
    simulation = Simulation([job], cluster, build("fifo"), model(cluster), Costs(), Failures(), shares=shares)
    simulation.run()
    assert job.finish_s == pytest.approx(160.0, rel=1e-4)


def test_what_policies_ask_is_of_the_network_as_it_is() -> None:
    speed = model(ideal())
    job = Job(0, "a", 0.0, 4, 100.0, "m")
    there = make_allocation(1, [(0, 1), (1, 1), (2, 1), (3, 1)])
    before = speed.best(job), speed.slowdown(job, there)
    speed.rescaled(0.5)
    assert speed.best(job) == pytest.approx(1.5, rel=1e-4)
    assert speed.slowdown(job, there)[0] > before[1][0]
    speed.rescaled(1.0)
    assert (speed.best(job), speed.slowdown(job, there)) == before


def test_nobody_is_stuck_before_the_last_change() -> None:
    simulation = run([(1e6, 0.5)])
    assert simulation.now == pytest.approx(100.0, rel=1e-4), "changes after the last job do not prolong a run"
    assert not simulation.stuck


@pytest.mark.parametrize("name", ["dally-paper", "ada-srsf", "gavel", "las"])
def test_going_on_from_a_snapshot_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    case = replace(CASE, shares=SHARES)
    whole = tables(case.run(build(name)))
    assert whole != tables(CASE.run(build(name)))
    for cycles in (0, 20, 60):
        save(stopped(case, build(name), cycles), tmp_path / "run.snapshot")
        assert tables(ended(resume(tmp_path / "run.snapshot"), case)) == whole, cycles


def test_another_policy_finds_the_network_as_it_is() -> None:
    simulation = run([(0.0, 0.5)])
    found = simulation.state.speed.anew("fair")
    assert found.best(simulation.jobs[0]) == pytest.approx(1.5, rel=1e-4)


@settings(max_examples=many(25))
@given(cases(), st.lists(st.tuples(st.floats(0, 20_000), st.floats(0.01, 1.0)), max_size=4))
def test_random_changes_keep_the_books_right(case: Case, shares: list[tuple[float, float]]) -> None:
    case = replace(case, network="slow", shares=sorted(shares))
    check_record(record_of(case.run(build("dally-paper"))))


@pytest.mark.parametrize("text", ["5", "x=0.5", "5=0", "5=1.5", "-1=0.5", "inf=0.5", "5=0.5,", "5=nan"])
def test_shares_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"--network-at .*: must be SECONDS=SHARE"):
        read_shares(text)


def test_the_option_of_a_scenario(tmp_path: Path) -> None:
    """It goes through the scenario's text and through a snapshot; without links there is nothing to change."""
    rows = "".join(f"j{i},{i * 40},{9 + i % 8},3000\n" for i in range(20))
    (tmp_path / "t.csv").write_text("job_id,submit_s,gpus,duration_s\n" + rows)
    scenario = Scenario(str(tmp_path / "t.csv"), "2x2x8", "las", network="slow", network_at="3600=1,600=0.5")
    assert read_shares(scenario.network_at) == [(600.0, 0.5), (3600.0, 1.0)]
    halved = execute(scenario, stop=Keep(tmp_path / "run.snapshot", 1500.0)).summary
    assert halved["jct_mean_s"] > execute(replace(scenario, network_at="")).summary["jct_mean_s"]
    assert execute(saved_scenario(tmp_path / "run.snapshot")).summary["jct_mean_s"] == halved["jct_mean_s"]
    with pytest.raises(InputError, match="states no links; give --network too"):
        execute(replace(scenario, network=""))


def test_dally_moves_a_gang_as_soon_as_the_network_is_slow() -> None:
    """Spread over two machines its exchange is hidden, so it stays when one has room; not when links get slow."""
    cluster = Cluster.grid(1, 2, 4, 1e6, 1.0, 4.0, 0.0, 0.0, 0.0, ideal=True)
    network = cluster.network
    assert isinstance(network, Network)
    hidden = Profile(compute_s=1.0, nbytes=2e8, overlap=1.0)
    jobs = [Job(0, "a", 0.0, 3, 60.0, "m"), Job(1, "b", 0.0, 3, 1e5, "m"), Job(2, "c", 1.0, 2, 1e4, "m")]
    speed = NetworkModel(network, network, lambda model, gpus: hidden)
    simulation = Simulation(
        jobs, cluster, build("dally"), speed, Costs(0.0, 1.0, 0.0), Failures(), shares=[(500.0, 0.01)]
    )
    simulation.go_on(499.0)
    before = jobs[2].allocation
    simulation.go_on(501.0)
    after = jobs[2].allocation
    assert before is not None
    assert after is not None
    assert (len(before.machines), len(after.machines), int(jobs[2].migrations)) == (2, 1, 1)
