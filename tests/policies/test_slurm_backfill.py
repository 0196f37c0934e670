"""Slurm's priority and backfill, by hand, on two machines of 8 GPUs unless said otherwise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dally import Cluster
from dally.engine.failures import Failures
from dally.engine.simulate import Simulation
from dally.errors import InputError
from dally.job_spec import JobSpec
from dally.model import Costs, Job
from dally.perf.base import SpeedModel
from dally.policies.registry import build
from dally.policies.slurm.multifactor import FairShare, Weights, priority
from dally.testing import check_policy
from tests.examples import many


def job(index: int, submit_s: float, gpus: int, duration_s: float, limit_s: float, user: str = "") -> Job:
    found = Job(index, f"j{index}", submit_s, gpus, duration_s, spec=JobSpec(gpus, user=user))
    found.spec = replace(found.spec, limit_s=limit_s)
    return found


def starts(jobs: list[Job], machines: int = 2, given: dict[str, str] | None = None) -> list[float]:
    policy = build("slurm-backfill", {"size": "0", "fair_share": "0"} | (given or {}))
    cluster = Cluster.grid(1, machines, 8, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0)
    Simulation(jobs, cluster, policy, SpeedModel(), Costs(), Failures()).run()
    return [each.start_s for each in jobs]


def test_a_short_limit_is_backfilled_and_a_long_one_is_not() -> None:
    """The second wants both machines and is planned for 100 s, when the first's limit runs out.

    Plans are 30 s apart: one at 1 s, the next at 31 s. The third's limit of 60 s ends before 100 s, the fourth's
    does not. The first ends at 50 s, long before its limit, the third at 71 s: then the second starts, and the
    fourth after it.
    """
    jobs = [
        job(0, 0.0, 8, 50.0, 100.0),
        job(1, 1.0, 16, 20.0, 100.0),
        job(2, 2.0, 8, 40.0, 60.0),
        job(3, 3.0, 8, 40.0, 200.0),
    ]
    assert starts(jobs) == [0.0, 71.0, 31.0, 91.0]


def test_it_knows_limits_and_not_durations() -> None:
    """The third would be done in a second; with a limit of 200 s it must not go first."""
    jobs = [job(0, 0.0, 8, 50.0, 100.0), job(1, 1.0, 16, 20.0, 100.0), job(2, 2.0, 8, 1.0, 200.0)]
    assert starts(jobs) == [0.0, 50.0, 70.0]


def test_a_plan_takes_whole_machines() -> None:
    """One machine of 8: 4 are taken until 100 s, the second wants 5 and is planned for then.

    The third wants 1 of the 4 free ones for 300 s. There would be room beside the 5, but the machine is booked.
    """
    jobs = [job(0, 0.0, 4, 100.0, 100.0), job(1, 1.0, 5, 50.0, 50.0), job(2, 2.0, 1, 300.0, 300.0)]
    assert starts(jobs, machines=1) == [0.0, 100.0, 100.0]


def test_beyond_the_window_nothing_is_planned() -> None:
    """The head would be planned for 100 s; with a window of 60 s it is not, and who comes later goes first."""
    jobs = [job(0, 0.0, 8, 100.0, 100.0), job(1, 1.0, 16, 20.0, 100.0), job(2, 2.0, 8, 40.0, 200.0)]
    assert starts(jobs, given={"bf_window_s": "60"})[2] == 31.0


def test_only_so_many_jobs_are_planned() -> None:
    jobs = [job(0, 0.0, 8, 50.0, 100.0), job(1, 1.0, 16, 20.0, 100.0), job(2, 2.0, 8, 40.0, 60.0)]
    assert starts(jobs, given={"bf_max_job_test": "1"})[2] == 70.0


def test_who_used_much_comes_later() -> None:
    """`ana` has used the whole cluster for 1,000 s: of the two that wait, `ben`'s starts though it came later."""
    jobs = [
        job(0, 0.0, 16, 1000.0, 1000.0, "ana"),
        job(1, 1.0, 16, 10.0, 10.0, "ana"),
        job(2, 2.0, 16, 10.0, 10.0, "ben"),
    ]
    assert starts(jobs, given={"fair_share": "10000"}) == [0.0, 1010.0, 1000.0]
    assert starts(jobs_again(jobs))[1:] == [1000.0, 1010.0]


def jobs_again(jobs: list[Job]) -> list[Job]:
    return [job(each.index, each.submit_s, each.gpus, each.duration_s, each.limit_s, each.user) for each in jobs]


def test_priority_by_hand() -> None:
    """Half of the largest age: 500. 8 of 16 GPUs: 500. Its account used 3/4 of what is due to two: 2^(-1.5)."""
    shares = FairShare(1e9)
    mine, theirs = job(0, 0.0, 8, 1.0, 1.0, "ana"), job(1, 0.0, 8, 1.0, 1.0, "ben")
    for each, held_s in ((mine, 3000.0), (theirs, 1000.0)):
        shares.meet(each)
        shares.started(each, 0.0)
        shares.stopped(each, held_s)
    shares.bring_up(0.0)
    weights = Weights(1000.0, 1000.0, 10000.0, 1000.0, 1e9, {"short": 7.0}, {"high": 70.0})
    mine.spec = replace(mine.spec, partition="short", qos="high")
    assert priority(mine, 500.0, weights, shares, 16) == pytest.approx(500 + 500 + 10000 * 2**-1.5 + 77)
    assert priority(theirs, 5000.0, weights, shares, 16) == pytest.approx(1000 + 500 + 10000 * 2**-0.5)


def test_usage_fades_by_half_in_a_half_life() -> None:
    shares = FairShare(100.0)
    mine, theirs = job(0, 0.0, 1, 1.0, 1.0, "ana"), job(1, 0.0, 1, 1.0, 1.0, "ben")
    shares.meet(mine)
    shares.meet(theirs)
    shares.started(mine, 0.0)
    shares.stopped(mine, 100.0)
    shares.bring_up(100.0)  # 100 GPU-seconds fade to 50
    shares.started(theirs, 100.0)
    shares.bring_up(150.0)  # to 35.4, and 50 new ones
    used = 50.0 * 0.5**0.5
    assert shares.factor(mine) == pytest.approx(2 ** (-2 * used / (used + 50.0)))


def test_points_that_are_none() -> None:
    with pytest.raises(InputError, match="must be a name and its points, as high:1000"):
        build("slurm-backfill", {"qos": "high"})


def test_it_keeps_the_contract() -> None:
    check_policy(lambda: build("slurm-backfill", {"limit_s": "500", "bf_interval_s": "7"}), examples=many(40))
