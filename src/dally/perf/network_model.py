"""The speed model that knows the network: rates from placements, profiles and who else uses the links."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.cluster.links import Network, at_share, narrow
from dally.model import Allocation, Job, Profile
from dally.perf.base import LinkLoad, Speed, SpeedModel
from dally.perf.contention import Contention, Flow
from dally.perf.costs import Cost
from dally.perf.filling import Shares
from dally.perf.gang import closest_placement, gang_on
from dally.perf.iteration import Demand, demand_of, stretched_by
from dally.perf.least import Least
from dally.perf.no_contention import NO_CONTENTION
from dally.perf.scaling import at_size, request_of, sized
from dally.perf.sharings import contention_of
from dally.pickles import picklable

MOST_CACHED = 10_000  # flows; then all are forgotten
MOST_LINKS = 400_000  # of all demands on places that gangs got; then all are forgotten


class Candidates:
    """Flows and demands by model and place, worked out when first asked for.

    Working one out costs far more than rating it among those who run. Policies ask about the same domains at
    every pass, and gangs that take turns come back to the same places every minute.
    """

    __slots__ = ("_demands", "_flows", "_links", "network")

    def __init__(self, network: Network) -> None:
        self.network: Network = network
        self._flows: dict[tuple[str, tuple[int, ...]], Flow] = {}
        self._demands: dict[tuple[str, tuple[int, ...]], Demand] = {}
        self._links: i64 = 0  # of these

    def flow(self, job: Job, model: str, allocation: Allocation, profile: Profile) -> Flow:
        """The flow that the job would be on that place; the caller sets whose it is and its times."""
        key = _key(model, allocation)
        result = self._flows.get(key)
        if result is None:
            if len(self._flows) >= MOST_CACHED:
                self._flows.clear()
            result = Flow(job.index, self._work_out(allocation, profile))
            self._flows[key] = result
        return result

    def demand(self, model: str, allocation: Allocation, profile: Profile) -> Demand:
        """What a job of that model asks for on the place it got."""
        key = _key(model, allocation)
        flow = self._flows.get(key)
        if flow is not None:
            return flow.demand
        result = self._demands.get(key)
        if result is None:
            if self._links >= MOST_LINKS:
                self._links = 0
                self._demands.clear()
            result = self._work_out(allocation, profile)
            self._links += 1 + len(result.cost.links)
            self._demands[key] = result
        return result

    def _work_out(self, allocation: Allocation, profile: Profile) -> Demand:
        gang = gang_on(self.network, allocation.machines, allocation.gpus)
        return demand_of(self.network, gang, profile)


def _key(model: str, allocation: Allocation) -> tuple[str, tuple[int, ...]]:
    """The model, and machines and GPUs in turn: with these the job's size is known."""
    numbers: list[int] = []
    for part in range(len(allocation.machines)):
        numbers.append(int(allocation.machines[part]))
        numbers.append(int(allocation.gpus[part]))
    return model, tuple(numbers)


LOAD_STEP = 0.01  # a link's load is logged when it moved by this share of its capacity


class Kind:
    """All jobs of one model and size: its profile, and an iteration at the closest placement, alone.

    `least_s`: what no placement beats under the background load; 0 if there is none. `speedup`: against the size
    that the job asks for.
    """

    __slots__ = ("closest_s", "exposed_s", "least_slowdown", "profile", "speedup")

    def __init__(self, profile: Profile, closest: Demand, least_s: float) -> None:
        self.profile: Profile = profile
        self.closest_s: float = closest.iteration_s(closest.alone_s)
        self.exposed_s: float = self.closest_s - closest.compute_s()
        self.least_slowdown: float = least_s / self.closest_s if least_s > self.closest_s > 0.0 else 1.0
        self.speedup: float = 1.0

    def slowdown(self, iteration_s: float) -> float:
        """How many times longer than at the closest placement; at least 1, as the rate is at most 1."""
        result = iteration_s / self.closest_s if self.closest_s > 0.0 else 1.0
        return result if result > 1.0 else 1.0


picklable(Kind, Profile(), Demand(0.0, 0.0, Cost(), 0.0), 0.0)


class NetworkModel(SpeedModel):
    """A job's rate = its iteration at the closest placement on a quiet network ÷ its iteration here and now."""

    def __init__(
        self,
        network: Network,
        quiet: Network,
        profiles: Callable[[str, int], Profile],
        sharing: str = "fair",
        share: float = 1.0,
        narrowed: dict[int, float] | None = None,
    ) -> None:
        """`quiet` is the same network without background load; `profiles` gives (model, GPUs) a profile.

        `sharing`: how jobs share links, as their policy says: `fair` (or as the network says), or admitted by
        `adadual`; or, as the run says, not at all (`none`): each is as fast as alone. `share`: of the links'
        bandwidth that is there now, and of single links `narrowed`. What no placement beats, and what durations
        mean, is with all of it.
        """
        self._whole: Network = network
        self._share: float = share
        self._slow: dict[int, float] = {}  # machines that are not sound: how many times as long they compute
        self._narrow: dict[int, float] = dict(narrowed or {})  # links that are not: the share that is left
        self._network: Network = network
        self._quiet: Network = quiet
        self.profiles = profiles
        self._kinds: dict[tuple[str, int], Kind] = {}
        self._alone: dict[tuple[str, int, int], tuple[float, float]] = {}  # by model, GPUs and machine
        self._best: dict[tuple[str, int], float] = {}  # by model and GPUs
        self._candidates: Candidates = Candidates(network)
        self._connect()
        # On a torus nothing is known to hold for every placement: a slice sends nothing to the loaded links.
        loaded = network.torus is None and any(share > 0.0 for share in network.background)
        self._least: Least | None = Least(network) if loaded else None
        self._contention: Contention = contention_of(sharing, network)
        self._sharing: dict[int, Job] = {}  # jobs that use links, by index
        self._logged: vec[float] = vec[float]([0.0] * int(network.link_count()))
        self._touched: vec[i64] = vec[i64]()  # links since the loads were last asked for, each once:
        self._is_touched: vec[i64] = vec[i64]([0] * int(network.link_count()))  # 1 if it is there

    def __reduce__(self) -> tuple[object, ...]:
        blank = (self._whole, self._quiet, self.profiles, self._contention.sharing(), self._share)
        state: Any = self.__getstate__()
        state = dict(state)
        del state["_candidates"]  # worked out again when asked for
        del state["_least"]  # made from the network
        return (NetworkModel, blank, state)

    def anew(self, sharing: str) -> SpeedModel:
        assert self.profiles is not None
        sharing = self.sharing(sharing)
        result = NetworkModel(self._whole, self._quiet, self.profiles, sharing, self._share, self._narrow)
        result._slow = dict(self._slow)
        return result

    def networks(self) -> tuple[Network, Network, float]:
        """The network, the same without background load, and the share of the links' bandwidth that is there."""
        return self._whole, self._quiet, self._share

    def sharing(self, sharing: str = "") -> str:
        """How jobs share links, if their policy says `sharing`; empty: as they do."""
        present = self._contention.sharing()
        return present if present == NO_CONTENTION or not sharing else sharing  # the run's comes first

    def _connect(self) -> None:
        """Work out the network as it is now."""
        network = at_share(self._whole, self._share) if self._share < 1.0 else self._whole
        self._network = narrow(network, self._narrow) if self._narrow else network
        self._best.clear()
        self._alone.clear()
        self._candidates = Candidates(self._network)

    def kind(self, job: Job) -> Kind:
        """What is known of the job's model at its size."""
        return self.kind_of(sized(self.model_of(job), job, job.gpus), job.gpus)

    def kind_of(self, model: str, gpus: i64) -> Kind:
        """What is known of a model at that size."""
        key = (model, int(gpus))
        result = self._kinds.get(key)
        if result is None:
            result = self._work_out(model, gpus)
            self._kinds[key] = result
        return result

    def _work_out(self, model: str, gpus: i64) -> Kind:
        assert self.profiles is not None
        model, requested = request_of(model, gpus)
        profile = at_size(self.profiles(model, int(gpus)), requested, gpus)
        closest = closest_placement(self._quiet, gpus)
        least_s = 0.0 if self._least is None else self._least.iteration_s(profile, gpus)
        result = Kind(profile, demand_of(self._quiet, closest, profile), least_s)
        if gpus != requested:
            usual_s = self.kind_of(model, requested).closest_s
            known = result.closest_s > 0.0 and usual_s > 0.0
            result.speedup = usual_s / result.closest_s if known else float(gpus) / float(requested)
        return result

    def speedup(self, job: Job, gpus: i64) -> float:
        return self.kind_of(sized(self.model_of(job), job, gpus), gpus).speedup

    def placed(self, job: Job) -> list[Speed]:
        allocation = job.allocation
        assert allocation is not None
        if job.gpus == 1:
            speed = self._of_one_gpu(job, allocation)
            return [speed] if speed.rate != 1.0 else []
        if len(allocation.machines) == 1:
            return [self._on_one_machine(job, allocation)]
        demand = self.demand(job, allocation)
        self._sharing[int(job.index)] = job
        self._touch(demand.cost.links)
        rank = self._contention.rank(_service_left_s(job), job.gpus, demand)
        return self._speeds(self._contention.add(job.index, demand, rank))

    def _of_one_gpu(self, job: Job, allocation: Allocation) -> Speed:
        return Speed(job, (1.0 if job.requested == 1 else self.kind(job).speedup) / self._factor(allocation), 0.0)

    def _places(self) -> Candidates:
        """Those on the network as it is now: a copy that was read from a file has none yet."""
        if self._candidates.network is not self._network:
            self._candidates = Candidates(self._network)
        return self._candidates

    def demand(self, job: Job, allocation: Allocation) -> Demand:
        """What a job asks of compute and network in each iteration if it sits there."""
        gpus = size_on(job, allocation)
        model = sized(self.model_of(job), job, gpus)
        result = self._places().demand(model, allocation, self.kind_of(model, gpus).profile)
        factor = self._factor(allocation)
        return result.slowed(factor) if factor != 1.0 else result

    def _factor(self, allocation: Allocation) -> float:
        """How many times as long the slowest of its machines computes."""
        result = 1.0
        if self._slow:
            for machine in allocation.machines:
                factor = self._slow.get(int(machine), 1.0)
                if factor > result:
                    result = factor
        return result

    def _on_one_machine(self, job: Job, allocation: Allocation) -> Speed:
        """Its speed depends on nobody else: worked out once for each model, size and machine."""
        return self._on_one_as(job, allocation, sized(self.model_of(job), job, allocation.gpus[0]))

    def _on_one_as(self, job: Job, allocation: Allocation, model: str) -> Speed:
        key = (model, int(allocation.gpus[0]), int(allocation.machines[0]))
        known = self._alone.get(key)
        if known is None:
            kind = self.kind_of(model, allocation.gpus[0])
            demand = self._places().demand(model, allocation, kind.profile)
            factor = self._factor(allocation)
            if factor != 1.0:
                demand = demand.slowed(factor)
            iteration_s = demand.iteration_s(demand.alone_s)
            speed = _speed(job, kind, iteration_s, iteration_s - demand.compute_s())
            known = (speed.rate, speed.comm_rate)
            self._alone[key] = known
        return Speed(job, known[0], known[1])

    def removed(self, job: Job) -> list[Speed]:
        if int(job.index) not in self._sharing:
            return []
        del self._sharing[int(job.index)]
        self._touch(self._contention.flows[int(job.index)].demand.cost.links)
        return self._speeds(self._contention.remove(job.index))

    def slowed(self, machine: i64, factor: float, jobs: list[Job]) -> list[Speed]:
        if factor == self._slow.get(int(machine), 1.0):
            return []
        if factor == 1.0:
            del self._slow[int(machine)]
        else:
            self._slow[int(machine)] = factor
        self._alone.clear()
        result: list[Speed] = []
        linked: list[int] = []
        for job in jobs:
            allocation = job.allocation
            assert allocation is not None
            if int(job.index) in self._sharing:
                linked.append(int(job.index))
            elif job.gpus == 1:
                result.append(self._of_one_gpu(job, allocation))
            else:
                result.append(self._on_one_machine(job, allocation))
        return result + self._again(linked)

    def narrowed(self, link: i64, share: float) -> list[Speed]:
        if share == self._narrow.get(int(link), 1.0):
            return []
        if share == 1.0:
            del self._narrow[int(link)]
        else:
            self._narrow[int(link)] = share
        self._connect()
        return self._again(sorted(int(flow.job) for flow in self._contention.members[link]))

    def _again(self, indexes: list[int]) -> list[Speed]:
        """Place jobs that share links anew, as their machines and links are now."""
        changed: dict[int, bool] = {}
        for index in indexes:
            job = self._sharing[index]
            assert job.allocation is not None
            rank = self._contention.flows[index].rank
            for other in self._contention.remove(index):
                changed[other] = True
            for other in self._contention.add(index, self.demand(job, job.allocation), rank):
                changed[other] = True
        return self._speeds(sorted(changed))

    def slow_factor(self, machine: i64) -> float:
        return self._slow.get(int(machine), 1.0)

    def link_share(self, link: i64) -> float:
        return self._narrow.get(int(link), 1.0)

    def link_shares(self, job: Job) -> list[tuple[int, float]]:
        flow = self._contention.flows.get(int(job.index))
        return [] if flow is None else stretched_by(flow.demand, flow.comm_s)

    def rescaled(self, share: float) -> list[Speed]:
        before = self._contention
        self._share = share
        self._connect()
        self._contention = contention_of(before.sharing(), self._network)
        for index, job in self._sharing.items():
            assert job.allocation is not None
            self._contention.add(index, self.demand(job, job.allocation), before.flows[index].rank)
        return self._speeds(list(self._sharing))

    # What policies may ask.

    def best(self, job: Job) -> float:
        return self.best_at(job, job.gpus)

    def best_at(self, job: Job, gpus: i64) -> float:
        model = sized(self.model_of(job), job, gpus)
        key = (model, int(gpus))
        result = self._best.get(key)
        if result is None:
            kind = self.kind_of(model, gpus)
            closest = demand_of(self._network, closest_placement(self._network, gpus), kind.profile)
            result = kind.slowdown(closest.iteration_s(closest.alone_s))
            self._best[key] = result
        return result

    def alone(self, job: Job, allocation: Allocation) -> float:
        gpus = size_on(job, allocation)
        kind = self.kind_of(sized(self.model_of(job), job, gpus), gpus)
        gang = gang_on(self._network, allocation.machines, allocation.gpus)
        there = demand_of(self._network, gang, kind.profile)
        return kind.slowdown(there.iteration_s(there.alone_s))

    def slowdown(self, job: Job, allocation: Allocation) -> tuple[float, float]:
        gpus = size_on(job, allocation)
        if gpus == 1:
            return 1.0, 0.0
        model = sized(self.model_of(job), job, gpus)
        if len(allocation.machines) == 1:
            own = 1.0 / self._on_one_as(job, allocation, model).rate
            return own if gpus == job.requested else own * self.kind_of(model, gpus).speedup, 0.0
        flow, leaving = self._tried_on(job, allocation, model)
        inflicted = self._inflicted(flow, leaving)
        own = self.kind_of(model, gpus).slowdown(flow.demand.iteration_s(flow.comm_s))
        return own, inflicted / float(gpus)

    def slowdown_as(self, job: Job, allocation: Allocation, model: str) -> float:
        """The job's own slowdown if it sat there and trained that model."""
        gpus = size_on(job, allocation)
        model = sized(model, job, gpus)
        if len(allocation.machines) == 1:
            return self.kind_of(model, gpus).speedup / self._on_one_as(job, allocation, model).rate
        flow, _ = self._tried_on(job, allocation, model)
        return self.kind_of(model, gpus).slowdown(flow.demand.iteration_s(flow.comm_s))

    def _tried_on(self, job: Job, allocation: Allocation, model: str) -> tuple[Flow, Flow | None]:
        """Its flow there, with its times beside those who run; and the one that it has now."""
        flow = self._places().flow(job, model, allocation, self.kind_of(model, size_on(job, allocation)).profile)
        flow.job = job.index
        flow.rank = self._contention.rank(_service_left_s(job), size_on(job, allocation), flow.demand)
        leaving = self._contention.flows.get(int(job.index))
        self._contention.try_on(flow, leaving)
        return flow, leaving

    def _inflicted(self, flow: Flow, leaving: Flow | None) -> float:
        """What the flow adds to the slowdowns of others, times their GPUs; never less than nothing.

        Who is slowed on one link asks less of the next, where a third may gain: one step leaves that out, and
        what rounding leaves below 0 goes.
        """
        without: dict[int, Shares] = {}
        beside: dict[int, Shares] = {}
        inflicted = 0.0
        for other in self._contention.others(flow, leaving):
            before_s = other.demand.iteration_s(self._contention.comm_if_s(other, None, leaving, without))
            after_s = other.demand.iteration_s(self._contention.comm_if_s(other, flow, leaving, beside))
            neighbour = self._sharing[int(other.job)]
            theirs = self.kind(neighbour)
            inflicted += (theirs.slowdown(after_s) - theirs.slowdown(before_s)) * float(neighbour.gpus)
        return inflicted if inflicted > 0.0 else 0.0

    def _speeds(self, changed: list[int]) -> list[Speed]:
        result: list[Speed] = []
        for index in changed:
            job = self._sharing[index]
            flow = self._contention.flows[index]
            self._touch(flow.demand.cost.links)
            iteration_s = flow.demand.iteration_s(flow.comm_s)
            result.append(_speed(job, self.kind(job), iteration_s, iteration_s - flow.demand.compute_s()))
        return result

    def _touch(self, links: vec[i64]) -> None:
        for link in links:
            if self._is_touched[link] == 0:
                self._is_touched[link] = 1
                self._touched = append(self._touched, link)

    def link_loads(self) -> list[LinkLoad]:
        result: list[LinkLoad] = []
        for link in self._touched:
            self._is_touched[link] = 0
            load = self._contention.load(link)
            moved = load - self._logged[link]
            if moved >= LOAD_STEP or -moved >= LOAD_STEP or (load == 0.0 and moved < 0.0):
                self._logged[link] = load
                result.append(LinkLoad(link, load))
        if len(self._touched) > 0:
            self._touched = vec[i64]()
        return result

    def link_name(self, link: i64) -> str:
        return self._network.link_name(int(link))

    def closest_s(self, job: Job, compute_s: float) -> float:
        kind = self.kind(job)
        compute_step_s = kind.profile.compute_s()
        return compute_s * kind.closest_s / compute_step_s if compute_step_s > 0.0 else compute_s

    def least_slowdown(self, job: Job) -> float:
        return self.kind(job).least_slowdown

    def comm_floor_at_s(self, job: Job, gpus: i64, work_s: float) -> float:
        kind = self.kind_of(sized(self.model_of(job), job, gpus), gpus)
        exposed = kind.exposed_s / kind.closest_s if kind.closest_s > 0.0 else 0.0
        return work_s / kind.speedup * (exposed + kind.least_slowdown - 1.0)

    def comm_floor_s(self, job: Job) -> float:
        kind = self.kind(job)
        exposed = kind.exposed_s / kind.closest_s if kind.closest_s > 0.0 else 0.0
        return job.duration_s * (exposed + kind.least_slowdown - 1.0)


def size_on(job: Job, allocation: Allocation) -> i64:
    """GPUs that the job would have there."""
    return job.gpus if len(job.sizes) == 0 else allocation.total()


def _service_left_s(job: Job) -> float:
    """GPU-seconds that the job still needs at its closest placement, as of its latest start or stop."""
    return (job.duration_s - job.work_s) * float(job.gpus)


def _speed(job: Job, kind: Kind, iteration_s: float, exposed_s: float) -> Speed:
    if iteration_s <= 0.0:
        return Speed(job, kind.speedup, 0.0)
    # An all-to-all over more machines has more NICs and may beat the closest placement. A trace's
    # duration is the best there is all the same: the lower bounds stand on it.
    rate = kind.closest_s / iteration_s
    return Speed(job, (rate if rate < 1.0 else 1.0) * kind.speedup, exposed_s / iteration_s)
