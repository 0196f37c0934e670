"""What jobs with like names and commands say of one that has not run: how far off its slowdown is taken to be.

usage: python -m benchmarks.alike [--jobs 1000] [--seeds 1,2,3]

No public trace has both names and models, so names are made up: users and sizes are Venus', each user has up to
three projects, each of one model of the benchmark's mix. Of the projects 45 % name the model's family in the job's
name, 25 % in the command line only, 20 % name a dataset that is always the same, 10 % nothing; no name comes twice.
Each job is learnt from as it ends, as if its steps had told its model. Error: |ln (slowdown it is taken for ÷ its
own)|, with its gang split far apart on the congested network, before it has run.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass
from math import log
from typing import Final

import dally.perf.model_weights as model_weights
from dally.benchmark.cells import VENUS
from dally.benchmark.tables_page import shared_folder
from dally.job_spec import JobSpec
from dally.model import Job
from dally.perf.hidden_model import HiddenModel
from dally.perf.model_weights import ModelWeights
from dally.runs.assemble import assemble
from dally.runs.scenario import Scenario
from dally.traces import read_history
from dally.traces.mixes import assign_models

DATASETS: Final = ("squad", "wiki", "pile", "imagenet", "coco", "laion", "criteo", "librispeech", "ade20k", "cifar")
NOTHING: Final = ("run.sh", "train.sh", "job.sh", "python main.py", "bash start.sh", "sh test.sh")
CASES: Final = ("mix of its size", "and user", "and like texts")


@dataclass
class Project:
    """What one user trains, and how its jobs are called."""

    model: str
    kind: float  # which of the four ways
    code: str
    dataset: str

    def texts(self, draw: random.Random, number: int) -> tuple[str, str]:
        """The name and the command line of its next job."""
        family = self.model.partition("-")[0].rstrip("0123456789")
        tag = f"{draw.choice(('lr', 'seed', 'v', 'exp', 'try'))}{number}"
        options = f"--lr {draw.choice(('1e-4', '3e-4', '0.1'))} --batch-size {draw.choice((16, 32, 64, 256))}"
        if self.kind < 0.45:
            return f"{family}_{draw.choice((self.dataset, self.code))}_{tag}", f"python train.py {options}"
        if self.kind < 0.7:
            script = draw.choice((f"--model {self.model}", f"--config configs/{self.model}/{tag}.yaml"))
            return f"{draw.choice(('train', 'finetune', 'exp'))}-{tag}", f"torchrun train.py {script} {options}"
        if self.kind < 0.9:
            return f"{self.code}-{tag}", f"python run.py --data /data/{self.dataset} {options}"
        return f"{draw.choice(('job', 'run', 'test'))}{number}", draw.choice(NOTHING)


def named_jobs(count: int, seed: int) -> list[Job]:
    """Gangs of Venus with made-up projects; what each trains is its `model`."""
    draw = random.Random(seed)
    rows = [row for row in read_history(shared_folder() / "traces" / VENUS).rows if row.spec.gpus > 1][:count]
    projects: dict[str, list[Project]] = {}
    jobs: list[Job] = []
    for place, row in enumerate(rows):
        own = projects.setdefault(row.spec.user, [])
        if not own or (len(own) < 3 and draw.random() < 0.1):
            plain = Job(place, f"{seed}-{place}", 0.0, row.spec.gpus, 1.0)
            assign_models([plain], "benchmark", seed)
            code = "".join(draw.choice("abdegiklmnoprstuv") for _ in range(6))
            own.append(Project(plain.model, draw.random(), code, draw.choice(DATASETS)))
        project = draw.choice(own)
        name, command = project.texts(draw, place)
        spec = JobSpec(row.spec.gpus, user=row.spec.user, name=name, command_line=command)
        jobs.append(Job(place, str(place), row.submit_s, row.spec.gpus, row.stated, project.model, spec))
    return jobs


def errors(jobs: list[Job], seed: int) -> dict[str, float]:
    """The mean error of each case."""
    scenario = Scenario("examples/jobs.csv", "10x8x8", "dally", network="congested", sensitivity="hidden")
    hidden = assemble(scenario)[0].state.speed
    assert isinstance(hidden, HiddenModel)
    speed = hidden.believed
    sums = dict.fromkeys((*CASES, "resnet50"), 0.0)
    all_weights = {case: ModelWeights(len(speed.models)) for case in CASES}
    for job in jobs:
        far = speed.levels(job).far
        own = log(far[speed.models.index(job.model)])
        chain = model_weights.chain_of(job)
        for depth, case in enumerate(CASES, 2):
            weights = all_weights[case].prior(chain[:depth])
            mean = sum(weight * slowdown for weight, slowdown in zip(weights, far, strict=True))
            sums[case] += abs(log(mean) - own)
            all_weights[case].state(job, speed.models.index(job.model))
        sums["resnet50"] += abs(log(far[speed.models.index("resnet50")]) - own)
    return {case: value / len(jobs) for case, value in sums.items()}


def main() -> None:
    """A line for each seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--seeds", default="1,2,3")
    arguments = parser.parse_args()
    print(f"| seed | resnet50 | {' | '.join(CASES)} |\n|---|---|---|---|---|")
    for seed in map(int, arguments.seeds.split(",")):
        found = errors(named_jobs(arguments.jobs, seed), seed)
        print(f"| {seed} | {found['resnet50']:.3f} | {' | '.join(f'{found[case]:.3f}' for case in CASES)} |")


if __name__ == "__main__":
    main()
