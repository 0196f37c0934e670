"""Measured step times by placement (Pollux's testbed): is a spread gang slower, and which model suffers?"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from statistics import mean

from benchmarks.nccl_fit import nelder_mead
from dally.cluster.links import Links, connect
from dally.cluster.topology import grid
from dally.model import Profile
from dally.perf.iteration import demand_of
from dally.perf.queries import placed

REFERENCE = Path(__file__).resolve().parents[2] / "shared" / "reference" / "model_facts.csv.gz"
MACHINE_GPUS = 4

# Gradient bytes, 4 per parameter. BERT-base, ResNet-50 and ResNet-18: the `params` rows of the same file.
# YOLOv3: 61.9 M (Redmon and Farhadi 2018, as ultralytics counts it). DeepSpeech2: 38 M (Amodei et al. 2015, the
# size of the networks they compare). NeuMF: 1.6 M (He et al. 2017; 9,746 users and items of MovieLens-1M, 32
# factors, 3 layers). The testbed's own variants of the last three are not stated: part of the error is theirs.
GRADIENT_BYTES = {
    "BERT fine-tune": 440e6, "ResNet-50 ImageNet": 102_228_128.0, "ResNet18 CIFAR10": 46_758_048.0,
    "YOLOv3": 247.6e6, "DeepSpeech2": 152e6, "NeuMF MovieLens": 6.4e6,
}  # fmt: skip


@dataclass(frozen=True)
class Step:
    """One measured step; `split` is the GPUs on each machine."""

    model: str
    batch: float
    split: tuple[int, ...]
    step_s: float
    compute_s: float  # of the same batch on one GPU


def read_steps(path: Path = REFERENCE) -> list[Step]:
    with gzip.open(path, "rt", newline="") as file:
        records = [record for record in csv.DictReader(file) if record["kind"] == "placement"]
    one = {(r["model"], r["batch_per_gpu"]): float(r["iter_ms"]) / 1e3 for r in records if r["n_gpus"] == "1"}
    return [
        Step(
            record["model"].removeprefix("pollux:"),
            float(record["batch_per_gpu"]),
            tuple(int(digit) for digit in record["placement"]),
            float(record["iter_ms"]) / 1e3,
            one[record["model"], record["batch_per_gpu"]],
        )
        for record in records
        if (record["model"], record["batch_per_gpu"]) in one
    ]


@dataclass(frozen=True)
class Testbed:
    """Its network, and what the framework adds to every step of more than one GPU."""

    links: Links
    overhead_s: float

    def step_s(self, step: Step) -> float:
        """Seconds the model gives, gradients hiding under the backward pass as far as they can."""
        network = connect(grid(1, 16, MACHINE_GPUS), self.links)
        gang = placed(network, dict(enumerate(step.split)))
        demand = demand_of(network, gang, Profile(step.compute_s, GRADIENT_BYTES[step.model]), "ring")
        return demand.iteration_s(demand.alone_s) + self.overhead_s


def fitted_on(steps: Sequence[Step]) -> list[Step]:
    """Every other batch size of each model, on at most one machine's number of GPUs."""
    batches: dict[str, list[float]] = {}
    for model in GRADIENT_BYTES:
        batches[model] = sorted({step.batch for step in steps if step.model == model})[::2]
    return [step for step in steps if 1 < sum(step.split) <= MACHINE_GPUS and step.batch in batches[step.model]]


def fit_testbed(steps: Sequence[Step]) -> Testbed:
    """The testbed, which is not described, from these runs of all models alike: five constants."""

    def testbed_at(point: Sequence[float]) -> Testbed:
        fabric_gbps, fabric_latency_s, nic_gbps, nic_latency_s, overhead_s = map(exp, point)
        links = Links(
            "pollux-testbed",
            fabric="pcie",
            fabric_gbps=fabric_gbps,
            fabric_latency_s=fabric_latency_s,
            nic_gbps=nic_gbps,
            nic_latency_s=nic_latency_s,
            algorithms="ring",
        )
        return Testbed(links, overhead_s)

    def loss(point: Sequence[float]) -> float:
        testbed = testbed_at(point)
        return mean(abs(log(testbed.step_s(step) / step.step_s)) for step in steps)

    start = [log(value) for value in (5.0, 1e-5, 1.0, 1e-4, 1e-3)]
    return testbed_at(nelder_mead(loss, nelder_mead(loss, start, 0.5), 0.3))


def sensitivity(times: dict[tuple[str, float, tuple[int, ...]], float], model: str, gpus: int) -> float:
    """Mean over batch sizes of the step time on one machine each over that on one machine."""
    whole, apart = (gpus,), (1,) * gpus
    batches = sorted({batch for name, batch, split in times if name == model and split == whole})
    return mean(times[model, b, apart] / times[model, b, whole] for b in batches if (model, b, apart) in times)
