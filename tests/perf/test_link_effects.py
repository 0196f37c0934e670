"""What a narrow link would do to each running job, asked of a copy: as the model does it, and the model stays."""

from __future__ import annotations

from math import log

import pytest

from dally.cluster.links import connect
from dally.cluster.presets import find_preset
from dally.cluster.spec import read_topology
from dally.model import Job, Profile, make_allocation
from dally.perf.link_effects import LinkEffects
from dally.perf.network_model import NetworkModel

PROFILE = Profile(compute_s=0.3, nbytes=2e9, overlap=0.0)
UPLINK = 12  # of the first rack: machines' links come first


def model() -> NetworkModel:
    """Three racks of four machines on the network `slow`."""
    network = connect(read_topology("3x4x8"), find_preset("slow"))
    return NetworkModel(network, network, lambda name, gpus: PROFILE)


def placed(model: NetworkModel, index: int, machines: list[int], since_s: float = 0.0) -> Job:
    job = Job(index, f"j{index}", 0.0, 8 * len(machines), 1000.0, "any")
    job.allocation = make_allocation(2, [(machine, 8) for machine in machines])
    job.placed_s = since_s
    for speed in model.placed(job):
        speed.job.rate = speed.rate
    return job


def test_effect_is_what_the_model_does_and_the_model_stays_as_it_is() -> None:
    real = model()
    jobs = [placed(real, 0, [0, 4]), placed(real, 1, [1, 5]), placed(real, 2, [2, 3])]
    before = [job.rate for job in jobs]
    effects = LinkEffects(real)
    effects.follow(jobs)
    effect = effects.of(UPLINK, 2.0)
    assert [job.rate for job in jobs] == before
    for speed in real.narrowed(UPLINK, 0.5):
        speed.job.rate = speed.rate
    for job, rate in zip(jobs, before, strict=True):
        assert effect.get(int(job.index), 0.0) == pytest.approx(log(rate / job.rate), abs=1e-3)
    assert effect[0] > 0.25
    assert 2 not in effect  # inside the rack
    assert effects.of(UPLINK, 2.0) is effect


def test_job_beside_one_that_a_narrow_link_slows_is_faster() -> None:
    real = model()
    jobs = [placed(real, 0, [0, 4]), placed(real, 1, [5, 8])]  # both cross the second rack's uplink
    effects = LinkEffects(real)
    effects.follow(jobs)
    effect = effects.of(UPLINK, 3.0)
    assert effect[0] > 0.3
    assert effect[1] < -0.05


def test_jobs_that_moved_or_left_are_followed() -> None:
    real = model()
    effects = LinkEffects(real)
    job = placed(real, 0, [0, 4])
    effects.follow([job])
    assert effects.of(UPLINK, 2.0)[0] > 0.25
    real.removed(job)
    moved = placed(real, 0, [5, 8], 50.0)
    effects.follow([moved])
    assert effects.of(UPLINK, 2.0) == {}
    effects.follow([])
    assert effects.of(UPLINK + 1, 2.0) == {}
