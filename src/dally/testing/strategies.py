"""Hypothesis strategies: random clusters, traces, failures and costs, small enough to shrink well."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from dally.cluster.capacity import Cluster
from dally.cluster.spec import connect_topology, quiet
from dally.cluster.topology import Machine, Topology, default_tiers
from dally.engine.failures import ListedFailures
from dally.engine.simulate import Simulation
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

    def simulation(self, policy: Policy) -> Simulation:
        """The run, not started yet."""
        depth = len(self.machines[0][0]) + 2
        machines = [Machine(path, f"m{place}", gpus) for place, (path, gpus) in enumerate(self.machines)]
        topology = Topology(default_tiers(depth), machines)
        network = connect_topology(topology, self.network, {}, "")
        jobs = [
            Job(index, f"j{index}", submit_s, gpus, duration_s)
            for index, (submit_s, gpus, duration_s) in enumerate(self.jobs)
        ]
        speed = SpeedModel()
        quiet_network = quiet(topology, self.network, {}) if network is not None else None
        if network is not None and quiet_network is not None:
            assign_models(jobs, "benchmark", seed=1)
            speed = NetworkModel(network, quiet_network, Steps(), policy.link_sharing)
        cluster = Cluster(topology, network)
        failures = ListedFailures(self.outages)
        return Simulation(jobs, cluster, policy, speed, self.costs, failures, shares=self.shares)

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
        return replace(self, jobs=[job for job in self.jobs if job[0] < time_s])


def times(longest_s: int) -> st.SearchStrategy[float]:
    """Moments and durations: whole seconds that collide often, odd fractions, and long ones."""
    fractions = st.floats(0, longest_s / 20, allow_subnormal=False)
    return st.integers(0, 60).map(float) | fractions | st.integers(0, longest_s).map(float)


@st.composite
def cases(draw: st.DrawFn, longest_s: int = 20_000) -> Case:
    """Uneven trees of 2 to 4 tiers, up to 16 jobs, maybe failures, any costs, maybe an early end."""
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
    return Case(
        machines=machines,
        jobs=sorted(jobs, key=lambda job: job[0]),
        outages=[(machine, fail_s, fail_s + down_s) for machine, fail_s, down_s in outages],
        costs=Costs(
            draw(st.sampled_from([0.0, 5.0])),
            draw(st.sampled_from([0.0, 1.0])),
            draw(st.sampled_from([0.0, 7.0, 600.0])),
        ),
        until_s=draw(st.just(float("inf")) | moments),
        network=draw(st.sampled_from(["", "", "normal", "congested"])),
    )
