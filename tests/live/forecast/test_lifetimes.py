"""How long jobs last given their age, and who comes when."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from dally.job_spec import JobSpec
from dally.live.forecast.lifetimes import BLOCK_S, DAY_S, ArrivalBlocks, Lifetimes, PastJob, kaplan_meier
from dally.model import NEVER, Job

DURATIONS = st.floats(1.0, 1e6)


def job(gpus: int = 1, user: str = "u", name: str = "n") -> Job:
    return Job(0, "0", 0.0, gpus, NEVER, spec=JobSpec(gpus, name=name, user=user))


def taught(durations_s: list[float], user: str = "u", name: str = "n", gpus: int = 1) -> Lifetimes:
    found = Lifetimes()
    for number, duration_s in enumerate(durations_s):
        found.learn(PastJob(number, 0.0, JobSpec(gpus, name=name, user=user), duration_s))
    return found


@given(st.lists(DURATIONS, max_size=30), st.floats(0.0, 1e6), st.integers(1, 50), st.integers(0, 5))
def test_nobody_ends_before_his_age(durations_s: list[float], age_s: float, count: int, seed: int) -> None:
    drawn = taught(durations_s).draw(job(), age_s, NEVER, count, Random(seed))
    assert len(drawn) == count
    assert all(duration_s > age_s for duration_s in drawn)


@given(st.lists(DURATIONS, min_size=1, max_size=20), st.lists(DURATIONS, max_size=20))
def test_shares_of_a_curve_fall_to_what_is_unknown(ended_s: list[float], alive_s: list[float]) -> None:
    curve = kaplan_meier(ended_s, alive_s)
    assert curve.survival[0] == 1.0
    assert all(a >= b >= 0.0 for a, b in zip(curve.survival, curve.survival[1:], strict=False))
    if max(alive_s, default=0.0) < max(ended_s):
        assert curve.survival[-1] < 1e-9


def test_those_still_at_work_make_the_others_longer() -> None:
    """Half of the class has run for an hour and goes on: only the other half ended within minutes."""
    lifetimes = taught([60.0] * 50 + [36000.0] * 4)
    before = lifetimes.draw(job(), 0.0, NEVER, 100, Random(1))
    lifetimes.look((job(), 3600.0) for _ in range(50))
    after = lifetimes.draw(job(), 0.0, NEVER, 100, Random(1))
    assert sum(duration_s > 3600.0 for duration_s in before) < 25
    assert 45 <= sum(duration_s > 3600.0 for duration_s in after) <= 65


def test_what_a_job_reports_counts_as_earlier_reports_held() -> None:
    lifetimes = taught([60.0] * 50)
    reporting = job()
    reporting.reported_s = 10000.0
    first = lifetimes.draw(reporting, 600.0, NEVER, 100, Random(1))
    assert 8000.0 <= sorted(first)[20] < sorted(first)[80] <= 12500.0
    assert min(lifetimes.draw(reporting, 9600.0, NEVER, 100, Random(1))) > 9600.0
    for number in range(200):  # jobs take twice what they say
        lifetimes.learn(PastJob(number, 0.0, JobSpec(1, name="n", user="u"), 600.0, reported_s=300.0))
    assert set(lifetimes.draw(reporting, 600.0, NEVER, 100, Random(1))) == {20000.0}
    assert max(lifetimes.draw(reporting, 600.0, 700.0, 100, Random(1))) == 20000.0  # more than its user's statement
    late = lifetimes.draw(reporting, 30000.0, NEVER, 100, Random(1))
    assert min(late) > 30000.0
    assert len(set(late)) > 10


def test_the_narrowest_class_that_knows_speaks() -> None:
    lifetimes = taught([100.0] * 100, name="short")
    for number in range(100):
        lifetimes.learn(PastJob(number, 0.0, JobSpec(1, name="long", user="u"), 9000.0))
    short = lifetimes.draw(job(name="short"), 0.0, NEVER, 100, Random(1))
    unknown = lifetimes.draw(job(name="new"), 0.0, NEVER, 100, Random(1))
    assert sorted(short)[50] == 100.0
    assert 30 <= sum(duration_s == 100.0 for duration_s in unknown) <= 70


def together(first: int, count: int, at_s: float, user: str = "u") -> list[PastJob]:
    """Jobs that one user submits a minute apart."""
    return [PastJob(first + place, at_s + 60.0 * place, JobSpec(1, name="n", user=user)) for place in range(count)]


def known_as(past: PastJob) -> Job:
    return Job(past.number, str(past.number), past.submit_s, 1, NEVER, spec=past.spec)


def test_what_ended_of_a_burst_speaks_for_the_rest() -> None:
    """A user's earlier jobs took hours; of the thirty submitted now, the first ten ended within a minute."""
    lifetimes = taught([9000.0] * 60)
    burst = together(1000, 30, 5000.0)
    for past in burst:
        lifetimes.came(past)
    before = lifetimes.draw(known_as(burst[-1]), 0.0, NEVER, 100, Random(1))
    for past in burst[:10]:
        lifetimes.learn(replace(past, duration_s=30.0))
    after = lifetimes.draw(known_as(burst[-1]), 0.0, NEVER, 100, Random(1))
    assert sum(duration_s == 30.0 for duration_s in before) == 0
    assert sum(duration_s == 30.0 for duration_s in after) >= 70
    alone = PastJob(2000, 90000.0, burst[0].spec)
    lifetimes.came(alone)  # a day later: no part of the burst
    assert (
        sum(duration_s == 30.0 for duration_s in lifetimes.draw(known_as(alone), 0.0, NEVER, 100, Random(1))) < 30
    )


def test_jobs_of_a_burst_are_long_together() -> None:
    """Each job has its distribution; the sum over a burst varies more than that over as many others."""
    lifetimes = taught([60.0, 600.0, 6000.0, 60000.0] * 20)
    burst = together(1000, 20, 5000.0)
    for past in burst:
        lifetimes.came(past)
    rng = Random(1)
    as_burst = [lifetimes.draw(known_as(past), 0.0, NEVER, 50, rng) for past in burst]
    apart = [lifetimes.draw(job(), 0.0, NEVER, 50, rng) for _ in burst]
    assert sorted(as_burst[0]) == sorted(apart[0])
    spread = [max(map(sum, zip(*drawn, strict=True))) for drawn in (as_burst, apart)]
    assert spread[0] > 1.3 * spread[1]
    lifetimes.forget([past.number for past in burst])


def test_what_users_state_counts_as_far_as_it_held() -> None:
    lifetimes = Lifetimes()
    assert set(lifetimes.draw(job(), 0.0, 500.0, 10, Random(1))) == {500.0}
    for number in range(99):
        lifetimes.learn(PastJob(number, 0.0, JobSpec(1, user="u", duration_s=100.0), 50.0))
    assert sorted(lifetimes.draw(job(), 0.0, 500.0, 10, Random(1)))[5] == 250.0
    assert min(lifetimes.draw(job(), 600.0, 500.0, 10, Random(1))) > 600.0


def test_a_time_limit_ends_everybody() -> None:
    limited = job()
    limited.spec = replace(limited.spec, limit_s=700.0)
    assert max(taught([100.0, 5000.0]).draw(limited, 0.0, NEVER, 50, Random(1))) == 700.0


def test_the_same_hours_of_earlier_days_come_again() -> None:
    blocks = ArrivalBlocks()
    for day in range(3):
        for hour in (9, 10):
            number = 2 * day + (hour == 10)
            blocks.came(PastJob(number, day * DAY_S + hour * 3600.0, JobSpec(1 + day)))
    now = 3 * DAY_S + 8 * 3600.0
    drawn = blocks.draw(now, now, Random(1))
    assert [submit_s for submit_s, _ in drawn] == [3 * DAY_S + 9 * 3600.0, 3 * DAY_S + 10 * 3600.0]
    days = {blocks.draw(now, now, Random(seed))[0][1].spec.gpus for seed in range(20)}
    assert days == {2, 3}  # the first day is known from nine on only


@given(st.lists(st.floats(0.0, 5 * DAY_S), max_size=40), st.integers(0, 12), st.integers(0, 9))
def test_who_is_to_come_comes_in_its_block(moments_s: list[float], block: int, seed: int) -> None:
    blocks = ArrivalBlocks()
    for number, submit_s in enumerate(sorted(moments_s)):
        blocks.came(PastJob(number, submit_s, JobSpec(1)))
    now = 5 * DAY_S
    begin_s = now + block * BLOCK_S
    drawn = [submit_s for submit_s, _ in blocks.draw(begin_s, now, Random(seed))]
    assert drawn == sorted(drawn)
    assert all(begin_s <= submit_s <= begin_s + BLOCK_S + 1e-6 for submit_s in drawn)
