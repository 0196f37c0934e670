"""From a scenario to a simulation that is ready to go: cluster, network, jobs, speeds, failures, policy.

Durations of recorded jobs are less what their places cost, and a run that cannot come to its end is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import ceil, gcd, ulp
from pathlib import Path
from typing import Final, NamedTuple

from librt.vecs import vec
from mypy_extensions import i64

from dally.cluster.recorded_place import Places
from dally.cluster.spec import connect_topology, quiet, read_shares, read_topology
from dally.cluster.topology import Topology
from dally.engine.failures import Failures, ListedFailures, RandomFailures
from dally.engine.measurements import Measurements
from dally.engine.simulate import Simulation
from dally.errors import InputError
from dally.metrics.record import Inputs
from dally.model import INFINITY, NEVER, Job, Profile
from dally.perf.base import SpeedModel
from dally.perf.gang import closest_placement, gang_on, placement_at
from dally.perf.hidden_faults import HiddenFaults
from dally.perf.hidden_model import hide
from dally.perf.iteration import demand_of
from dally.perf.network_model import NetworkModel
from dally.perf.recorded_work import Recorded, recorded_work
from dally.perf.slow_machines import SlowMachines
from dally.policies.base import Policy
from dally.policies.registry import periods_s
from dally.policies.slurm.slurm_backfill import SlurmBackfill
from dally.runs.elastic_option import check_sizes, make_elastic, read_elastic
from dally.runs.going_on import go_on
from dally.runs.health_option import read_health
from dally.runs.progress_option import read_reports
from dally.runs.scenario import Scenario
from dally.runs.team_setup import possible
from dally.runs.world import Profiles, World, profiles_of
from dally.traces import Trace, read_history, read_outages, read_trace
from dally.traces.mixes import assign_models
from dally.traces.reading import start_s
from dally.traces.rows import NOT_KNOWN, TraceRow


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
    health = read_health(scenario.health)
    degradations = None if health is None else health.degradations(topology, world.network, scenario.seed)
    if degradations is not None and world.network is None:
        world.speed = SlowMachines(profiles=world.profiles)
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
        lambda gpus: min(world.sample.suspend_s, costs.gang_restart_s(gpus)),
    )  # fmt: skip
    if connected or trace.stated:
        assign_models(trace.jobs, scenario.mix, scenario.seed)
        _work_out(scenario.trace, trace, world, grouped=connected)
    elastic = read_elastic(scenario.elastic)
    if elastic is not None:
        total = topology.total_gpus()
        trace.notes.update(make_elastic(trace.jobs, elastic, scenario.seed, total, world.profiles))
    if scenario.durations == "recorded" and connected and not trace.stated:
        trace.notes.update(take_out(scenario, trace.jobs, topology, world.speed))
    trace.notes.update(world.on_types(trace.jobs))
    trace.notes.update(without_limits(world.sample, trace.jobs))
    policy = world.policy(trace.jobs)
    watch = None
    if health is not None and (degradations is not None or health.value("watch") or health.value("act")):
        faults = HiddenFaults(world.speed, world.speed.anew(world.sample.link_sharing))
        world.speed = faults
        watch = health.watch(faults, scenario.seed, trace.jobs[0].submit_s if trace.jobs else 0.0)
    simulation = Simulation(
        trace.jobs,
        world.cluster(),
        policy,
        known_speed(scenario, world),
        costs,
        failures,
        shares=shares,
        reports=read_reports(scenario.job_progress, scenario.seed),
        degradations=degradations,
        watch=watch,
        measurements=Measurements(scenario.seed, scenario.sensitivity == "hidden"),
    )
    simulation.state.consent = world.consent()
    if scenario.past:
        policy.predictor.teach(_past_jobs(scenario, world, trace.jobs[0].submit_s))
    return simulation, trace


def known_speed(scenario: Scenario, world: World) -> SpeedModel:
    """Speeds as they are, and for the policy as far as it may know them."""
    if scenario.sensitivity == "known":
        return world.speed
    if isinstance(world.speed, HiddenFaults):
        raise InputError(f"--sensitivity {scenario.sensitivity}: not together with what is slow by --health")
    usual = "" if scenario.sensitivity == "hidden" else scenario.sensitivity
    return hide(world.speed, world.stand_ins(), usual)


MOST_WITHOUT_LIMIT = 0.95  # a share of jobs; from there on plans by time limits say next to nothing


def without_limits(policy: Policy, jobs: list[Job]) -> dict[str, int]:
    """What to tell where a policy plans by time limits and the trace has none; empty: nothing."""
    bare = sum(job.limit_s <= 0.0 for job in jobs)
    if not isinstance(policy, SlurmBackfill) or bare < MOST_WITHOUT_LIMIT * len(jobs):
        return {}
    what = (
        "state no time limit (limit_s): each is planned as a day long, so Slurm's backfill cannot tell short jobs "
        "from long ones"
    )
    return {what: bare}


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
            job.group = _sharing_gpus(profile, world)
            check_sizes(name, job, world.profiles)
        if trace.stated:
            compute_s = trace.stated[place]
            if trace.length == "iterations":
                compute_s *= profile.compute_s()
            job.duration_s = world.speed.closest_s(job, compute_s)


def _sharing_gpus(profile: Profile, world: World) -> int:
    """GPUs that must share a machine: of a tensor group that a rack's fabric or a torus may join too, a part."""
    group = int(profile.tensor_parallel)
    machine = int(world.topology.largest[0])
    network = world.network
    if network is not None and group > machine and (network.torus is not None or 1 in network.joined):
        return gcd(group, machine)
    return group


def _failures(scenario: Scenario, topology: Topology) -> Failures:
    if scenario.failures and scenario.failure_rate:
        raise InputError("failures come from a file or at a rate, not both")
    usual = Failures()
    if scenario.failures:
        usual = ListedFailures(read_outages(Path(scenario.failures), topology.machine_numbers()))
    elif scenario.failure_rate:
        usual = RandomFailures(scenario.failure_rate, scenario.repair_s, scenario.seed)
    health = read_health(scenario.health)
    if health is None:
        return usual
    return health.failures(topology, usual, scenario.failure_rate, scenario.repair_s, scenario.seed)


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

    def crossed(self, model: str, machines: list[str], gpus: list[int]) -> dict[str, str]:
        """The highest tier whose uplinks each kind of a large model's groups crosses there; {} of other models."""
        if self._network is None or not model:
            return {}
        try:
            groups = self._profiles(model, sum(gpus)).groups
        except InputError:
            return {}
        if groups is None:
            return {}
        numbers = {name: number for number, name in enumerate(self._network.topology.names[0])}
        parts = vec[i64]([numbers[name] for name in machines])
        crossed: dict[str, str] = groups.placed(
            self._network, gang_on(self._network, parts, vec[i64](gpus))
        ).crossed
        return crossed

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


TAKEN_OUT = "ran at a recorded place: what it cost them is taken out of their durations"
ELSEWHERE = "ran on machines that the cluster does not have: their durations are taken as they are"


class Placed(NamedTuple):
    """Recorded jobs at the places where they ran, and how many others there are."""

    ran: list[Recorded]
    elsewhere: int  # jobs on machines that the topology does not have, or that have not enough GPUs
    missing: list[str]  # names of such machines
    unused: frozenset[str]  # machines of the topology on which none of them ran

    def notes(self) -> dict[str, int]:
        """Jobs by what is to be known of them."""
        counts = {TAKEN_OUT: len(self.ran), ELSEWHERE: self.elsewhere}
        return {what: count for what, count in counts.items() if count}


def places_of(jobs: Sequence[Job], rows: Sequence[TraceRow], topology: Topology) -> Placed:
    """Where the jobs ran, as far as the trace says: jobs of one id with rows of that id."""
    places = Places(topology)
    by_id = {row.job_id: row for row in rows if row.nodes and row.wait_s != NOT_KNOWN}
    ran: list[Recorded] = []
    elsewhere = 0
    for job in jobs:
        row = by_id.get(job.job_id)
        if row is None:
            continue
        allocation = places.find(row.nodes, row.spec.gpus, row.placement)
        if allocation is None:
            elsewhere += 1
        else:
            ran.append(Recorded(job, allocation, start_s(row), start_s(row) + row.stated))
    names = topology.names[0]
    unused = frozenset(names[number] for number in range(topology.machine_count()) if number not in places.used)
    return Placed(ran, elsewhere, list(places.missing), unused)


def take_out(scenario: Scenario, jobs: Sequence[Job], topology: Topology, speed: SpeedModel) -> dict[str, int]:
    """Set durations to what the jobs would have needed alone at their closest placement; notes on how many."""
    history = read_history(Path(scenario.trace), scenario.trace_format, scenario.strict, scenario.zone)
    placed = places_of(jobs, history.rows, topology)
    for record, work_s in zip(placed.ran, recorded_work(speed, placed.ran), strict=True):
        record.job.duration_s = work_s
    return placed.notes()


STEPS: Final = 256  # of the clock, in the shortest period: waiting and slow links put the end off that far at most
DAY_S: Final = 86400.0
HOPELESS: Final = 25.0  # failures to expect where none may be: one attempt in e^25 gets through


def check_clock(simulation: Simulation, scenario: Scenario) -> None:
    """InputError for a lease, a slice or a repair so short that `t + lease == t` before the run is over."""
    step_s = ulp(_end_s(simulation, scenario))
    periods = {f"--set {key}": value for key, value in periods_s(scenario.policy, scenario.settings).items()}
    periods.setdefault("--set lease_s", simulation.state.policy.lease_s)  # of a policy that states none
    if scenario.failure_rate:
        periods["--repair-s"] = scenario.repair_s
    for option, value in periods.items():
        if value < STEPS * step_s:
            raise InputError(
                f"{option}={value:g}: too short for the clock of {scenario.trace or scenario.snapshot}: its times "
                f"may be {step_s:g} s apart; at least {STEPS * step_s:g}, or times that begin at 0"
            )


def _end_s(simulation: Simulation, scenario: Scenario) -> float:
    """When the run may end, jobs one after the other."""
    jobs = simulation.jobs
    busy_s = sum(job.duration_s for job in jobs if job.duration_s != NEVER)
    return min(max(jobs[-1].submit_s, simulation.now) + busy_s, scenario.until_s) if jobs else 0.0


def check_end(simulation: Simulation, scenario: Scenario) -> None:
    """InputError for a job whose machines fail so often that it never gets on; --until ends any run."""
    jobs = simulation.jobs
    if not scenario.failure_rate or scenario.until_s < INFINITY or not jobs:
        return
    costs = simulation.state.costs
    largest = max(simulation.state.cluster.topology.gpus[0])
    longest_s = max(job.duration_s for job in jobs)
    most = max(int(job.gpus) for job in jobs)
    if _expected_failures(scenario, most, largest, longest_s) <= HOPELESS:
        return
    for job in jobs:
        gpus, checkpoint_s = int(job.gpus), min(job.checkpoints_s(costs.checkpoint_every_s), job.duration_s)
        needed_s = costs.gang_restart_s(gpus) + checkpoint_s
        if _expected_failures(scenario, gpus, largest, min(needed_s, job.duration_s)) > HOPELESS:
            often_s = DAY_S / scenario.failure_rate / ceil(gpus / largest)
            raise InputError(
                f"--failure-rate {scenario.failure_rate:g}: job {job.job_id!r} would never end: its machines fail "
                f"every {often_s:.3g} s, and it needs {needed_s:g} s without a failure to restart and to get to "
                "a checkpoint; fewer failures, --checkpoint-every or --until"
            )


def _expected_failures(scenario: Scenario, gpus: int, largest: int, during_s: float) -> float:
    """How many failures a gang has to expect in that time."""
    return scenario.failure_rate * ceil(gpus / largest) * during_s / DAY_S
