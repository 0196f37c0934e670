"""Machines and links that are slow for a time: what it does to jobs, exactly, and that nothing else changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from librt.vecs import vec
from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.cluster.links import connect, narrow
from dally.cluster.presets import find_preset
from dally.cluster.spec import read_topology
from dally.engine.degradations import Degradations, ListedDegradations, RandomDegradations
from dally.engine.failures import Failures, RandomFailures
from dally.engine.simulate import Simulation
from dally.engine.uneven_failures import LemonFailures, RackFailures, drawn_lemons
from dally.errors import InputError
from dally.metrics.simulated import Simulated
from dally.model import INFINITY, Costs, Job, Profile, make_allocation
from dally.perf.base import Speed, SpeedModel
from dally.perf.gang import gang_on
from dally.perf.hidden_faults import HiddenFaults
from dally.perf.iteration import demand_of
from dally.perf.network_model import NetworkModel
from dally.perf.slow_machines import SlowMachines
from dally.policies.registry import policy_of
from dally.runs.execute import execute
from dally.runs.going_on import Keep
from dally.runs.health_option import read_health
from dally.runs.scenario import Scenario
from dally.traces.slow_episodes import read_degradations

PROFILE = Profile(compute_s=0.3, nbytes=2e9, overlap=0.5)


def without_network(jobs: list[Job], degradations: Degradations, cluster: str) -> Simulation:
    """The jobs to their end under fifo, on machines that nothing is known of but when they are slow."""
    speed = HiddenFaults(SlowMachines(), SlowMachines())
    simulation = Simulation(
        jobs, Cluster(read_topology(cluster)), policy_of("fifo"), speed, Costs(0.0, 0.0), Failures(),
        degradations=degradations,
    )  # fmt: skip
    simulation.run()
    return simulation


def test_job_takes_as_much_longer_as_its_machine_is_slow() -> None:
    """Slow from 200 to 500 by 1.5: 300 s do the work of 200."""
    slow = ListedDegradations(1, [(0, 1.5, 200.0, 500.0)])
    simulation = without_network([Job(0, "j", 0.0, 1, 1000.0)], slow, "1x1x1")
    assert simulation.jobs[0].finish_s == pytest.approx(1100.0, abs=1e-9)


def test_gang_is_as_slow_as_its_slowest_member() -> None:
    slow = ListedDegradations(4, [(1, 1.2, 0.0, INFINITY), (2, 2.0, 0.0, INFINITY)])
    simulation = without_network([Job(0, "j", 0.0, 32, 1000.0)], slow, "1x4x8")
    assert simulation.jobs[0].finish_s == pytest.approx(2000.0)


def test_worst_of_episodes_that_overlap_counts() -> None:
    slow = ListedDegradations(1, [(0, 1.5, 0.0, 300.0), (0, 3.0, 100.0, 200.0)])
    changes = [slow.change(0, count, 0.0) for count in range(4)]
    assert [(change.at_s, change.factor) for change in changes if change] == [
        (0.0, 1.5), (100.0, 3.0), (200.0, 1.5), (300.0, 1.0),
    ]  # fmt: skip
    assert slow.change(0, 4, 300.0) is None


def network_model() -> NetworkModel:
    """Two racks of four machines on the network `slow`."""
    network = connect(read_topology("2x4x8"), find_preset("slow"))
    return NetworkModel(network, network, lambda model, gpus: PROFILE)


def on(model: SpeedModel, index: int, parts: list[tuple[int, int]]) -> Job:
    """A job placed there; its latest speed is on it."""
    job = Job(index, f"j{index}", 0.0, sum(gpus for _, gpus in parts), 1000.0, "any")
    job.allocation = make_allocation(1, parts)
    note(model.placed(job))
    return job


def note(speeds: list[Speed]) -> None:
    for speed in speeds:
        speed.job.rate = speed.rate


def closest_s(model: NetworkModel, job: Job) -> float:
    return model.kind(job).closest_s


def test_slow_machine_stretches_the_compute_of_a_gang_exactly() -> None:
    model = network_model()
    job = on(model, 0, [(0, 8), (4, 8)])
    before = job.rate
    note(model.slowed(4, 1.3, [job]))
    slow = Profile(forward_s=0.13, backward_s=0.26, nbytes=2e9, overlap=0.5)
    demand = demand_of(model._network, gang_on(model._network, vec_of(0, 4), vec_of(8, 8)), slow)
    assert job.rate == pytest.approx(closest_s(model, job) / demand.iteration_s(demand.alone_s), rel=1e-9)
    note(model.slowed(4, 1.0, [job]))
    assert job.rate == before


def vec_of(*values: int) -> vec[i64]:
    """These as machines or GPUs of a gang."""
    return vec[i64](values)


def test_half_a_link_is_as_a_network_that_states_half_of_it() -> None:
    model = network_model()
    one, other = on(model, 0, [(0, 8), (4, 8)]), on(model, 1, [(1, 8), (2, 8)])
    before = (one.rate, other.rate)
    note(model.narrowed(4, 0.5))  # the NICs of machine 4
    halved = NetworkModel(narrow(model._whole, {4: 0.5}), model._quiet, lambda model, gpus: PROFILE)
    alone = on(halved, 0, [(0, 8), (4, 8)])
    assert one.rate == pytest.approx(alone.rate, rel=1e-9)
    assert one.rate < 0.9 * before[0]
    assert other.rate == before[1]
    note(model.narrowed(4, 1.0))
    assert (one.rate, other.rate) == before


def test_neighbour_of_a_gang_whose_machine_is_slow_has_more_of_the_link() -> None:
    """The slow gang communicates for a smaller share of its time."""
    model = network_model()
    one, other = on(model, 0, [(0, 8), (4, 8)]), on(model, 1, [(1, 8), (5, 8)])
    before = other.rate
    note(model.slowed(0, 3.0, [one]))
    assert other.rate > before


def test_single_machine_and_single_gpu_jobs() -> None:
    model = network_model()
    one, whole = on(model, 0, [(3, 1)]), on(model, 1, [(2, 8)])
    before = whole.rate
    note(model.slowed(3, 2.0, [one]))
    note(model.slowed(2, 2.0, [whole]))
    assert one.rate == 0.5
    assert 0.5 * before <= whole.rate < before
    later = on(model, 2, [(3, 1)])
    assert later.rate == 0.5


def test_policies_ask_what_is_to_be_expected_and_not_what_is() -> None:
    model = HiddenFaults(network_model(), network_model())
    job = on(model, 0, [(0, 8), (4, 8)])
    place = make_allocation(1, [(0, 8), (4, 8)])
    before = model.slowdown(job, place)
    note(model.slowed(4, 2.0, [job]))
    assert model.slowdown(job, place) == before
    assert job.rate < model.expected_rate(job)[0]
    model.believed[4] = 2.0
    assert model.slowdown(job, place)[0] == pytest.approx(2.0 * before[0])


def test_stated_share_of_machines_is_slow_by_the_stated_factor() -> None:
    drawn = RandomDegradations(400, 0, 0.1, 1.4, 0.0, 1.0, 4320.0, 7)
    slow_s, factors, until_s = 0.0, [], 60 * 86400.0
    for machine in range(400):
        now, count, factor = 0.0, 0, 1.0
        while now < until_s:
            change = drawn.change(machine, count, now)
            assert change is not None
            if factor > 1.0:
                slow_s += min(change.at_s, until_s) - now
                factors.append(factor)
            now, count, factor = change.at_s, count + 1, change.factor
    assert slow_s / (400 * until_s) == pytest.approx(0.1, rel=0.1)
    assert sum(factors) / len(factors) == pytest.approx(1.4, abs=0.01)
    assert min(factors) >= 1.2
    assert max(factors) <= 1.6


def test_lemons_cause_their_share_of_failures() -> None:
    lemons = drawn_lemons(63, 3, 5)
    assert len(lemons) == 3
    failures = LemonFailures(63, lemons, 0.5, 0.01, 3600.0, 5)
    counts = {machine: failures_until(failures, machine, 5000 * 86400.0) for machine in range(63)}
    assert sum(counts.values()) / (63 * 5000) == pytest.approx(0.01, rel=0.1)
    assert sum(counts[machine] for machine in lemons) / sum(counts.values()) == pytest.approx(0.5, abs=0.03)


def failures_until(failures: Failures, machine: int, until_s: float) -> int:
    now, count = 0.0, 0
    while (fail_s := failures.next_fail_s(machine, now)) < until_s:
        count += 1
        now = failures.next_repair_s(machine, fail_s)
    return count


def test_racks_go_down_as_one() -> None:
    racks = [0, 0, 1, 1]
    failures = RackFailures(Failures(), racks, 0.5, 100.0, 3)
    first = [failures.next_fail_s(machine, 0.0) for machine in range(4)]
    assert first[0] == first[1] != first[2] == first[3]
    assert failures.next_repair_s(0, first[0]) == first[0] + 100.0
    mixed = RackFailures(RandomFailures(1.0, 60.0, 3), racks, 0.01, 100.0, 3)
    own = mixed.next_fail_s(0, 0.0)
    assert own == RandomFailures(1.0, 60.0, 3).next_fail_s(0, 0.0)
    assert mixed.next_repair_s(0, own) == own + 60.0


def test_file_of_episodes(tmp_path: Path) -> None:
    path = tmp_path / "slow.csv"
    path.write_text("kind,name,factor,from_s,until_s\nmachine,m1,1.5,10,20\nlink,rack r0,2,30,\n")
    assert read_degradations(path, {"m0": 0, "m1": 1}, {"rack r0": 2}) == [
        (1, 1.5, 10.0, 20.0), (4, 2.0, 30.0, INFINITY),
    ]  # fmt: skip
    for row, problem in (
        ("gpu,m1,1.5,10,20", "kind"), ("machine,m9,1.5,10,20", "no such machine"),
        ("machine,m1,0.5,10,20", "factor"), ("machine,m1,1.5,10,5", "until_s"), ("link,x,2,0,", "no such link"),
    ):  # fmt: skip
        path.write_text(f"kind,name,factor,from_s,until_s\n{row}\n")
        with pytest.raises(InputError, match=rf"slow\.csv:2: .*{problem}"):
            read_degradations(path, {"m0": 0, "m1": 1}, {"rack r0": 2})


@pytest.mark.parametrize(
    "text", ["stragglers=2", "factor", "minutes=0", "stragglers=0.1,stragglers=0.2", "speed=3", "lemons=1.5"]
)
def test_refused_statements(text: str) -> None:
    with pytest.raises(InputError, match="--health"):
        read_health(text if "=" in text else f"{text}=")


def scenario(health: str = "", snapshot: str = "") -> Scenario:
    """The example's, on slow links."""
    trace, cluster = "examples/jobs.csv", "examples/lab.toml"
    return Scenario(trace, cluster, policy="dally", network="slow", health=health, snapshot=snapshot)


def ends(run: Simulated) -> list[float]:
    return [job.finish_s for job in run.outcomes]


def test_where_everything_stays_sound_nothing_changes(tmp_path: Path) -> None:
    path = tmp_path / "none.csv"
    path.write_text("kind,name,factor,from_s,until_s\n")
    assert ends(execute(scenario(health=str(path)))) == ends(execute(scenario()))


def test_slow_run_is_slower_and_goes_on_from_a_snapshot(tmp_path: Path) -> None:
    health = "stragglers=0.2,factor=2,links=0.2,minutes=30"
    whole = execute(scenario(health=health), stop=Keep(tmp_path / "noon.snapshot", 3600.0))
    assert sum(ends(whole)) > sum(ends(execute(scenario())))
    later = execute(scenario(health=health, snapshot=str(tmp_path / "noon.snapshot")))
    assert ends(later) == ends(whole)
