"""Three types of GPU: what it is worth to know how fast each job is on each, as tables in Markdown.

usage: python -m benchmarks.types [--loads 0.6,1.0,1.5] [--seeds 1,2,3] [--jobs 600] [--policies NAME[:KEY=VALUE],…]
                                  [--recipe NAME]

4 machines of 8 H100, 4 of 8 A100 and 4 of 8 V100; speeds by model are the catalogue's, and nothing else differs
between places. Jobs are drawn as Gavel's authors drew theirs (OSDI 2020, section 7.1): Poisson arrivals, 10^x
minutes on an A100 with x even from 1.5 to 3 for four in five and from 3 to 4 for the others; 70 % take one GPU,
25 % two or four, 5 % eight. Models are drawn evenly from the catalogue's that fit on one GPU. Four jobs in five
accept any type, the others one, drawn evenly. Load: GPU-seconds asked for on A100s ÷ those of the cluster by its
speeds. A restart takes 30 s. --recipe: sizes and durations as `dally trace generate` draws them, up to 32 GPUs.
One core: 10 s a run under gavel and 2 s under the others, compiled.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from random import Random
from statistics import mean
from typing import Final, NamedTuple

from dally.perf.gpu_types import TypeSpeeds
from dally.runs.execute import execute
from dally.runs.scenario import Scenario
from dally.traces.generate.recipe import find_recipe
from dally.traces.generate.workload import WorkloadRequest, generate
from dally.traces.mixes import UNIFORM

TYPES: Final = ("H100", "A100", "V100")
MACHINES: Final = 4  # of each type, in a rack of their own
GPUS: Final = 8  # of a machine
ANY: Final = 0.8  # of the jobs accept any type
POLICIES: Final = "gavel,gavel:aware=false,dally,fifo-backfill,srtf,tiresias,las"


class Row(NamedTuple):
    """A job of the workload."""

    gpus: int
    duration_s: float
    model: str
    gpu_type: str


def draw(random: Random) -> Row:
    """The next job."""
    gpus = 1 if random.random() < 0.7 else 8 if random.random() < 0.05 / 0.3 else random.choice((2, 4))
    exponent = random.uniform(1.5, 3.0) if random.random() < 0.8 else random.uniform(3.0, 4.0)
    gpu_type = "" if random.random() < ANY else random.choice(TYPES)
    return Row(gpus, 60.0 * 10.0**exponent, random.choice(sorted(UNIFORM)), gpu_type)


def write_workload(path: Path, jobs: int, load: float, seed: int, recipe: str = "") -> None:
    """As many jobs at that load, as a trace; sizes and durations may be those of a recipe."""
    random = Random(seed)
    rows = [draw(random) for _ in range(jobs)]
    if recipe:
        made = generate(find_recipe(recipe), WorkloadRequest(seed=seed, jobs=jobs, gpus=MACHINES * GPUS)).jobs
        rows = [row._replace(gpus=job.gpus, duration_s=job.duration_s) for row, job in zip(rows, made, strict=True)]
    speeds = TypeSpeeds(TYPES, {})
    a100s = MACHINES * GPUS * sum(mean(1.0 / speeds.step_s(model, kind) for model in UNIFORM) for kind in TYPES)
    gap_s = mean(row.gpus * row.duration_s for row in rows) / (load * a100s)
    now = 0.0
    lines = ["job_id,submit_s,gpus,duration_s,model,gpu_type"]
    for number, row in enumerate(rows):
        own_s = row.duration_s * (speeds.step_s(row.model, row.gpu_type) if row.gpu_type else 1.0)
        lines.append(f"j{number},{now:.0f},{row.gpus},{own_s:.0f},{row.model},{row.gpu_type}")
        now += random.expovariate(1.0 / gap_s)
    path.write_text("\n".join(lines) + "\n")


def write_cluster(path: Path) -> None:
    """Twelve machines in three racks."""
    tiers = [f'[[tiers]]\nname = "{name}"\n' for name in ("machine", "rack", "network")]
    machines = [
        f'[[machines]]\npath = "rack-{kind}"\nnames = "{kind.lower()}-[1-{MACHINES}]"\n'
        f'gpus = {GPUS}\ngpu_type = "{kind}"\n'
        for kind in TYPES
    ]
    path.write_text("\n".join([*tiers, *machines]))


def run(policy: str, trace: Path, cluster: Path, seed: int) -> dict[str, float]:
    """The summary of one run, in hours."""
    name, _, settings = policy.partition(":")
    given = dict(part.split("=", 1) for part in settings.split(":") if part)
    scenario = Scenario(
        trace=str(trace), cluster=str(cluster), policy=name, settings=given, seed=seed, restart_s=30.0,
        restart_per_gpu_s=0.0,
    )  # fmt: skip
    summary = execute(scenario).summary
    return {key: summary[f"{key}_s"] / 3600.0 for key in ("jct_mean", "jct_p99", "makespan")}


def table(load: float, seeds: list[int], jobs: int, policies: list[str], folder: Path, recipe: str) -> None:
    """Print a row a policy, means over seeds; the change is the mean over seeds of ratios to the first policy."""
    cluster = folder / "cluster.toml"
    write_cluster(cluster)
    print(f"\nload {load:g}\n\n| policy | mean JCT, h | against {policies[0]} | p99, h | makespan, h |")
    print("|---|---|---|---|---|")
    first: list[float] = []
    for policy in policies:
        found: list[dict[str, float]] = []
        for seed in seeds:
            trace = folder / f"{load:g}-{seed}.csv"
            write_workload(trace, jobs, load, seed, recipe)
            found.append(run(policy, trace, cluster, seed))
        first = first or [one["jct_mean"] for one in found]
        change = mean(one["jct_mean"] / base for one, base in zip(found, first, strict=True)) - 1.0
        hours = [mean(one[key] for one in found) for key in ("jct_mean", "jct_p99", "makespan")]
        print(f"| {policy} | {hours[0]:.1f} | {change:+.1%} | {hours[1]:.0f} | {hours[2]:.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", default="0.6,1.0,1.5")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--jobs", type=int, default=600)
    parser.add_argument("--recipe", default="")
    parser.add_argument("--policies", default=POLICIES)
    given = parser.parse_args()
    seeds = [int(seed) for seed in given.seeds.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        for load in given.loads.split(","):
            table(float(load), seeds, given.jobs, given.policies.split(","), Path(folder), given.recipe)


if __name__ == "__main__":
    main()
