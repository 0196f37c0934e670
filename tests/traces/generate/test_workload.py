"""What holds for every generated workload: counts, load, order, names, rhythm, the same bytes."""

from __future__ import annotations

import gzip
import hashlib
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dally.errors import InputError
from dally.traces import read_csv
from dally.traces.generate import RECIPE_NAMES, WorkloadRequest, find_recipe, generate, write_workload

PACED = [name for name in RECIPE_NAMES if name != "batch"]


def load_of(gpu_s: float, gpus: int, span_s: float) -> float:
    return gpu_s / (gpus * span_s)


@settings(max_examples=60)
@given(
    name=st.sampled_from(RECIPE_NAMES),
    jobs=st.integers(1, 300),
    gpus=st.integers(2, 1000),
    seed=st.integers(0, 2**64),
)
def test_every_workload_is_a_sound_trace(name: str, jobs: int, gpus: int, seed: int) -> None:
    made = generate(find_recipe(name), WorkloadRequest(seed=seed, jobs=jobs, gpus=gpus)).jobs
    assert [job.job_id for job in made] == [f"j{number}" for number in range(jobs)]
    assert made[0].submit_s == 0
    assert all(job.submit_s <= later.submit_s for job, later in pairwise(made))
    assert all(1 <= job.gpus <= gpus and job.duration_s >= 1 for job in made)
    owners = defaultdict(set)
    for job in made:
        owners[job.name].add((job.user, job.gpus))
    assert all(len(found) == 1 for found in owners.values())


@settings(max_examples=40)
@given(
    name=st.sampled_from(PACED),
    jobs=st.integers(2, 500),
    load=st.floats(0.05, 3.0),
    gpus=st.sampled_from([64, 144, 640, 7000]),
    seed=st.integers(1, 1000),
)
def test_jobs_and_load_set_the_days(name: str, jobs: int, load: float, gpus: int, seed: int) -> None:
    made = generate(find_recipe(name), WorkloadRequest(seed=seed, jobs=jobs, load=load, gpus=gpus)).jobs
    gpu_s = sum(job.gpus * job.duration_s for job in made)
    assert len(made) == jobs
    # A trace lasts whole seconds, so a single one is the most that rounding can take.
    assert abs(gpu_s / (load * gpus) - made[-1].submit_s) <= 1.0


@pytest.mark.parametrize("name", PACED)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_days_and_load_set_the_jobs(name: str, seed: int) -> None:
    made = generate(find_recipe(name), WorkloadRequest(seed=seed, days=14, load=0.9, gpus=512)).jobs
    gpu_s = sum(job.gpus * job.duration_s for job in made)
    assert made[-1].submit_s == 14 * 86400
    assert load_of(gpu_s, 512, 14 * 86400) == pytest.approx(0.9, rel=0.03)


@pytest.mark.parametrize(
    ("ask", "jobs", "days"),
    [
        (WorkloadRequest(), 10796, 20.19),
        (WorkloadRequest(days=10.095), 5398, 10.095),
        (WorkloadRequest(jobs=5398), 5398, 10.095),
        (WorkloadRequest(jobs=100, days=3), 100, 3),
    ],
)
def test_without_a_load_jobs_come_at_the_pace_of_the_source(ask: WorkloadRequest, jobs: int, days: float) -> None:
    made = generate(find_recipe("venus-like"), ask).jobs
    assert len(made) == jobs
    assert made[-1].submit_s == pytest.approx(days * 86400, abs=1)


def test_batch_comes_at_once() -> None:
    made = generate(find_recipe("batch"), WorkloadRequest()).jobs
    assert len(made) == 500
    assert {job.submit_s for job in made} == {0}
    assert {job.status for job in made} == {"Pass"}


@pytest.mark.parametrize(
    ("name", "ask", "message"),
    [
        ("batch", WorkloadRequest(load=0.9), "all jobs come at once"),
        ("batch", WorkloadRequest(days=3), "all jobs come at once"),
        ("poisson", WorkloadRequest(gpus=1), "gangs have at least 2 GPUs, the cluster has 1"),
        ("poisson", WorkloadRequest(gpus=0), "--gpus 0: must be at least 1"),
        ("poisson", WorkloadRequest(jobs=0), "--jobs 0: must be from 1"),
        ("poisson", WorkloadRequest(days=float("nan")), "--days nan: must be"),
        ("poisson", WorkloadRequest(load=-1), "--load -1: must be"),
        ("poisson", WorkloadRequest(load=0.5, days=3, jobs=7), "give two of them"),
        ("poisson", WorkloadRequest(load=0.001, days=0.01, gpus=8), "take 0 jobs"),
    ],
)
def test_impossible_asks(name: str, ask: WorkloadRequest, message: str) -> None:
    with pytest.raises(InputError, match=message):
        generate(find_recipe(name), ask)


def test_unknown_recipe() -> None:
    with pytest.raises(InputError, match="did you mean 'venus-like'"):
        find_recipe("venus-lik")


def test_seeds_differ_and_repeat() -> None:
    recipe = find_recipe("lingjun-like")
    one, again, other = (generate(recipe, WorkloadRequest(seed=seed, jobs=300)).jobs for seed in (1, 1, 2))
    assert one == again
    assert one != other
    assert [job.submit_s for job in one] != [job.submit_s for job in other]
    assert sum(job.duration_s for job in one) != sum(job.duration_s for job in other)


def test_the_bytes_are_those_of_every_other_machine(tmp_path: Path) -> None:
    digest = hashlib.sha256()
    for name in RECIPE_NAMES:
        write_workload(tmp_path / "t.csv", generate(find_recipe(name), WorkloadRequest(seed=5, jobs=1000)))
        digest.update((tmp_path / "t.csv").read_bytes())
    assert digest.hexdigest()[:16] == "70f5dd34daf6169b"


def test_hours_and_weekdays_follow_the_recipe() -> None:
    recipe = replace(find_recipe("venus-like"), day_spread=1.0, burst=0.0, recurring=0.0)
    made = generate(recipe, WorkloadRequest(jobs=50_000, days=70)).jobs
    by_hour = Counter(job.submit_s // 3600 % 24 for job in made)
    by_day = Counter(job.submit_s // 86400 % 7 for job in made)
    for hour, weight in enumerate(recipe.hours):
        assert by_hour[hour] / 50_000 == pytest.approx(weight / sum(recipe.hours), abs=1e-4)
    for day, weight in enumerate(recipe.weekdays):
        assert by_day[day] / 50_000 == pytest.approx(weight / sum(recipe.weekdays), rel=0.05)


def test_a_part_of_a_day_has_its_own_hours_only() -> None:
    made = generate(find_recipe("venus-like"), WorkloadRequest(jobs=500, days=0.25)).jobs
    assert {job.submit_s // 3600 for job in made[:-1]} == set(range(6))
    assert made[-1].submit_s == 6 * 3600


def test_poisson_gaps_have_no_memory() -> None:
    made = generate(find_recipe("poisson"), WorkloadRequest(jobs=20_000)).jobs
    gaps_s = [later.submit_s - job.submit_s for job, later in pairwise(made)]
    mean_s = sum(gaps_s) / len(gaps_s)
    variance = sum((gap_s - mean_s) ** 2 for gap_s in gaps_s) / len(gaps_s)
    assert variance / mean_s**2 == pytest.approx(1.0, abs=0.05)
    assert sum(gap_s > mean_s for gap_s in gaps_s) / len(gaps_s) == pytest.approx(0.368, abs=0.02)


def test_recurring_jobs_take_about_as_long() -> None:
    made = generate(find_recipe("venus-like"), WorkloadRequest()).jobs
    by_name = defaultdict(list)
    for job in made:
        by_name[job.name].append(job.duration_s)
    again = [durations_s for durations_s in by_name.values() if len(durations_s) > 1]
    assert sum(map(len, again)) / len(made) > 0.6
    near = sum(max(durations_s) <= 2 * min(durations_s) for durations_s in again)
    assert near / len(again) > 0.9


def test_short_jobs_fail_more_often() -> None:
    made = sorted(generate(find_recipe("venus-like"), WorkloadRequest()).jobs, key=lambda job: job.duration_s)
    shortest, longest = made[:2500], made[-2500:]
    failed = [sum(job.status == "Failed" for job in part) / 2500 for part in (shortest, longest)]
    assert failed[0] == pytest.approx(0.43, abs=0.04)
    assert failed[1] == pytest.approx(0.06, abs=0.04)


def test_few_users_have_most_jobs() -> None:
    users = Counter(job.user for job in generate(find_recipe("venus-like"), WorkloadRequest()).jobs)
    busiest = [count for _, count in users.most_common(9)]
    assert len(users) > 80
    assert sum(busiest) / users.total() == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("file", ["t.csv", "t.csv.gz"])
def test_what_is_written_reads_back(tmp_path: Path, file: str) -> None:
    workload = generate(find_recipe("itp-like"), WorkloadRequest(jobs=200))
    write_workload(tmp_path / file, workload)
    assert [path.name for path in tmp_path.iterdir()] == [file]
    jobs = read_csv(tmp_path / file, 640).jobs
    read = [(job.job_id, job.user, job.name, job.submit_s, job.gpus, job.duration_s) for job in jobs]
    assert read == [tuple(job)[:-2] for job in workload.jobs]


def test_gzip_holds_neither_date_nor_name(tmp_path: Path) -> None:
    workload = generate(find_recipe("batch"), WorkloadRequest(jobs=20))
    for name in ("one.csv.gz", "two.csv.gz", "plain.csv"):
        write_workload(tmp_path / name, workload)
    assert (tmp_path / "one.csv.gz").read_bytes() == (tmp_path / "two.csv.gz").read_bytes()
    assert gzip.decompress((tmp_path / "one.csv.gz").read_bytes()) == (tmp_path / "plain.csv").read_bytes()


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    workload = generate(find_recipe("batch"), WorkloadRequest(jobs=5))
    for path in (tmp_path / "nowhere" / "t.csv", tmp_path / "file" / "t.csv", tmp_path):
        with pytest.raises(InputError, match="cannot be written"):
            write_workload(path, workload)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
