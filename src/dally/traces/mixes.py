"""Named mixes: which model each job of a trace trains, where the trace does not say.

A mix names models only; `dally.perf` knows what they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final, NamedTuple

from dally.errors import unknown
from dally.model import Job

Shares = Mapping[str, float]  # weight by model; they need not add up to 1
ANY: Final = 1 << 62  # GPUs: gangs of any size


class Mix(NamedTuple):
    """Shares of models by the largest gang they hold for, smallest first; the last holds for any."""

    by_gpus: tuple[tuple[int, Shares], ...]
    about: str
    source: str


def _equal(*models: str) -> Shares:
    return dict.fromkeys(models, 1.0)


# Every model of the catalogue that fits on one GPU.
UNIFORM = _equal(
    "alexnet", "vgg16", "resnet18", "resnet50", "inception-v3", "mobilenet-v2", "mobilenet-v3-large",
    "mobilenet-v3-small", "densenet121", "vit-l", "bert-base", "bert-large", "transformer-base",
    "transformer-big", "gnmt", "gpt2", "gpt2-xl", "t5-large", "dlrm",
)  # fmt: skip

BENCHMARK = (
    (2, _equal("mobilenet-v2", "resnet50", "alexnet", "transformer-big", "vgg16")),
    (8, _equal("resnet50", "vgg16", "alexnet", "transformer-big", "vit-l", "bert-large")),
    (ANY, {"resnet50": 1.0, "vgg16": 1.0, "vit-l": 1.0, "bert-large": 1.0, "gpt2-xl": 2.0}),
)

# Percent of the jobs of that size. Lingjun's names stand for: ResNet resnet50, mnist mobilenet-v3-small,
# llama llama2-7b, gpt gpt2-xl, DLM and word_embedding bert-large, 65b and 66b llama-65b, 130b-infer
# llama2-70b; jobs without GPUs are left out.
LINGJUN = (
    (1, {"llama2-7b": 50.0, "resnet50": 45.8, "gpt2-xl": 2.8, "mobilenet-v3-small": 1.4}),
    (4, {"llama2-7b": 75.4, "resnet50": 10.7, "gpt-13b": 9.8, "gpt2-xl": 4.1}),
    (8, {"gpt-13b": 49.8, "llama2-7b": 21.3, "mobilenet-v3-small": 9.7, "resnet50": 5.3, "llama2-70b": 4.8,
         "gpt2-xl": 4.3, "gpt-7b": 3.4, "bert-large": 1.0, "gpt-3b": 0.5}),
    (24, {"gpt-13b": 66.2, "llama2-7b": 18.5, "gpt-3b": 10.8, "mobilenet-v3-small": 4.6}),
    (40, {"llama-65b": 41.2, "gpt-7b": 37.8, "llama2-7b": 13.5, "gpt-13b": 5.4, "gpt2-xl": 1.4,
          "llama-30b": 0.7}),
    (80, {"gpt-13b": 53.6, "llama-30b": 27.7, "llama2-7b": 9.8, "gpt-3b": 5.4, "bert-large": 3.6}),
    (ANY, {"bert-large": 93.8, "llama2-7b": 6.2}),
)  # fmt: skip

# Jobs of that size in the batch of 500.
PAPER = (
    (1, {"bert-base": 94, "resnet50": 67, "resnet18": 35, "vgg16": 30, "alexnet": 27,
         "mobilenet-v3-large": 17}),
    (2, {"resnet50": 7, "bert-base": 4, "mobilenet-v3-large": 2}),
    (4, {"resnet50": 16, "mobilenet-v3-large": 15, "alexnet": 9, "bert-base": 7, "resnet18": 3, "vgg16": 2}),
    (8, {"mobilenet-v3-large": 52, "resnet50": 27, "bert-base": 15, "alexnet": 13, "vgg16": 2}),
    (16, {"mobilenet-v3-large": 26, "resnet50": 7, "bert-base": 5, "alexnet": 4}),
    (ANY, {"mobilenet-v3-large": 13, "resnet50": 1}),
)  # fmt: skip

MIXES: dict[str, Mix] = {
    "uniform": Mix(((ANY, UNIFORM),), "every model that fits on one GPU, equally often", "ours"),
    "benchmark": Mix(BENCHMARK, "by GPUs: light models up to 2, heavy ones above 8", "ours: the benchmark's cells"),
    "lingjun": Mix(
        LINGJUN,
        "by GPUs as in Alibaba's Lingjun, 2023; mostly language models",
        "alibaba/alibaba-lingjun-dataset-2023, models by GPU count of 774 jobs (Apache-2.0)",
    ),
    "paper": Mix(
        PAPER, "by GPUs as in the batch published with the paper's simulator", "the Dally paper's artifact"
    ),
}


def find_mix(name: str) -> Mix:
    """The mix of that name, or an InputError that suggests the nearest."""
    if name in MIXES:
        return MIXES[name]
    raise unknown("mix", name, MIXES)


def assign_models(jobs: list[Job], mix: str, seed: int) -> None:
    """Give a model to every job that names none; it depends on seed, mix, the job's id and size alone."""
    by_gpus = find_mix(mix).by_gpus
    for job in jobs:
        if not job.model:
            job.model = _drawn(_shares(by_gpus, int(job.gpus)), _uniform(f"{seed}/{mix}/{job.job_id}"))


def _shares(by_gpus: tuple[tuple[int, Shares], ...], gpus: int) -> Shares:
    return next(shares for most, shares in by_gpus if gpus <= most)


def _drawn(shares: Shares, point: float) -> str:
    """The model on whose stretch the point, from [0, 1), falls."""
    left = point * sum(shares.values())
    for model, weight in shares.items():
        left -= weight
        if left < 0:
            return model
    return model  # rounding left nothing


def _uniform(key: str) -> float:
    """A number from [0, 1) that depends on the key alone, on any machine."""
    return int.from_bytes(blake2b(key.encode(), digest_size=6).digest(), "big") / (1 << 48)
