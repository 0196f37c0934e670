"""Clusters that recorded what they did: our own simulator under `slurm-backfill`, its network known to us alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import NamedTuple

from dally.cluster.formats.hostlist import fold
from dally.cluster.spec import read_topology
from dally.job_spec import JobSpec
from dally.metrics.simulated import Simulated
from dally.model import FINISHED
from dally.runs.execute import execute
from dally.runs.scenario import Scenario
from dally.traces import History
from dally.traces.generate import WorkloadRequest, generate
from dally.traces.generate.recipe import find_recipe
from dally.traces.mixes import find_mix
from dally.traces.rows import TraceRow
from dally.traces.writing import text_of

LIMITS_H = (1, 2, 4, 8, 12, 24, 48, 96, 168, 336, 672)


class Lab(NamedTuple):
    """A cluster, its network, and what its users submit: the same jobs again and again, within some percent."""

    recipe: str
    jobs: int
    load: float
    cluster: str
    network: str
    seed: int
    within: float = 0.1  # standard deviation of a name's durations, as a share
    name: str = ""

    def told(self) -> str:
        """The lab in a few words."""
        return self.name or f"{self.recipe}, {self.cluster}, {self.network}, seed {self.seed}"


def submitted(lab: Lab) -> History:
    """What users submit: every name has one model, one size, one usual duration; limits are round and too long."""
    gpus = read_topology(lab.cluster).total_gpus()
    made = generate(find_recipe(lab.recipe), WorkloadRequest(lab.seed, lab.jobs, None, lab.load, gpus))
    draw = Random(lab.seed)
    usual_s: dict[str, float] = {}
    models: dict[str, str] = {}
    rows = []
    for job in made.jobs:
        usual_s.setdefault(job.name, float(job.duration_s))
        models.setdefault(job.name, _model(job.gpus, draw))
        duration_s = max(1.0, round(usual_s[job.name] * draw.lognormvariate(0.0, lab.within)))
        limit_h = next((hours for hours in LIMITS_H if hours * 3600 >= 1.3 * duration_s), LIMITS_H[-1])
        spec = JobSpec(
            job.gpus, model=models[job.name], name=job.name, user=job.user, partition="gpu",
            account=f"team{int(job.user[1:]) % 3}", limit_s=limit_h * 3600.0,
        )  # fmt: skip
        rows.append(TraceRow(0, job.job_id, float(job.submit_s), spec, duration_s))
    return History(rows, "duration_s", "csv", {}, {}, None)


def _model(gpus: int, draw: Random) -> str:
    shares = next(shares for most, shares in find_mix("benchmark").by_gpus if gpus <= most)
    return draw.choices(list(shares), list(shares.values()))[0]


def write(history: History, path: Path) -> str:
    """The history as a csv of that name."""
    path.write_text("".join(text_of(history, "csv")), encoding="utf-8")
    return str(path)


def truth(lab: Lab, policy: str, folder: Path) -> Simulated:
    """What happens under the policy."""
    return execute(
        Scenario(
            trace=write(submitted(lab), folder / "submitted.csv"), cluster=lab.cluster, policy=policy,
            network=lab.network,
        )
    )  # fmt: skip


def record(lab: Lab, folder: Path) -> tuple[Simulated, str]:
    """What happened under `slurm-backfill`, and the file in which the cluster recorded it."""
    happened = truth(lab, "slurm-backfill", folder)
    return happened, write(as_recorded(happened), folder / "recorded.csv")


def as_recorded(record: Simulated, known_models: bool = True) -> History:
    """Finished jobs with their first place; for policies that start every job once."""
    starts = record.events.filter(record.events["kind"] == "start").select("job_id", "machines", "machine_gpus")
    places = {job_id: (names, counts) for job_id, names, counts in starts.iter_rows()}
    rows = [
        TraceRow(
            0, job.job_id, job.submit_s, replace(job.spec, model=job.model if known_models else ""),
            job.finish_s - job.start_s, "COMPLETED", job.start_s - job.submit_s, len(places[job.job_id][0]),
            "+".join(map(str, places[job.job_id][1])), ",".join(fold(places[job.job_id][0])),
        )
        for job in record.outcomes
        if job.status == FINISHED
    ]  # fmt: skip
    return History(rows, "duration_s", "csv", {}, {}, None)
