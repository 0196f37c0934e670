"""Which machine or link is named, from made-up jobs; none where all are slow, none for a bad model."""

from __future__ import annotations

from math import log

from dally.engine.draws import uniform
from dally.health.speed_history import NOISE, SpeedHistory, SpeedSegment
from dally.health.suspicion import Member, PlacedSpeed, suspects

SOUND = SpeedSegment(0.0, 0.01, 20, 0.0, 6000.0)


def speed(factor: float) -> SpeedSegment:
    """A job that takes so many times as long as it should."""
    return SpeedSegment(log(factor), 0.01, 20, 0.0, 6000.0)


def placed(job: str, machines: str, factor: float = 1.0, kind: str = "", before: float = 0.0) -> PlacedSpeed:
    """A job on those machines, each a letter; `before`: its factor before that."""
    members = tuple(Member(f"machine {name}", 0.9) for name in machines)
    return PlacedSpeed(job, kind or job, members, speed(factor), speed(before) if before else None)


def names(*rows: PlacedSpeed) -> list[str]:
    return [suspect.name for suspect in suspects(rows) if suspect.sure]


def test_machine_that_two_slowed_jobs_share_is_named() -> None:
    (suspect,) = suspects(
        [
            placed("1", "ab", 1.27, before=1.0),
            placed("2", "bc", 1.27, before=1.0),
            placed("3", "cd", 1.0, before=1.0),
        ]
    )
    assert suspect.name == "machine b"
    assert suspect.factor == 1.3
    assert suspect.jobs == ("1", "2")
    assert suspect.probability > 0.95


def test_one_job_on_one_machine_that_became_slow_is_enough_to_name_it() -> None:
    assert names(placed("1", "a", 1.3, before=1.0), placed("2", "b")) == ["machine a"]


def test_gang_alone_does_not_say_which_of_its_machines_it_is() -> None:
    (suspect,) = suspects([placed("1", "abcd", 1.3, before=1.0)])
    assert (sorted(suspect.places), suspect.sure) == (["machine a", "machine b", "machine c", "machine d"], False)
    others = [placed(str(place), name, before=1.0) for place, name in enumerate("abc", 2)]
    assert names(placed("1", "abcd", 1.3, before=1.0), *others) == ["machine d"]


def test_job_that_was_always_slow_is_its_model_s_doing() -> None:
    assert names(placed("1", "a", 1.5), placed("2", "b", 1.5, "1")) == []
    assert names(placed("1", "a", 1.5), placed("2", "a")) == []


def test_kind_that_is_slow_on_one_machine_and_not_elsewhere_speaks_against_that() -> None:
    rows = [
        placed("1", "a", 1.4, "x"),
        placed("2", "b", 1.0, "x"),
        placed("3", "a", 1.4, "y"),
        placed("4", "c", 1.0, "y"),
    ]
    assert names(*rows) == ["machine a"]


def test_all_machines_slow_at_once_are_nobody_s_fault() -> None:
    assert names(*[placed(str(place), name, 1.5, before=1.0) for place, name in enumerate("abcdefgh")]) == []


def test_two_machines_are_told_apart() -> None:
    rows = [placed("1", "ab", 1.3, before=1.0), placed("2", "b", 1.3, before=1.0)]
    rows += [placed("3", "cd", 2.0, before=1.0), placed("4", "d", 2.0, before=1.0)]
    rows += [placed(f"sound {name}", name, before=1.0) for name in "efgh"]
    assert sorted(names(*rows)) == ["machine b", "machine d"]


def test_link_is_named_by_jobs_that_cross_it() -> None:
    """Jobs inside the rack are as fast as before on the same machines."""
    rows = []
    for job, machines, factor in (("1", "ab", 1.25), ("2", "cd", 1.25), ("3", "a", 1.0), ("4", "c", 1.0)):
        members = [Member(f"machine {name}", 0.7) for name in machines]
        if len(machines) > 1:
            members.append(Member("link rack", 0.25))
        rows.append(PlacedSpeed(job, job, tuple(members), speed(factor), speed(1.0)))
    (suspect,) = suspects(rows)
    assert suspect.name == "link rack"
    assert suspect.factor == 2.0


def test_job_that_was_faster_than_its_model_allows_and_is_not_any_more_accuses_nobody() -> None:
    """A sick link held its neighbour up, and left it more of the others: nothing is slow now."""
    sound = [placed(str(place), name, before=1.0) for place, name in enumerate("efghijklmnop", 5)]
    assert names(placed("1", "a", 1.0, before=0.75), *sound) == []
    assert names(placed("1", "a", 1.0, "x"), placed("2", "b", 0.75, "x"), *sound) == []
    assert names(placed("1", "a", 1.4, before=0.75), *sound) == ["machine a"]


def crossing(job: str, link_shifts: dict[str, float], factor: float) -> PlacedSpeed:
    """A gang of two machines of its own, with what each link at half its bandwidth makes of its step."""
    members = [Member(f"machine {job}{side}", 0.1) for side in "ab"]
    for name, shift in link_shifts.items():
        shifts = tuple(shift * part for part in (0.2, 0.6, 1.0, 1.6, 2.3))
        members.append(Member(f"link {name}", 0.9 if shift > 0.0 else 0.0, "", shifts))
    return PlacedSpeed(job, job, tuple(members), speed(factor), speed(1.0))


def test_jobs_that_are_faster_tell_which_link_holds_up_the_slow_one() -> None:
    """One gang crosses the uplinks p and q. Only p's trouble would leave its neighbour on q more of that."""
    slow = crossing("1", {"p": 0.4, "q": 0.4}, 1.5)
    assert names(slow, crossing("2", {"q": 0.0}, 1.0)) == []
    assert names(slow, crossing("2", {"p": -0.2, "q": 0.4}, 0.82)) == ["link p"]
    assert names(slow, crossing("2", {"p": -0.2, "q": 0.4}, 1.5)) == ["link q"]


def test_suspect_of_the_look_before_needs_less_to_be_named_again() -> None:
    rows = [placed("1", "a", 1.12, before=1.0), *[placed(name, name, before=1.0) for name in "bcdefg"]]
    rows[0] = rows[0]._replace(now=SpeedSegment(log(1.12), 0.03, 4, 0.0, 6000.0))
    assert [suspect.sure for suspect in suspects(rows)] == []
    assert [suspect.name for suspect in suspects(rows, known={"machine a"})] == ["machine a"]


def test_speed_since_another_was_expected_is_kept_apart() -> None:
    history = SpeedHistory()
    for window, expected_s in enumerate((1.0, 1.0, 1.5, 1.5, 1.5)):
        history.observe(60.0 * window, 1.05 * expected_s, expected_s)
    assert history.now is not None
    assert history.steady is not None
    assert (history.now.windows, history.steady.windows) == (5, 3)


def noisy(history: SpeedHistory, count: int, factor: float, seed: int, start: int = 0) -> None:
    """So many windows of a job that takes `factor` times as long, off by 5 % each."""
    for window in range(start, start + count):
        spread = sum(uniform(seed, place, window) for place in range(12)) - 6.0
        history.observe(300.0 * window, factor * (1.0 + NOISE * spread), 1.0)


def test_change_is_seen_soon_and_not_where_there_is_none() -> None:
    delays = []
    for seed in range(50):
        history = SpeedHistory()
        noisy(history, 100, 1.0, seed)
        assert history.changes == 0
        late = 0
        while history.changes == 0:
            noisy(history, 1, 1.3, seed, 100 + late)
            late += 1
        delays.append(late)
    assert sorted(delays)[25] <= 2
    assert max(delays) <= 4


def test_signals_that_are_no_times_are_left_out() -> None:
    history = SpeedHistory()
    for observed in (float("nan"), float("inf"), -1.0, 0.0):
        history.observe(0.0, observed, 1.0)
    assert history.now is None
    far_off = SpeedHistory()
    far_off.observe(0.0, 1e300, 1.0)
    assert far_off.now is not None
    assert far_off.now.mean < 3.0
