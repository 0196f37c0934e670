"""Speeds where jobs do not say what they train: each job is taken for the model that its steps are like."""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import Any, Final

from mypy_extensions import i64

from dally.cluster.links import Network
from dally.errors import InputError
from dally.model import Job, Profile
from dally.perf.base import Speed, SpeedModel
from dally.perf.gang import closest_placement, placement_at
from dally.perf.iteration import demand_of
from dally.perf.model_weights import ModelWeights
from dally.perf.network_model import NetworkModel
from dally.pickles import picklable

SAME: Final = 0.01  # models whose slowdowns far apart differ by less, as a share, are one to the scheduler
AGAIN: Final = 0.05  # growth of what was learnt after which jobs that wait are looked at anew


class Levels:
    """All models for gangs of one size, by how much they slow down far apart; some of them stand for the others."""

    __slots__ = ("far", "group", "models")

    def __init__(self, models: list[str], far: list[float]) -> None:
        self.far: list[float] = far  # slowdown of each model, of the catalogue's order
        order = sorted(range(len(models)), key=lambda place: (far[place], place))
        self.models: list[int] = []  # places of those that stand for others, by their slowdown
        self.group: list[int] = [0] * len(models)  # by model: the place of its representative in `models`
        for place in order:
            if not self.models or far[place] > far[self.models[-1]] * (1.0 + SAME):
                self.models.append(place)
            self.group[place] = len(self.models) - 1

    def nearest(self, weights: list[float]) -> int:
        """The place of the model that slows down as these weights do on average."""
        mean = 0.0
        for place in range(len(weights)):
            mean += weights[place] * self.far[place]
        best = self.models[0]
        for place in self.models:
            if abs(self.far[place] - mean) < abs(self.far[best] - mean):
                best = place
        return best


picklable(Levels, [], [])


class MeasuredModel(NetworkModel):
    """A network model that goes by what jobs are like, where they do not say what they train.

    `usual`: all jobs are taken for that model, whatever their steps show; empty: it learns.
    `hidden`: what jobs say they train does not count.
    """

    def __init__(
        self,
        network: Network,
        quiet: Network,
        profiles: Callable[[str, int], Profile],
        sharing: str,
        share: float,
        models: list[str],
        usual: str = "",
        hidden: bool = False,
    ) -> None:
        super().__init__(network, quiet, profiles, sharing, share)
        self.models: list[str] = models
        self.usual: str = usual
        self.hidden: bool = hidden
        self.weights: ModelWeights = ModelWeights(len(models))
        self._levels: dict[int, Levels] = {}  # by GPUs
        self._held: dict[int, str] = {}  # what running jobs are taken for, by index
        self._taken: dict[int, tuple[float, str]] = {}  # what others were, and how much was learnt by then
        self._known: dict[str, bool] = {}  # whether what jobs say they train has a profile

    def __reduce__(self) -> tuple[object, ...]:
        _, blank, state = NetworkModel.__reduce__(self)
        assert isinstance(blank, tuple)
        return (MeasuredModel, (*blank, self.models, self.usual, self.hidden), state)

    def anew(self, sharing: str) -> SpeedModel:
        assert self.profiles is not None
        result = MeasuredModel(
            self._whole, self._quiet, self.profiles, self.sharing(sharing), self._share,
            self.models, self.usual, self.hidden,
        )  # fmt: skip
        result.weights = self.weights
        result._slow = dict(self._slow)
        result._narrow = dict(self._narrow)
        result._connect()
        return result

    def model_of(self, job: Job) -> str:
        if self.usual:
            return self.usual
        if self.names_its_model(job):
            return job.model
        index = int(job.index)
        held = self._held.get(index)
        if held is not None:
            return held
        taken = self._taken.get(index)
        if taken is not None and self.weights.learnt <= taken[0]:
            return taken[1]
        return self._like(job)

    def origin_of(self, job: Job) -> str:
        return "" if self.usual or self.names_its_model(job) else self.weights.origin_of(job)

    def _like(self, job: Job) -> str:
        """The model that the job is most like, as things are; kept until more is known."""
        label = self.models[self.levels(job).nearest(self.weights.of(job))]
        self._taken[int(job.index)] = (self.weights.learnt * (1.0 + AGAIN) + 1.0, label)
        return label

    def levels(self, job: Job) -> Levels:
        """The models by their slowdown when a gang of that size is split in two halves as far apart as can be."""
        known = self._levels.get(int(job.gpus))
        if known is None:
            known = Levels(self.models, [self._far(model, job.gpus) for model in self.models])
            self._levels[int(job.gpus)] = known
        return known

    def _far(self, model: str, gpus: i64) -> float:
        assert self.profiles is not None
        kind = self.kind_of(model, gpus)
        network = self._network
        tier = len(network.topology.tiers) - 1
        gang = None
        while gang is None and tier >= 0:
            gang = placement_at(network, gpus, tier)
            tier -= 1
        if gang is None:
            gang = closest_placement(network, gpus)
        demand = demand_of(network, gang, kind.profile)
        return kind.slowdown(demand.iteration_s(demand.alone_s))

    def placed(self, job: Job) -> list[Speed]:
        self._held[int(job.index)] = self.model_of(job)
        return super().placed(job)

    def removed(self, job: Job) -> list[Speed]:
        result = super().removed(job)
        self._held.pop(int(job.index), None)
        return result

    def names_its_model(self, job: Job) -> bool:
        """Whether the job says what it trains, there is a profile of that, and it counts."""
        name = job.spec.model
        if self.hidden or not name:
            return False
        known = self._known.get(name)
        if known is None:
            try:
                self.kind_of(name, job.gpus)
                known = True
            except InputError:
                known = False
            self._known[name] = known
        return known

    def forget(self, job: Job) -> None:
        self._taken.pop(int(job.index), None)
        if self.names_its_model(job) and job.model in self.models:
            self.weights.state(job, self.models.index(job.model))
        self.weights.forget(job)

    def rescaled(self, share: float) -> list[Speed]:
        self._levels.clear()
        return super().rescaled(share)

    def slowdown_now(self, job: Job) -> float:
        flow = self._contention.flows.get(int(job.index))
        if flow is not None:
            return self.kind(job).slowdown(flow.demand.iteration_s(flow.comm_s))
        allocation = job.allocation
        if job.gpus == 1 or allocation is None:
            return 1.0
        return self.kind(job).speedup / self._on_one_machine(job, allocation).rate

    def saved(self) -> dict[str, Any]:
        return {"models": self.models, **self.weights.saved()}

    def restore(self, saved: dict[str, Any]) -> None:
        if saved.get("models") == self.models:  # of another catalogue it says nothing
            self.weights.restore(saved)

    def measured(self, job: Job, step_s: float) -> list[Speed]:
        allocation = job.allocation
        if self.usual or allocation is None or job.gpus == 1 or not step_s > 0.0:
            return []
        if self.names_its_model(job):
            return []
        levels = self.levels(job)
        by_group = [log(self.slowdown_as(job, allocation, self.models[place])) for place in levels.models]
        self.weights.measure(job, log(step_s), [by_group[group] for group in levels.group])
        return self._take_for(job, self._like(job))

    def _take_for(self, job: Job, label: str) -> list[Speed]:
        """From here on a running job is taken for that model: whose speeds change by that."""
        index = int(job.index)
        if self._held.get(index) == label:
            return []
        self.removed(job)
        self._held[index] = label
        changed = super().placed(job)
        if not any(speed.job is job for speed in changed):
            changed.append(Speed(job, job.rate, job.comm_rate))
        return changed


def learning(speed: SpeedModel, models: list[str]) -> SpeedModel:
    """The same speeds, and what jobs are like that do not say what they train is learnt from their steps."""
    if not isinstance(speed, NetworkModel):
        return speed
    assert speed.profiles is not None
    whole, quiet, share = speed.networks()
    return MeasuredModel(whole, quiet, speed.profiles, speed.sharing(), share, models)
