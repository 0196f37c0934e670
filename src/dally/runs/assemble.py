"""From a scenario to a simulation that is ready to go: cluster, network, jobs, speeds, failures, policy."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from dally.cluster.spec import connect_topology, quiet, read_shares, read_topology
from dally.cluster.topology import Topology
from dally.engine.failures import Failures, ListedFailures, RandomFailures
from dally.engine.simulate import Simulation
from dally.errors import InputError
from dally.metrics.record import Inputs
from dally.model import Job
from dally.perf.gang import closest_placement, placement_at
from dally.perf.iteration import demand_of
from dally.perf.network_model import NetworkModel
from dally.runs.going_on import go_on
from dally.runs.recorded_durations import take_out
from dally.runs.run_checks import check_clock, check_end
from dally.runs.scenario import Scenario
from dally.runs.team_setup import possible
from dally.runs.world import Profiles, World, profiles_of
from dally.traces import Trace, read_outages, read_trace
from dally.traces.mixes import assign_models


def assemble(scenario: Scenario) -> tuple[Simulation, Trace]:
    """The run, ready to go, and the trace it runs: what of it could not be used."""
    scenario.check()
    simulation, trace = go_on(scenario) if scenario.snapshot else _from_the_start(scenario)
    check_clock(simulation, scenario)
    check_end(simulation, scenario)
    return simulation, trace


def _from_the_start(scenario: Scenario) -> tuple[Simulation, Trace]:
    topology = read_topology(scenario.cluster)
    world = World(scenario, topology)
    failures = _failures(scenario, topology)
    shares = read_shares(scenario.network_at)
    connected = world.network is not None
    if shares and not connected:
        raise InputError(f"--network-at {scenario.network_at}: the cluster states no links; give --network too")
    trace = read_trace(
        Path(scenario.trace), topology.total_gpus(), scenario.skip_impossible, scenario.trace_format,
        scenario.strict, scenario.zone,
    )  # fmt: skip
    costs = world.costs._replace(jitter=scenario.jitter, seed=scenario.seed)
    trace = possible(
        trace, topology, scenario.skip_impossible, scenario.trace, scenario.queues,
        lambda job: min(world.sample.suspend_s, costs.gang_restart_s(int(job.gpus))),
    )  # fmt: skip
    if connected or trace.stated:
        assign_models(trace.jobs, scenario.mix, scenario.seed)
        _work_out(scenario.trace, trace, world, grouped=connected)
    if scenario.durations == "recorded" and connected and not trace.stated:
        trace.notes.update(take_out(scenario, trace.jobs, topology, world.speed))
    trace.notes.update(world.on_types(trace.jobs))
    policy = world.policy(trace.jobs)
    simulation = Simulation(trace.jobs, world.cluster(), policy, world.speed, costs, failures, shares=shares)
    if scenario.past:
        policy.predictor.teach(_past_jobs(scenario, world, trace.jobs[0].submit_s))
    return simulation, trace


def _past_jobs(scenario: Scenario, world: World, first_s: float) -> list[Job]:
    """Earlier jobs, the last submitted when the run's first is: the clocks of the two files need not agree."""
    past = read_trace(Path(scenario.past), world.topology.total_gpus(), skip_impossible=True, zone=scenario.zone)
    if past.stated or isinstance(world.speed, NetworkModel):  # as with the run's own
        assign_models(past.jobs, scenario.mix, scenario.seed)
    if past.stated:
        _work_out(scenario.past, past, world, grouped=False)
    shift_s = past.jobs[-1].submit_s - first_s
    for job in past.jobs:
        job.submit_s -= shift_s
    return past.jobs


def _work_out(name: str, trace: Trace, world: World, grouped: bool) -> None:
    """Give jobs what follows from their models: GPUs that must share a machine, and durations not stated."""
    for place, job in enumerate(trace.jobs):
        try:
            profile = world.profiles(job.model, int(job.gpus))
        except InputError as error:
            raise InputError(f"{name}: job {job.job_id!r}: {error}") from None
        if grouped:
            job.group = profile.tensor_parallel
        if trace.stated:
            compute_s = trace.stated[place]
            if trace.length == "iterations":
                compute_s *= profile.compute_s()
            job.duration_s = world.speed.closest_s(job, compute_s)


def _failures(scenario: Scenario, topology: Topology) -> Failures:
    if scenario.failures and scenario.failure_rate:
        raise InputError("failures come from a file or at a rate, not both")
    if scenario.failures:
        return ListedFailures(read_outages(Path(scenario.failures), topology.machine_numbers()))
    if scenario.failure_rate:
        return RandomFailures(scenario.failure_rate, scenario.repair_s, scenario.seed)
    return Failures()


def tier_slowdowns(inputs: Inputs, model: str, gpus: int, topology: Topology | None = None) -> list[float]:
    """How much slower such a gang runs at each tier, alone; 0 where it cannot be; [] without a network."""
    return TierSlowdowns(inputs, read_topology(inputs.cluster) if topology is None else topology)(model, gpus)


class TierSlowdowns:
    """The same for many gangs: the network is put together once, and each kind of gang worked out once."""

    def __init__(self, inputs: Inputs, topology: Topology) -> None:
        self._network = connect_topology(topology, inputs.network, inputs.network_settings, inputs.congestion)
        self._still = quiet(topology, inputs.network, inputs.network_settings)
        self._tiers = len(topology.tiers)
        self._inputs = inputs
        self._known: dict[tuple[str, int], list[float]] = {}

    def __call__(self, model: str, gpus: int) -> list[float]:
        """By tier."""
        result = self._known.get((model, gpus))
        if result is None:
            result = self._known[model, gpus] = self._worked_out(model, gpus)
        return result

    def _worked_out(self, model: str, gpus: int) -> list[float]:
        network, still = self._network, self._still
        if network is None or still is None or not model:
            return []
        profile = self._profiles(model, gpus)
        best = demand_of(still, closest_placement(still, gpus), profile)
        best_s = best.iteration_s(best.alone_s)
        result: list[float] = []
        for tier in range(self._tiers):
            gang = placement_at(network, gpus, tier)
            if gang is None:
                result.append(0.0)
                continue
            here = demand_of(network, gang, profile)
            result.append(here.iteration_s(here.alone_s) / best_s if best_s > 0.0 else 1.0)
        return result

    @cached_property
    def _profiles(self) -> Profiles:
        return profiles_of(self._inputs)
