"""Mixes: who gets which model, how often, and that it never changes by itself."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from dally.errors import InputError
from dally.model import Job
from dally.perf.profiles import find_model, shipped
from dally.traces.mixes import LINGJUN, MIXES, PAPER, UNIFORM, assign_models, find_mix

ROOT = Path(__file__).parents[2]
SHARED = next((path for path in (ROOT / "shared", ROOT.parent / "shared") if path.is_dir()), ROOT / "shared")
TRACES = SHARED / "traces"
DRAWS = 20_000


def jobs_of(gpus: int, count: int = DRAWS, model: str = "") -> list[Job]:
    return [Job(index, f"job-{index}", 0.0, gpus, 60.0, model) for index in range(count)]


def drawn(mix: str, gpus: int, seed: int = 1, count: int = DRAWS) -> Counter[str]:
    jobs = jobs_of(gpus, count)
    assign_models(jobs, mix, seed)
    return Counter(job.model for job in jobs)


def test_mixes_only_name_models_of_the_catalogue() -> None:
    for mix in MIXES.values():
        for _, shares in mix.by_gpus:
            for model in shares:
                assert model in shipped().models


def test_uniform_holds_every_model_that_fits_on_one_gpu() -> None:
    fitting = {m.name for m in shipped().models.values() if m.tensor_parallel * m.pipeline_parallel == 1}
    assert set(UNIFORM) == fitting


@pytest.mark.parametrize("mix", list(MIXES))
@pytest.mark.parametrize("gpus", [1, 2, 3, 4, 8, 16, 32, 64, 512])
def test_shares_are_met(mix: str, gpus: int) -> None:
    shares = next(shares for most, shares in MIXES[mix].by_gpus if gpus <= most)
    counts, total = drawn(mix, gpus), sum(shares.values())
    assert set(counts) <= set(shares)
    chi_square = sum((counts[m] - DRAWS * w / total) ** 2 / (DRAWS * w / total) for m, w in shares.items())
    # Exceeded by chance once in 100,000 (Wilson and Hilferty's approximation).
    freedom = len(shares) - 1
    assert chi_square < freedom * (1 - 2 / (9 * freedom) + 4.27 * (2 / (9 * freedom)) ** 0.5) ** 3


@pytest.mark.parametrize(
    ("gpus", "models"),
    [
        ((1, 2), {"mobilenet-v2": 1, "resnet50": 1, "alexnet": 1, "transformer-big": 1, "vgg16": 1}),
        ((3, 8), {"resnet50": 1, "vgg16": 1, "alexnet": 1, "transformer-big": 1, "vit-l": 1, "bert-large": 1}),
        ((9, 744), {"resnet50": 1, "vgg16": 1, "vit-l": 1, "bert-large": 1, "gpt2-xl": 2}),
    ],
)
def test_the_benchmark_mix_is_the_benchmarks(gpus: tuple[int, int], models: dict[str, int]) -> None:
    for size in gpus:
        counts = drawn("benchmark", size, count=6_000)
        assert set(counts) == set(models)
        for model, weight in models.items():
            assert counts[model] / 6_000 == pytest.approx(weight / sum(models.values()), abs=0.03)


def published_jobs(name: str, sizes: list[int], gpus: str, jobs: str = "") -> dict[int, Counter[str]]:
    """Jobs by size up to so many GPUs, and by model; `gpus` and `jobs` name columns, else a row is one job."""
    path = TRACES / name
    if not path.exists():
        pytest.skip("the traces are not here")
    found: dict[int, Counter[str]] = {most: Counter() for most in sizes}
    with path.open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            if count := int(row[gpus]):
                size = next(most for most in found if count <= most)
                found[size][find_model(row["model"]).name] += int(row[jobs]) if jobs else 1
    return found


def test_lingjun_shares_are_the_published_ones() -> None:
    published = published_jobs("lingjun_model_gpu_mix.csv", [most for most, _ in LINGJUN], "total_gpu", "jobs")
    for most, shares in LINGJUN:
        jobs = published[most].total()
        assert shares == {m: pytest.approx(100 * n / jobs, abs=0.06) for m, n in published[most].items()}


def test_paper_shares_are_the_published_ones() -> None:
    assert dict(PAPER) == published_jobs("paper_batch500.csv", [most for most, _ in PAPER], "gpus")


def test_a_job_keeps_the_model_it_names() -> None:
    jobs = [*jobs_of(1, 10, "resnet18"), *jobs_of(1, 10)]
    assign_models(jobs, "benchmark", 1)
    assert {job.model for job in jobs[:10]} == {"resnet18"}
    assert "resnet18" not in {job.model for job in jobs[10:]}


def test_neither_order_nor_company_changes_a_draw() -> None:
    together, apart = jobs_of(8, 200), jobs_of(8, 200)
    assign_models(together, "uniform", 7)
    for job in reversed(apart):
        assign_models([job], "uniform", 7)
    assert [job.model for job in together] == [job.model for job in apart]


def test_seeds_and_mixes_draw_independently() -> None:
    one, two = jobs_of(1, 2_000), jobs_of(1, 2_000)
    assign_models(one, "uniform", 1)
    assign_models(two, "uniform", 2)
    same = sum(a.model == b.model for a, b in zip(one, two, strict=True)) / 2_000
    assert same == pytest.approx(1 / len(UNIFORM), abs=0.02)


SCRIPT = """
from dally.model import Job
from dally.traces.mixes import MIXES, assign_models
for mix in MIXES:
    jobs = [Job(i, f"job-{i}", 0.0, 1 << i % 8, 60.0) for i in range(64)]
    assign_models(jobs, mix, 3)
    print(mix, *(job.model for job in jobs))
"""


def test_hash_randomisation_changes_nothing() -> None:
    runs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(runs) == 1


def test_draws_stay_as_they_are() -> None:
    """A change here changes every published result."""
    jobs = [Job(index, f"job-{index}", 0.0, gpus, 60.0) for index, gpus in enumerate((1, 2, 4, 8, 16, 64))]
    assign_models(jobs, "benchmark", 1)
    assert [job.model for job in jobs] == ["vgg16", "alexnet", "bert-large", "resnet50", "resnet50", "vgg16"]


def test_unknown_mixes_are_refused() -> None:
    with pytest.raises(InputError, match="unknown mix 'lingjum'; did you mean 'lingjun'\\?"):
        find_mix("lingjum")
    with pytest.raises(InputError, match="unknown mix 'x'; known: uniform, benchmark, lingjun, paper"):
        assign_models([], "x", 1)
