"""Cells of large models on today's fabrics: jobs drawn by seed from public sizes, durations and arrivals."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from hashlib import blake2b
from math import log2
from pathlib import Path
from typing import Final, NamedTuple

from dally.errors import InputError
from dally.job_spec import JobSpec
from dally.perf.profiles import find_model, load_profiles
from dally.traces import read_history
from dally.traces.rows import TraceRow

PROFILES: Final = "large-models"
LINGJUN: Final = "alibaba_lingjun2023.csv.gz"
LINGJUN_SIZES: Final = "lingjun_model_gpu_mix.csv"
LEAST_S: Final = 30.0  # what the trace calls 0 minutes lasted so long on average
MOST_S: Final = 86400.0  # a few jobs of a week and more would be all that makespan and load depend on

# Our model for each name of Lingjun. DLM and word_embedding train no language model. At 256 GPUs and more they are
# the only jobs of that size, and stand for the largest two.
MODEL_OF: Final = {
    "65b": "llama3-70b", "66b": "llama3-70b", "130b-infer": "llama3-70b", "GPT-13B": "llama2-13b",
    "GPT-13b": "llama2-13b", "GPT-3b": "gpt-3b", "GPT-7b": "llama2-7b", "ResNet": "resnet50", "gpt": "gpt2-xl",
    "llama": "llama2-7b", "llama_30b": "llama-30b", "mnist": "mobilenet-v3-small", "DLM": "llama2-13b",
    "word_embedding": "llama3-405b",
}  # fmt: skip
LARGE_DLM: Final = (256, "gpt3-175b")

# Gangs in racks of 72: how many of a hundred jobs have that size, and the models that they train in equal parts.
RACK_SIZES: Final[dict[int, tuple[float, tuple[str, ...]]]] = {
    4: (22.0, ("gpt-3b", "llama2-7b")),
    8: (20.0, ("llama2-7b", "llama2-13b")),
    16: (14.0, ("llama2-13b", "llama-30b")),
    32: (12.0, ("llama-30b", "llama3-70b")),
    64: (10.0, ("llama3-70b", "gpt3-175b")),
    72: (8.0, ("llama-30b", "llama2-13b")),
    144: (6.0, ("llama3-70b", "llama-30b")),
    256: (4.0, ("llama3-405b", "deepseek-v3")),
    288: (2.5, ("gpt3-175b", "llama3-70b")),
    576: (1.5, ("gpt3-175b", "llama3-70b")),
}


class Size(NamedTuple):
    """A gang's GPUs and model, and how often it is drawn."""

    gpus: int
    model: str
    weight: float


class Draw(NamedTuple):
    """How a cell's jobs are drawn: how many, for how many GPUs, and which share of their time the demand fills."""

    jobs: int
    gpus: int
    load: float
    sizes: str  # a file of `shared/traces`; empty: RACK_SIZES

    def rows(self, traces: Path, seed: int) -> list[TraceRow]:
        """The jobs of that seed: sizes by weight, durations of the trace's gangs of that size, its arrivals."""
        sizes = read_sizes(traces / self.sizes) if self.sizes else rack_sizes()
        history = read_history(traces / LINGJUN, format="csv").rows
        by_class: dict[int, list[float]] = {}
        for row in history:
            by_class.setdefault(_class(row.spec.gpus), []).append(min(row.stated or LEAST_S, MOST_S))
        drawn: list[TraceRow] = []
        for number, row in enumerate(sorted(history, key=lambda row: row.submit_s)[: self.jobs]):
            key = f"{seed}/{self.gpus}/{number}"
            size = _drawn(sizes, _uniform(f"{key}/size"))
            options = _nearest(by_class, _class(size.gpus))
            duration_s = options[int(_uniform(f"{key}/duration") * len(options))]
            spec = JobSpec(gpus=size.gpus, model=size.model, user=row.spec.user)
            drawn.append(row._replace(job_id=f"j{number}", spec=spec, stated=duration_s))
        return self._spread(drawn)

    def _spread(self, rows: list[TraceRow]) -> list[TraceRow]:
        """Arrivals moved apart or together until the demand fills its share of the GPUs; whole seconds."""
        demand = sum(row.spec.gpus * row.stated for row in rows)
        first_s = rows[0].submit_s
        scale = demand / (self.load * self.gpus) / (rows[-1].submit_s - first_s)
        return [row._replace(submit_s=float(round((row.submit_s - first_s) * scale))) for row in rows]


def read_sizes(path: Path) -> list[Size]:
    """The joint distribution of models and GPUs, in our models; jobs without GPUs are left out."""
    if not path.exists():
        raise InputError(f"{path}: is not here; see shared/traces/README.md")
    replicas = replica_gpus()
    result: list[Size] = []
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            gpus = int(row["total_gpu"])
            if gpus == 0:
                continue
            model = MODEL_OF[row["model"]]
            if row["model"] == "DLM" and gpus >= LARGE_DLM[0]:
                model = LARGE_DLM[1]
            result.append(Size(_whole(gpus, replicas.get(model, 1)), model, float(row["jobs"])))
    return result


def rack_sizes() -> list[Size]:
    """Sizes and models of the cell of NVL72 racks."""
    return [
        Size(gpus, model, weight / len(models)) for gpus, (weight, models) in RACK_SIZES.items() for model in models
    ]


def replica_gpus() -> Mapping[str, int]:
    """GPUs that a replica of each large model takes."""
    catalogue = load_profiles(Path(PROFILES))
    models = {name: find_model(name, catalogue) for name in catalogue.models}
    return {name: model.large.replica.gpus for name, model in models.items() if model.large is not None}


def _whole(gpus: int, replica: int) -> int:
    """As many whole replicas as there is room for; what is smaller than one keeps its size."""
    return gpus - gpus % replica if gpus >= replica else gpus


def _class(gpus: int) -> int:
    return round(log2(gpus))


def _nearest(by_class: Mapping[int, list[float]], desired: int) -> list[float]:
    return by_class[min(by_class, key=lambda known: (abs(known - desired), known))]


def _drawn(sizes: list[Size], point: float) -> Size:
    left = point * sum(size.weight for size in sizes)
    for size in sizes:
        left -= size.weight
        if left < 0:
            return size
    return sizes[-1]


def _uniform(key: str) -> float:
    """A number from [0, 1) that depends on the key alone, on any machine."""
    return int.from_bytes(blake2b(key.encode(), digest_size=6).digest(), "big") / (1 << 48)
