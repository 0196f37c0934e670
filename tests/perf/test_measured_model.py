"""Jobs that do not say what they train: what their steps teach, and what policies know of it."""

from __future__ import annotations

from math import log

import pytest

from dally.cluster.capacity import Cluster
from dally.engine.failures import Failures
from dally.engine.measurements import Measurements
from dally.engine.simulate import Simulation
from dally.engine.snapshot import fork
from dally.errors import InputError
from dally.job_spec import JobSpec
from dally.model import FINISHED, RUNNING, Allocation, Costs, Job, Profile, make_allocation
from dally.perf.base import SpeedModel
from dally.perf.hidden_model import hide
from dally.perf.measured_model import Levels, MeasuredModel
from dally.perf.model_weights import ModelWeights
from dally.perf.network_model import NetworkModel
from dally.policies.registry import build
from tests.perf.racks import network_of

PROFILES = {
    "light": Profile(compute_s=1.0, nbytes=1e6, overlap=0.0),
    "middle": Profile(compute_s=1.0, nbytes=12e9, overlap=0.0),
    "heavy": Profile(compute_s=1.0, nbytes=150e9, overlap=0.0),
}
MODELS = list(PROFILES)
NEAR, FAR = make_allocation(1, [(0, 8), (1, 8)]), make_allocation(2, [(0, 8), (2, 8)])


def profile_of(model: str, gpus: int) -> Profile:
    return PROFILES[model]


def cluster() -> Cluster:
    """Two racks of two machines whose uplinks have half of what their machines send."""
    return Cluster.grid(racks=2, machines=2, gpus=8, intra_gbps=300, nic_gbps=25, uplink_gbps=12.5, ideal=True)


def true_model(of: Cluster) -> NetworkModel:
    return NetworkModel(network_of(of), network_of(of), profile_of)


def learner(of: Cluster, hidden: bool = False) -> MeasuredModel:
    return MeasuredModel(network_of(of), network_of(of), profile_of, "fair", 1.0, MODELS, hidden=hidden)


def gang(index: int, model: str, name: str = "", gpus: int = 16, submit_s: float = 0.0) -> Job:
    job = Job(index, f"j{index}", submit_s, gpus, 36000.0, model, JobSpec(gpus, user="ana", name=name))
    job.rate = 1.0
    return job


def sit(speed: SpeedModel, job: Job, place: Allocation) -> None:
    job.allocation = place
    speed.placed(job)


def measure(learns: MeasuredModel, truth: NetworkModel, job: Job, place: Allocation) -> None:
    """The job runs there for a while, as fast as what it trains is."""
    sit(learns, job, place)
    learns.measured(job, 7.0 * truth.slowdown_as(job, place, job.model))
    learns.removed(job)
    job.allocation = None


@pytest.mark.parametrize("model", MODELS)
def test_ratio_of_steps_at_two_places_tells_what_a_job_is_like(model: str) -> None:
    where = cluster()
    learns, truth = learner(where), true_model(where)
    job = gang(0, model)
    measure(learns, truth, job, NEAR)
    assert max(learns.weights.of(job)) < 0.5  # one place says nothing: steps may take any time
    measure(learns, truth, job, FAR)
    assert learns.model_of(job) == model
    assert learns.slowdown(job, FAR)[0] == pytest.approx(truth.slowdown(job, FAR)[0], rel=0.01)


def test_jobs_of_one_name_teach_the_next() -> None:
    where = cluster()
    learns, truth = learner(where), true_model(where)
    for index in range(6):
        job = gang(index, "heavy", "train")
        measure(learns, truth, job, NEAR if index % 2 else FAR)
        learns.forget(job)
    assert learns.model_of(gang(9, "heavy", "train")) == "heavy"
    assert learns.model_of(gang(10, "light", "other", gpus=32)) != "heavy"


def test_job_that_names_its_model_is_believed_unless_hidden() -> None:
    where = cluster()
    named = Job(0, "j0", 0.0, 16, 3600.0, "heavy", JobSpec(16, model="heavy"))
    assert learner(where).model_of(named) == "heavy"
    assert learner(where, hidden=True).model_of(named) != "heavy"
    assert learner(where).measured(named, 3.0) == []


def test_what_is_learnt_changes_speeds_of_neighbours() -> None:
    learns = learner(cluster())
    first, second = gang(0, "heavy", gpus=8), gang(1, "heavy", gpus=8)
    apart, near = make_allocation(2, [(0, 4), (2, 4)]), make_allocation(0, [(0, 8)])
    sit(learns, second, make_allocation(2, [(1, 4), (3, 4)]))
    sit(learns, first, apart)
    before = learns.slowdown_now(second)
    learns.measured(first, learns.slowdown_as(first, apart, "heavy"))
    learns.removed(first)
    sit(learns, first, near)
    learns.measured(first, learns.slowdown_as(first, near, "heavy"))
    assert learns.model_of(first) == "heavy"
    learns.removed(first)
    sit(learns, first, apart)
    assert learns.slowdown_now(second) > before


def test_one_wild_measurement_does_not_decide() -> None:
    weights = ModelWeights(2)
    job = gang(0, "light")
    for _ in range(8):
        weights.measure(job, 0.0, [0.0, 0.0])
        weights.measure(job, 0.02, [0.0, log(2.0)])
    assert weights.of(job)[0] > 0.99
    weights.measure(job, log(50.0), [0.0, log(50.0)])
    assert weights.of(job)[0] > 0.99


def test_models_that_slow_down_alike_are_one() -> None:
    levels = Levels(["a", "b", "c"], [2.0, 1.0, 1.005])
    assert (levels.models, levels.group) == ([1, 0], [1, 0, 0])
    assert levels.nearest([0.0, 0.5, 0.5]) == 1
    assert levels.nearest([0.9, 0.1, 0.0]) == 0


def simulation(jobs: list[Job], policy: str, sensitivity: str) -> Simulation:
    where = cluster()
    speed: SpeedModel = true_model(where)
    if sensitivity != "known":
        speed = hide(speed, MODELS, "" if sensitivity == "hidden" else sensitivity)
    measurements = Measurements(1, sensitivity == "hidden")
    return Simulation(jobs, where, build(policy), speed, Costs(0.0, 0.0), Failures(), measurements=measurements)


def workload() -> list[Job]:
    """The middle of both racks is taken for an hour: what comes then has to sit across them."""
    jobs = [gang(place, "light", gpus=8, submit_s=0.0) for place in range(4)]
    for job in jobs:
        job.duration_s = 3600.0
    later = [gang(4 + place, model, submit_s=60.0) for place, model in enumerate(["heavy", "light", "middle"])]
    return [*jobs, *later]


def test_engine_goes_by_what_jobs_train_whatever_is_believed() -> None:
    ends = []
    for sensitivity in ("known", "hidden", "light", "heavy"):
        jobs = workload()
        simulation(jobs, "fifo", sensitivity).run()
        ends.append([job.finish_s for job in jobs])
    assert ends[0] == ends[2] == ends[3]
    assert ends[1] == pytest.approx(ends[0], rel=1e-9)


@pytest.mark.parametrize(("model", "starts"), [("heavy", False), ("light", True)])
def test_policy_keeps_a_job_together_once_its_like_were_slow_apart(model: str, starts: bool) -> None:
    """One machine of each rack is free: the gang sits across both only if that did its like no harm."""
    others = [gang(place, "light", gpus=8) for place in range(3)]
    for other, duration_s in zip(others, (36000.0, 60.0, 36000.0), strict=True):
        other.duration_s, other.non_preemptible = duration_s, True
    job = gang(3, model, "train", submit_s=100.0)
    run = simulation([*others, job], "dally", "hidden")
    believed = getattr(run.state.speed, "believed", None)
    assert isinstance(believed, MeasuredModel)
    truth = true_model(run.state.cluster)
    for index in range(100, 108):
        like = gang(index, model, "train")
        measure(believed, truth, like, FAR if index % 2 else NEAR)
        believed.forget(like)
    run.go_on(400.0)
    assert [int(other.status) for other in others] == [RUNNING, FINISHED, RUNNING]
    assert (job.status == RUNNING) == starts


def test_run_goes_on_from_a_copy_as_if_it_had_not_stopped() -> None:
    whole, stopped = workload(), workload()
    simulation(whole, "dally", "hidden").run()
    half = simulation(stopped, "dally", "hidden")
    half.go_on(3000.0)
    copy = fork(half)
    copy.run()
    assert [job.finish_s for job in copy.jobs] == [job.finish_s for job in whole]


def test_hiding_needs_a_network() -> None:
    with pytest.raises(InputError, match="needs a network"):
        hide(SpeedModel(), MODELS, "")
