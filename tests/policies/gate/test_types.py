"""What holds for every cluster of several types of GPU, every policy and all jobs."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dally.cluster.capacity import Cluster
from dally.cluster.topology import Machine, Topology
from dally.engine.failures import ListedFailures
from dally.engine.simulate import Simulation
from dally.model import FINISHED, Costs, Job
from dally.perf.base import SpeedModel
from dally.perf.gpu_types import MIX, OR, TypedSpeed, TypeSpeeds
from dally.policies.registry import POLICIES, Built
from dally.runs.execute import execute
from dally.runs.scenario import Scenario
from dally.runs.team_setup import policy_for
from tests.examples import many

TYPES = ("H100", "A100", "V100")
SPEEDS = {"H100": 1.7, "A100": 1.0, "V100": 0.4}
NAMES = sorted(POLICIES)


@dataclass(frozen=True)
class Typed:
    """A small cluster of several types, and its jobs."""

    machines: tuple[tuple[str, str, int], ...]  # rack, type, GPUs
    jobs: tuple[tuple[float, int, float, str], ...]  # submit_s, gpus, duration_s, types it accepts
    outages: tuple[tuple[int, float, float], ...] = ()
    costs: Costs = Costs()  # noqa: RUF009 (never changed)

    def run(self, policy: str, given: dict[str, str] | None = None) -> Simulation:
        simulation = self.simulation(policy, given)
        simulation.run()
        return simulation

    def simulation(self, policy: str, given: dict[str, str] | None = None) -> Simulation:
        rows = [Machine((rack,), f"m{i}", gpus, kind) for i, (rack, kind, gpus) in enumerate(self.machines)]
        topology = Topology(["machine", "rack", "network"], rows)
        jobs = [Job(i, f"j{i}", row[0], row[1], row[2]) for i, row in enumerate(self.jobs)]
        for job, row in zip(jobs, self.jobs, strict=True):
            job.spec = replace(job.spec, gpu_type=row[3])
        speed = TypedSpeed(SpeedModel(), topology.gpu_types, TypeSpeeds(TYPES, SPEEDS))
        shared = policy_for(Built(policy, given or {}), "", jobs, topology, None)
        failures = ListedFailures(list(self.outages))
        return Simulation(jobs, Cluster(topology), shared, speed, self.costs, failures)


@st.composite
def cases(draw: st.DrawFn) -> Typed:
    """Two or three types, racks of one or several; jobs that fit a type they accept, or a mix of two."""
    kinds = draw(st.sampled_from([TYPES, TYPES[:2], TYPES[1:]]))
    row = st.tuples(st.sampled_from("ab"), st.sampled_from(kinds), st.sampled_from([1, 2, 4, 8]))
    first = [(draw(st.sampled_from("ab")), kind, 4) for kind in kinds]
    machines = (*first, *draw(st.lists(row, max_size=3)))
    sizes = {kind: sum(gpus for _, name, gpus in machines if name == kind) for kind in kinds}
    mix = MIX.join(kinds[:2])
    accepts = ["", "", "", *kinds, OR.join(kinds[:2]), mix, OR.join([kinds[-1], mix])]
    jobs = []
    for _ in range(draw(st.integers(1, 12))):
        names = draw(st.sampled_from(accepts))
        largest = max(sum(sizes[part] for part in name.split(MIX)) for name in (names or OR.join(kinds)).split(OR))
        gpus = draw(st.sampled_from([size for size in (1, 1, 2, 4, 8) if size <= largest]))
        length_s = draw(st.sampled_from([10.0, 300.0, 2000.0, 9000.0]))
        jobs.append((float(draw(st.integers(0, 3000))), gpus, length_s, names))
    outages = draw(st.sampled_from([(), (), ((0, 500.0, 1500.0),)]))
    restart_s = draw(st.sampled_from([0.0, 30.0]))
    return Typed(machines, tuple(sorted(jobs)), outages, Costs(restart_s, 0.0, 0.0))


def places(simulation: Simulation) -> list[tuple[Job, set[str]]]:
    """Every placement of the run: whose, and on GPUs of which types."""
    log, types = simulation.state.log, simulation.state.cluster.topology.gpu_types
    found, first = [], 0
    for row in range(len(log)):
        last = int(log.part_ends[row])
        kinds = {types[int(log.part_machines[part])] for part in range(first, last)}
        if kinds:
            found.append((simulation.jobs[int(log.jobs[row])], kinds))
        first = last
    return found


@pytest.mark.parametrize("policy", NAMES)
@given(case=cases())
@settings(max_examples=many(8), deadline=None)
def test_gangs_run_on_types_they_accept_and_mix_none_unless_they_may(policy: str, case: Typed) -> None:
    simulation = case.run(policy)
    for job, kinds in places(simulation):
        if not job.gpu_type:
            assert len(kinds) == 1, job
        else:
            assert any(kinds <= set(name.split(MIX)) for name in job.gpu_type.split(OR)), job
    assert all(job.status == FINISHED for job in simulation.jobs)
    again = case.run(policy)
    assert [job.finish_s for job in again.jobs] == [job.finish_s for job in simulation.jobs]


def test_gavel_shares_time_on_the_fast_type_as_its_program_says() -> None:
    """By hand: one accepts both types (4/17 as fast on the second), the other the first only, each has half of it.

    So the first works at 1/2 + 1/2 · 4/17; when it is done the other has the type to itself. Told that both are
    equally fast, it leaves the first job on the slow one.
    """
    machines = (("a", "H100", 1), ("a", "V100", 1))
    jobs = ((0.0, 1, 40_000.0, ""), (0.0, 1, 40_000.0, "H100"))
    case = Typed(machines, jobs, costs=Costs(0.0, 0.0, 0.0))
    first_s = 40_000.0 / (0.5 + 0.5 * 4 / 17)
    expected = [first_s, first_s + 40_000.0 - first_s / 2]
    assert [job.finish_s for job in case.run("gavel").jobs] == pytest.approx(expected, abs=720.0)
    blind = case.run("gavel", {"aware": "false"}).jobs
    assert blind[1].finish_s < 41_000.0
    assert blind[0].finish_s > 100_000.0


def test_a_gang_starts_on_slow_gpus_and_moves_up_when_faster_ones_are_free() -> None:
    machines = (("a", "H100", 4), ("a", "V100", 4))
    jobs = ((0.0, 4, 5000.0, "H100"), (10.0, 4, 9000.0, ""))
    simulation = Typed(machines, jobs, costs=Costs(60.0, 0.0, 0.0)).run("dally")
    assert [(job.job_id, kinds) for job, kinds in places(simulation)] == [
        ("j0", {"H100"}), ("j1", {"V100"}), ("j1", {"H100"}),
    ]  # fmt: skip
    done_s = (5000.0 - 10.0) * 4 / 17
    assert simulation.jobs[1].finish_s == pytest.approx(5000.0 + 60.0 + 9000.0 - done_s)
    short = ((0.0, 4, 5000.0, "H100"), (10.0, 4, 1300.0, ""))  # it has 126 s left, and its peers an hour
    dear = Typed(machines, short, costs=Costs(10_000.0, 0.0, 0.0)).run("dally")
    assert dear.jobs[1].migrations == 0


@pytest.mark.parametrize("policy", ["gavel", "dally", "las"])
def test_a_run_can_be_saved_in_the_middle(policy: str) -> None:
    machines = tuple((rack, kind, 4) for rack in "ab" for kind in TYPES)
    accepts = ["", "", "H100", "A100|V100", "H100+A100"]
    jobs = tuple((60.0 * i, 1 << (i % 4), 500.0 + 170.0 * i, accepts[i % 5]) for i in range(30))
    case = Typed(machines, jobs)
    whole = case.run(policy)
    half = case.simulation(policy)
    half.go_on(1500.0)
    again = pickle.loads(pickle.dumps(half))
    again.run()
    assert [job.finish_s for job in again.jobs] == [job.finish_s for job in whole.jobs]


@pytest.mark.parametrize("policy", ["gavel", "fifo"])
def test_a_run_says_how_each_type_was_used(policy: str, tmp_path: Path) -> None:
    tiers = "".join(f'[[tiers]]\nname = "{name}"\n' for name in ("machine", "network"))
    rows = "".join(f'[[machines]]\nnames = "{kind}"\ngpus = 4\ngpu_type = "{kind}"\n' for kind in TYPES[:2])
    (tmp_path / "cluster.toml").write_text(tiers + rows)
    (tmp_path / "jobs.csv").write_text("job_id,submit_s,gpus,duration_s,gpu_type\na,0,4,7200,A100\n")
    scenario = Scenario(str(tmp_path / "jobs.csv"), str(tmp_path / "cluster.toml"), policy)
    used = execute(scenario).summary["gpu_types"]
    assert {kind: use["gpu_h"] for kind, use in used.items()} == {"H100": 0.0, "A100": pytest.approx(8.0)}


@pytest.mark.parametrize("policy", ["fifo", "dally"])
def test_a_gang_in_groups_waits_for_a_type_whose_machines_hold_them(policy: str) -> None:
    machines = (("a", "A100", 4), ("a", "A100", 4), ("b", "V100", 8), ("b", "V100", 8))
    simulation = Typed(machines, ((0.0, 8, 100.0, ""),)).simulation(policy)
    simulation.jobs[0].group = 8
    simulation.run()
    assert simulation.jobs[0].start_s == 0.0


def test_what_happens_in_another_pool_puts_off_no_review() -> None:
    """`dally` looks again 300 s after its latest pass; an end on GPUs of another type is no pass of this pool's."""
    first, last = (200.0, 1, 1000.0, "A100"), (400.0, 4, 1000.0, "A100")
    given = {"finish_gain": "inf", "probe_share": "0"}  # no gang is served for its width or youth
    alone = Typed((("x", "A100", 4),), (first, last)).run("dally", given).jobs
    two_pools = Typed((("x", "A100", 4), ("y", "V100", 4)), (first, (200.0, 2, 300.0, "V100"), last))
    beside = two_pools.run("dally", given).jobs
    assert beside[1].finish_s == 500.0
    assert beside[2].start_s == alone[1].start_s == 700.0
    assert [beside[0].finish_s, beside[2].finish_s] == [alone[0].finish_s, alone[1].finish_s]
