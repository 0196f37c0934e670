"""From a scenario to a simulation that is ready to go: cluster, network, jobs, speeds, failures, policy."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from dally.cluster.capacity import Cluster
from dally.cluster.links import Network
from dally.cluster.network_spec import connect_topology, quiet, read_shares
from dally.cluster.spec import read_topology
from dally.cluster.topology import Topology
from dally.engine.failures import Failures, ListedFailures, RandomFailures
from dally.engine.simulate import Simulation
from dally.errors import InputError
from dally.metrics.record import Inputs
from dally.model import Costs, Job, Profile
from dally.perf.base import SpeedModel
from dally.perf.closest import closest_placement, placement_at
from dally.perf.iteration import demand_of
from dally.perf.network_model import NetworkModel
from dally.perf.profiles import Steps, load_profiles
from dally.policies.registry import Built
from dally.runs.clock import check_clock
from dally.runs.endless import check_end
from dally.runs.going_on import go_on
from dally.runs.recorded_durations import take_out
from dally.runs.scenario import Scenario
from dally.runs.team_setup import idle_quotas, on_types, policy_for, possible
from dally.traces import Trace, read_outages, read_trace
from dally.traces.mixes import assign_models

Profiles = Callable[[str, int], Profile]  # by model and GPUs


def assemble(scenario: Scenario) -> tuple[Simulation, Trace]:
    """The run, ready to go, and the trace it runs: what of it could not be used."""
    scenario.check()
    simulation, trace = go_on(scenario) if scenario.snapshot else _from_the_start(scenario)
    check_clock(simulation, scenario)
    check_end(simulation, scenario)
    return simulation, trace


def _from_the_start(scenario: Scenario) -> tuple[Simulation, Trace]:
    built = Built(scenario.policy, scenario.settings)
    sample = built()
    sharing = sample.sharing()
    topology = read_topology(scenario.cluster)
    failures = _failures(scenario, topology)
    network = connect_topology(topology, scenario.network, scenario.network_settings, scenario.congestion)
    shares = read_shares(scenario.network_at)
    if shares and network is None:
        raise InputError(f"--network-at {scenario.network_at}: the cluster states no links; give --network too")
    trace = read_trace(
        Path(scenario.trace), topology.total_gpus(), scenario.skip_impossible, scenario.trace_format,
        scenario.strict, scenario.zone,
    )  # fmt: skip
    costs = Costs(
        scenario.restart_s, scenario.restart_per_gpu_s, scenario.checkpoint_every_s, scenario.jitter, scenario.seed
    )
    trace = possible(
        trace, topology, scenario.skip_impossible, scenario.trace, scenario.queues,
        lambda job: sample.suspend_s(job, costs.gang_restart_s(int(job.gpus))),
    )  # fmt: skip
    profiles = profiles_of(scenario)
    speed = SpeedModel()
    speed.profiles = profiles
    if network is not None or trace.stated:
        assign_models(trace.jobs, scenario.mix, scenario.seed)
        if network is not None:
            speed = _network_model(scenario, topology, network, profiles, sharing)
        _work_out(scenario.trace, trace, profiles, speed, network is not None)
    if scenario.durations == "recorded" and network is not None and not trace.stated:
        trace.notes.update(take_out(scenario, trace.jobs, topology, speed))
    speed, notes = on_types(speed, topology, scenario.gpu_speeds, scenario.profiles, scenario.gpu, trace.jobs)
    trace.notes.update(notes | idle_quotas(scenario.queues, trace.jobs, topology))
    cluster = Cluster(topology, network)
    policy = policy_for(built, scenario.queues, trace.jobs, topology, network)
    simulation = Simulation(trace.jobs, cluster, policy, speed, costs, failures, shares=shares)
    if scenario.past:
        policy.teach(_past_jobs(scenario, topology, profiles, speed, trace.jobs[0].submit_s))
    return simulation, trace


def _past_jobs(
    scenario: Scenario, topology: Topology, profiles: Profiles, speed: SpeedModel, first_s: float
) -> list[Job]:
    """Earlier jobs, the last submitted when the run's first is: the clocks of the two files need not agree."""
    past = read_trace(Path(scenario.past), topology.total_gpus(), skip_impossible=True, zone=scenario.zone)
    if past.stated or isinstance(speed, NetworkModel):  # as with the run's own
        assign_models(past.jobs, scenario.mix, scenario.seed)
    if past.stated:
        _work_out(scenario.past, past, profiles, speed, grouped=False)
    ahead_s = past.jobs[-1].submit_s - first_s
    for job in past.jobs:
        job.submit_s -= ahead_s
    return past.jobs


def _network_model(
    scenario: Scenario, topology: Topology, network: Network, profiles: Profiles, sharing: str
) -> NetworkModel:
    quiet_network = quiet(topology, scenario.network, scenario.network_settings)
    assert quiet_network is not None
    return NetworkModel(network, quiet_network, profiles, sharing)


def _work_out(name: str, trace: Trace, profiles: Profiles, speed: SpeedModel, grouped: bool) -> None:
    """Give jobs what follows from their models: GPUs that must share a machine, and durations not stated."""
    for place, job in enumerate(trace.jobs):
        try:
            profile = profiles(job.model, int(job.gpus))
        except InputError as error:
            raise InputError(f"{name}: job {job.job_id!r}: {error}") from None
        if grouped:
            job.group = profile.tensor_parallel
        if trace.stated:
            compute_s = trace.stated[place]
            if trace.length == "iterations":
                compute_s *= profile.compute_s()
            job.duration_s = speed.closest_s(job, compute_s)


def profiles_of(inputs: Inputs) -> Profiles:
    """(model, GPUs) to profile, each worked out once."""
    return Steps(inputs.gpu, load_profiles(Path(inputs.profiles)) if inputs.profiles else None)


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
        found = self._known.get((model, gpus))
        if found is None:
            found = self._known[model, gpus] = self._worked_out(model, gpus)
        return found

    def _worked_out(self, model: str, gpus: int) -> list[float]:
        network, still = self._network, self._still
        if network is None or still is None or not model:
            return []
        profile = self._profiles(model, gpus)
        best = demand_of(still, closest_placement(still, gpus), profile)
        best_s = best.iteration_s(best.alone_s)
        found: list[float] = []
        for tier in range(self._tiers):
            gang = placement_at(network, gpus, tier)
            if gang is None:
                found.append(0.0)
                continue
            here = demand_of(network, gang, profile)
            found.append(here.iteration_s(here.alone_s) / best_s if best_s > 0.0 else 1.0)
        return found

    @cached_property
    def _profiles(self) -> Profiles:
        return profiles_of(self._inputs)
