"""Hypothesis strategies: random clusters, traces, failures and costs, small enough to shrink well."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from dally.cluster.capacity import Cluster
from dally.cluster.spec import connect_topology, quiet
from dally.cluster.topology import UNSTATED, Capacity, Machine, Topology, default_tiers
from dally.engine.failures import ListedFailures
from dally.engine.signing import constrain
from dally.engine.simulate import Simulation
from dally.job_spec import JobSpec
from dally.model import Costs, Job
from dally.perf.base import SpeedModel
from dally.perf.network_model import NetworkModel
from dally.perf.profiles import Steps
from dally.policies.base import Policy
from dally.testing.invariants import InvariantError
from dally.traces.mixes import assign_models

MOST_CYCLES = 200_000


@dataclass(frozen=True)
class Case:
    """The inputs of one small run."""

    machines: list[tuple[tuple[str, ...], int]]  # (domains above, GPUs)
    jobs: list[tuple[float, int, float]]  # (submit_s, gpus, duration_s), by submit_s
    outages: list[tuple[int, float, float]] = field(default_factory=list)
    costs: Costs = field(default_factory=Costs)
    until_s: float = float("inf")
    network: str = ""  # a preset; models then come from the mix `benchmark`
    shares: list[tuple[float, float]] = field(default_factory=list)  # (moment, of the links' bandwidth), by moment
    capacities: list[Capacity] = field(default_factory=list)  # of the machines; none: not stated
    constraints: dict[int, dict[str, Any]] = field(default_factory=dict)  # what some jobs state besides, by place

    def simulation(self, policy: Policy) -> Simulation:
        """The run, not started yet."""
        depth = len(self.machines[0][0]) + 2
        capacities = self.capacities or [UNSTATED] * len(self.machines)
        machines = [
            Machine(path, f"m{place}", gpus, "", capacities[place])
            for place, (path, gpus) in enumerate(self.machines)
        ]
        topology = Topology(default_tiers(depth), machines)
        network = connect_topology(topology, self.network, {}, "")
        jobs = [
            Job(index, f"j{index}", submit_s, gpus, duration_s, spec=self._spec(index, gpus))
            for index, (submit_s, gpus, duration_s) in enumerate(self.jobs)
        ]
        speed = SpeedModel()
        quiet_network = quiet(topology, self.network, {}) if network is not None else None
        if network is not None and quiet_network is not None:
            assign_models(jobs, "benchmark", seed=1)
            speed = NetworkModel(network, quiet_network, Steps(), policy.link_sharing)
        cluster = Cluster(topology, network)
        failures = ListedFailures(self.outages)
        simulation = Simulation(jobs, cluster, policy, speed, self.costs, failures, shares=self.shares)
        if self.constraints:
            constrain(simulation.state)  # also before the jobs that have them: it is a property of the cluster
        return simulation

    def _spec(self, place: int, gpus: int) -> JobSpec:
        return JobSpec(gpus, **self.constraints.get(place, {}))

    def run(self, policy: Policy) -> Simulation:
        """The run, done."""

        def stop_endless_runs(simulation: Simulation) -> None:
            if simulation.cycles > MOST_CYCLES:
                raise InvariantError("end", f"the run goes on after {MOST_CYCLES} scheduling cycles")

        simulation = self.simulation(policy)
        simulation.run(self.until_s, stop_endless_runs)
        return simulation

    def before(self, time_s: float) -> Case:
        """The same inputs, less the jobs submitted from `time_s` on."""
        return replace(self, jobs=[job for job in self.jobs if job[0] < time_s])  # by time: places stay


def times(longest_s: int) -> st.SearchStrategy[float]:
    """Moments and durations: whole seconds that collide often, odd fractions, and long ones."""
    fractions = st.floats(0, longest_s / 20, allow_subnormal=False)
    return st.integers(0, 60).map(float) | fractions | st.integers(0, longest_s).map(float)


def capacities(gpus: int) -> st.SearchStrategy[Capacity]:
    """What a machine with so many GPUs has besides: CPUs and memory that may be scarce, features, a licence key."""
    features = st.frozensets(st.sampled_from(["ib", "big"]))
    return st.builds(
        Capacity,
        st.sampled_from([None, float(gpus), 2.0 * gpus, 2.0 * gpus + 1.0]),
        st.sampled_from([None, 10.0 * gpus]),
        st.sampled_from([None, {}, {"nic": 2.0}]),
        features,
    )


def constraints() -> st.SearchStrategy[dict[str, Any]]:
    """What a job may state beside its GPUs, in some of the fields."""
    return st.fixed_dictionaries(
        {},
        optional={
            "cpus_per_gpu": st.sampled_from([0.5, 1.0, 2.0, 4.0]),
            "cpus_per_node": st.sampled_from([1.0, 2.0]),
            "memory_mb_per_gpu": st.sampled_from([1.0, 10.0, 20.0]),
            "resources_per_node": st.sampled_from(["nic=1", "nic=2"]),
            "gpus_per_node": st.sampled_from([1, 2, 4]),
            "nodes_min": st.integers(1, 3),
            "nodes_max": st.integers(1, 4),
            "exclusive": st.booleans(),
            "features": st.sampled_from(["ib", "ib|big", "ib&big"]),
            "exclude": st.sampled_from(["m0", "m[0-1]"]),
            "include": st.sampled_from(["m0"]),
        },
    )


@st.composite
def cases(draw: st.DrawFn, longest_s: int = 20_000, constraints_too: bool = True) -> Case:
    """Uneven trees of 2 to 4 tiers, up to 16 jobs, maybe failures, any costs, maybe an early end.

    Jobs may need more than GPUs, unless not `constraints_too`.
    """
    moments = times(longest_s)
    above = draw(st.integers(0, 2))
    names = st.tuples(*(st.sampled_from(["a", "b", "c"]) for _ in range(above)))
    machines = draw(st.lists(st.tuples(names, st.sampled_from([1, 2, 4, 8])), min_size=1, max_size=6))
    total = sum(gpus for _, gpus in machines)
    sizes = st.sampled_from([1, 2, 4, 8, 16]).filter(lambda gpus: gpus <= total) | st.integers(1, total)
    jobs = draw(st.lists(st.tuples(moments, sizes, moments), min_size=1, max_size=16))
    outages = draw(
        st.lists(st.tuples(st.integers(0, len(machines) - 1), moments, moments.map(lambda s: s + 1)), max_size=3)
    )
    jobs.sort(key=lambda job: job[0])
    constrained = constraints_too and draw(st.booleans())
    return Case(
        machines=machines,
        jobs=jobs,
        capacities=[draw(capacities(gpus)) for _, gpus in machines] if constrained else [],
        constraints=draw(st.dictionaries(st.integers(0, len(jobs) - 1), constraints())) if constrained else {},
        outages=[(machine, fail_s, fail_s + down_s) for machine, fail_s, down_s in outages],
        costs=Costs(
            draw(st.sampled_from([0.0, 5.0])),
            draw(st.sampled_from([0.0, 1.0])),
            draw(st.sampled_from([0.0, 7.0, 600.0])),
        ),
        until_s=draw(st.just(float("inf")) | moments),
        network=draw(st.sampled_from(["", "", "normal", "congested"])),
    )


@st.composite
def crowds(draw: st.DrawFn) -> Case:
    """Up to 40 gangs, also as large as the cluster, that come within a minute and cannot all run at once.

    Many ranks are equal here, or would be in exact numbers: durations recur, and a restart takes long.
    """
    racks = draw(st.sampled_from(["abc", "aabb", "aaabbbccc"]))
    gpus = draw(st.sampled_from([3, 4]))
    total = gpus * len(racks)
    sizes = st.sampled_from([1, 2, 4, 8, 16, 27]).filter(lambda size: size <= total) | st.integers(1, total)
    lengths = st.sampled_from([0.0, 0.5, 2.5, 5.0, 30.5, 60.0, 300.0, 1800.0, 7200.0, 43200.0]) | st.floats(0, 5000)
    jobs = draw(st.lists(st.tuples(st.sampled_from([0.0, 1.0, 60.0]), sizes, lengths), min_size=12, max_size=40))
    return Case(
        machines=[((rack,), gpus) for rack in racks],
        jobs=sorted(jobs, key=lambda job: job[0]),
        costs=draw(st.sampled_from([Costs(0.0, 1.0), Costs(62.0, 0.0), Costs(500.0, 3.0)])),
    )
