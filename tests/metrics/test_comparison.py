"""The one comparison: means over seeds, pairs, ties, unfinished runs, bounds; worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dally.errors import InputError
from dally.metrics.comparison import (
    Contest,
    choose_baseline,
    compare_rows,
    contest_of,
    favourite,
    groups_of,
    lost_to_network,
    unfinished,
    with_figures,
    within_noise,
)
from dally.metrics.metric_list import (
    COMM,
    JCT_MEAN,
    KEYS,
    LOST_TO_NETWORK,
    METRICS,
    PREEMPTIONS,
    Metric,
    Spread,
    paired_ratios,
    spread,
)
from dally.metrics.summary import Row
from dally.metrics.sweeping import is_number, mean_by, varied_columns

COMPUTING = next(metric for metric in METRICS if metric.key == "goodput")
HELD = next(metric for metric in METRICS if metric.key == "utilization")


def row(policy: str, seed: int, jct_s: float | None, **more: Any) -> Row:
    labels = {"workload": "w", "network": "slow", "policy": policy, "seed": seed}
    figures = {"jobs": 4, "finished": 4, "jct_mean_s": jct_s, "jct_bound_s": 2.0, "comm_gpu_s": 1.0}
    return {**labels, **figures, "compute_gpu_s": 3.0, **more}


def contest(*rows: Row, baseline: str = "") -> Contest:
    (found,) = compare_rows(rows, baseline)
    return found


def best(found: Contest, metric: Metric = JCT_MEAN) -> list[str]:
    return [entry.label for entry in found.entries if entry.standings[metric.key].best]


PAIRS = [row("fifo", 1, 4.0), row("fifo", 2, 6.0), row("las", 1, 2.0), row("las", 2, 6.0)]


def test_entries_are_means_over_seeds_in_order_of_appearance() -> None:
    found = contest(row("b", 1, 4.0), row("a", 1, 6.0), row("b", 2, 8.0), row("a", 2, None))
    assert [(entry.label, len(entry.rows)) for entry in found.entries] == [("b", 2), ("a", 1)]
    b = found.entries[0].standings["jct_mean_s"]
    assert (b.spread, b.spread.half(), b.values) == ((6.0, 4.0, 8.0), 2.0, {1: 4.0, 2: 8.0})
    assert b.times_bound == (3.0, 2.0, 4.0)
    assert found.entries[0].mean(LOST_TO_NETWORK) == 0.25
    assert found.entries[0].mean(COMM) is None


def test_a_contest_per_workload_and_network() -> None:
    found = compare_rows([*PAIRS, {**row("las", 1, 2.0), "network": ""}], "fifo")
    assert [one.title() for one in found] == ["w, network slow: 4 jobs, seeds 1, 2", "w: 4 jobs, seed 1"]
    assert [one.name() for one in found] == ["w, slow", "w"]
    assert [one.baseline for one in found] == ["fifo", ""], "the second lacks it"


def test_the_better_form_of_a_policy_stands_for_it() -> None:
    usual = [row("srsf", seed, jct_s, form_of="srsf") for seed, jct_s in ((1, 50.0), (2, 10.0))]
    held = [row("srsf:tier=closest", seed, 20.0, form_of="srsf") for seed in (1, 2)]
    found = contest(row("las", 1, 5.0), *usual, *held)
    assert [entry.label for entry in found.entries] == ["las", "srsf:tier=closest"]
    assert (found.form("srsf"), found.form("las")) == ("srsf:tier=closest", "las")
    # Who left jobs unfinished is no better for it; the baseline is there in any case; asked for by name, both are.
    stuck = [{**one, "finished": one["jobs"] - 1} for one in held]
    assert [entry.label for entry in contest(*usual, *stuck).entries] == ["srsf"]
    assert len(contest(*usual, *held, baseline="srsf").entries) == 2
    assert len(contest(row("srsf", 1, 9.0), row("srsf:tier=closest", 1, 2.0)).entries) == 2


def test_ratios_pair_the_seeds() -> None:
    """4 -> 2 is half, 6 -> 6 is 1: 0.75 on average, though the means say 4/5."""
    found = contest(*PAIRS, baseline="fifo").entries[1].standings["jct_mean_s"]
    assert found.ratios == {1: 0.5, 2: 1.0}
    assert found.ratio == (0.75, 0.5, 1.0)
    assert found.change() == -0.25
    assert contest(*PAIRS).ratio("las", "fifo", JCT_MEAN) == (0.75, 0.5, 1.0)
    assert contest(*PAIRS).ratio("las", "nobody", JCT_MEAN) is None


def test_nothing_is_so_many_times_zero() -> None:
    """Seed 2 alone would say that 500 and 10 preemptions are as good as 0 and 10."""
    assert paired_ratios({1: 500.0, 2: 10.0}, {1: 0.0, 2: 10.0}) == {}
    rows = [row(name, seed, 9.0, preemptions=count) for name, seed, count in
            (("a", 1, 0), ("a", 2, 10), ("b", 1, 500), ("b", 2, 10))]  # fmt: skip
    found = contest(*rows, baseline="a")
    assert found.entries[1].standings["preemptions"].change() is None
    assert best(found, PREEMPTIONS) == ["a"]


def test_the_best_of_a_column_and_who_is_as_good() -> None:
    rows = [row("a", 1, 4.0, goodput=0.5, utilization=0.9), row("b", 1, 3.0, goodput=0.4, utilization=0.8)]
    found = contest(*rows, row("c", 1, 3.08, goodput=0.5, utilization=0.7))
    assert best(found) == ["b", "c"], "3.08 is within 3 % of 3"
    assert best(found, COMPUTING) == ["a", "c"]
    assert best(found, HELD) == [], "fewer GPUs held may be fewer GPUs wasted"
    assert best(contest(row("a", 1, 3.0), row("b", 1, 3.01))) == [], "all the same: nobody is best"


def replications(policy: str, *jcts_s: float, seed: int = 1) -> list[Row]:
    return [row(policy, seed, jct_s, replication=number) for number, jct_s in enumerate(jcts_s)]


@pytest.mark.parametrize(
    ("name", "a", "b", "c", "expected"),
    [
        # a: 10, half a range of 1. b: 10.9 is within 1 + 0. c: 20 is 10 away, beyond 1 + 0.
        ("half the ranges of both", (9.0, 11.0), (10.9, 10.9), (20.0, 20.0), ["a", "b"]),
        # b: 12 is 2 away: within 1 + 1, not within 1 + 0.5.
        ("the other's counts too", (9.0, 11.0), (11.0, 13.0), (20.0, 20.0), ["a", "b"]),
        ("beyond both", (9.0, 11.0), (11.5, 12.5), (20.0, 20.0), ["a"]),
        # 1 % is below 3 %, but nothing moves either of them.
        ("stable figures are told apart below 3 %", (10.0, 10.0), (10.1, 10.1), (20.0, 20.0), ["a"]),
        ("but not below what tables show", (10.0, 10.0), (10.005, 10.005), (20.0, 20.0), ["a", "b"]),
        # A collapsing cell: 10 and 14, half ranges 2 and 3.
        ("unstable ones are not above it", (8.0, 12.0), (11.0, 17.0), (40.0, 40.0), ["a", "b"]),
    ],
)
def test_replications_say_what_is_noise(
    name: str, a: tuple[float, ...], b: tuple[float, ...], c: tuple[float, ...], expected: list[str]
) -> None:
    rows = [*replications("a", *a), *replications("b", *b), *replications("c", *c)]
    assert best(contest(*rows)) == expected, name


def test_replications_of_a_seed_are_one_value_with_a_range() -> None:
    rows = [*replications("a", 2.0, 4.0), *replications("a", 5.0, 6.0, 7.0, seed=2), *replications("b", 6.0, 6.0)]
    found = contest(*rows, baseline="b")
    a = found.entries[0].standings["jct_mean_s"]
    assert a.values == {1: 3.0, 2: 6.0}
    assert a.ranges == {1: (3.0, 2.0, 4.0), 2: (6.0, 5.0, 7.0)}
    assert a.spread == (4.5, 2.0, 7.0), "the mean over seeds, the least and the most of all runs"
    assert a.ratios == {1: 0.5}
    assert a.noise() == 1.0
    assert (len(found.entries[0].rows), len(found.entries[0].replications)) == (2, 5)
    assert found.replications() == 3
    assert contest(*PAIRS).entries[0].standings["jct_mean_s"].noise() is None


def test_noise_is_paired_by_seed() -> None:
    """Half the ranges over the other's: 1/10 in seed 1, 20/100 in seed 2, on average 15 %; b is 14 or 16 % off."""
    quiet = [*replications("a", 9.0, 11.0), *replications("a", 80.0, 120.0, seed=2)]
    for worse, expected in ((1.14, ["a", "b"]), (1.16, ["a"])):
        b = [*replications("b", 10 * worse, 10 * worse), *replications("b", 100 * worse, 100 * worse, seed=2)]
        c = [*replications("c", 90.0, 90.0), *replications("c", 900.0, 900.0, seed=2)]
        assert best(contest(*quiet, *b, *c)) == expected


def test_one_replication_too_few_falls_back_to_a_fixed_share() -> None:
    c = replications("c", 20.0, 20.0)
    assert best(contest(*replications("a", 10.0, 10.0), row("b", 1, 10.2), *c)) == ["a", "b"]


def test_unfinished_replications_are_told_of_once() -> None:
    rows = [row("a", 1, 3.0, replication=0), row("a", 1, 3.0, replication=1, finished=2)]
    assert contest(*rows).entries[0].unfinished == {1: 2}
    assert unfinished(rows, "policy", "seed") == ["a, 1: 2 jobs never finished"]


def test_who_left_jobs_unfinished_is_never_best_and_has_no_times_bound() -> None:
    quitter = [row("quitter", 1, 0.1, finished=3, jct_bound_s=0.05), row("quitter", 2, 6.0)]
    found = contest(*PAIRS, *quitter, baseline="quitter")
    assert best(found) == ["las"]
    assert found.entries[2].unfinished == {1: 1}
    assert [entry.standings["jct_mean_s"].times_bound is None for entry in found.entries] == [False, False, True]
    assert favourite(found) == found.entries[1]
    assert unfinished(found.rows(), "policy", "seed") == ["quitter, 1: 1 jobs never finished"]


def test_where_no_job_finished_there_are_no_times() -> None:
    """The 0 of such a run is no completion time; how often it preempted is a figure all the same."""
    stuck = row("stuck", 1, 0.0, finished=0, preemptions=2)
    found = contest(row("fifo", 1, 10.0), stuck, baseline="fifo")
    assert found.standing("stuck", JCT_MEAN) is None
    assert found.entries[1].standings["preemptions"].spread.mean == 2
    assert with_figures([row("fifo", 1, 10.0), stuck]) == [row("fifo", 1, 10.0)]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_bounds_are_those_of_all_jobs_whoever_stopped_early(place: int) -> None:
    """The bound of fewer jobs is left out, be its run the first, the middle or the last, the baseline or not."""
    rows = [row("a", 1, 9.0), row("b", 1, 8.0), row("c", 1, 7.0)]
    rows[place] |= {"finished": 3, "jct_bound_s": 5.0}
    for baseline in "abc":
        assert contest(*rows, baseline=baseline).bounds["jct_mean_s"] == Spread(2.0, 2.0, 2.0)


def test_no_bound_if_nobody_finished() -> None:
    found = contest(row("a", 1, 9.0, finished=1), row("b", 1, 8.0, finished=2))
    assert found.bounds == {}
    assert favourite(found) == found.entries[1]


@given(st.lists(st.floats(1.0, 1e6), min_size=1, max_size=5))
def test_a_mean_lies_in_its_range_and_pairs_with_itself(values: list[float]) -> None:
    found = contest(*(row("a", seed, value) for seed, value in enumerate(values)), baseline="a")
    standing = found.entries[0].standings["jct_mean_s"]
    assert standing.spread.low <= standing.spread.mean * (1 + 1e-12)
    assert standing.spread.mean <= standing.spread.high * (1 + 1e-12)
    assert standing.change() == 0.0
    assert within_noise(standing, standing)


def test_runs_of_a_sweep_pair_by_what_they_share() -> None:
    rows = [{**row(name, 1, jct_s), "set.x": x} for name, x, jct_s in
            (("a", 1, 4.0), ("a", 2, 6.0), ("b", 2, 3.0), ("b", 1, 4.0))]  # fmt: skip
    found = contest_of(groups_of(rows, "policy"), "a", ["seed", "set.x"])
    assert found.entries[1].standings["jct_mean_s"].ratio == (0.75, 0.5, 1.0)


@pytest.mark.parametrize(
    ("labels", "wanted", "expected"),
    [
        (["dally", "fifo", "fifo-backfill"], "", "fifo-backfill"),
        (["dally", "fifo"], "", "fifo"),
        (["las", "dally"], "", "las"),
        (["las", "dally"], "dally", "dally"),
    ],
)
def test_the_baseline(labels: list[str], wanted: str, expected: str) -> None:
    assert choose_baseline(labels, wanted) == expected


def test_an_unknown_baseline_is_refused() -> None:
    with pytest.raises(InputError, match="unknown baseline 'daly'; did you mean 'dally'"):
        choose_baseline(["dally", "fifo"], "daly")


def test_shares_of_nothing() -> None:
    assert lost_to_network({"comm_gpu_s": 0.0, "compute_gpu_s": 0.0}) == 0.0
    assert spread([]) is None
    assert spread([None]) is None


def test_every_metric_is_there_once() -> None:
    assert len(set(KEYS)) == len(KEYS)
    assert len({metric.title for metric in METRICS}) == len(METRICS)


def test_varied_columns_and_means_by_value() -> None:
    rows = [
        {"policy": "a", "set.x": value, "set.same": 1, "jobs": 5, "jct": jct}
        for value, jct in ((10, 1.0), (9, 5.0), (10, 3.0))
    ]
    assert varied_columns(rows) == ["set.x"]
    assert mean_by(rows, "set.x", "jct") == {9: 5.0, 10: 2.0}
    assert list(mean_by(rows, "set.x", "jct")) == [9, 10]
    assert varied_columns([{"policy": "a", "jobs": 1}, {"policy": "b", "jobs": 2}]) == ["policy"]
    assert [is_number(value) for value in (1, 2.5, "3", "x", True, None, float("nan"), "inf")] == [
        True, True, True, False, False, False, False, False,
    ]  # fmt: skip
