"""CASSINI's time shifts and Crux's priorities against fair sharing, on set-ups like their authors'.

`python -m benchmarks.link_sharing` draws jobs and runs them under each policy and way of sharing links: means over
seeds. `alone`: nobody slows anybody down, which no sharing beats. `standing` fills the machines once and prints the
share of GPU time that computes. `shifts` is what time shifts gain between equal jobs that together just fit a link.

`cassini`: 24 machines of one A100 with a 50-Gb NIC, two below each leaf, 2:1, 13 models, one to twelve GPUs.
`crux`: twelve machines of eight A100 with four 200-Gb NICs, GPT, BERT and ResNet. Their papers describe both
testbeds. Durations, arrivals, batches (the catalogue's), and for `crux` the leaves (three machines, 4:1) are ours.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from librt.vecs import vec
from mypy_extensions import i64

from dally.perf.cassini import CassiniContention
from dally.perf.contention import Contention
from dally.perf.costs import Cost
from dally.perf.iteration import Demand
from dally.runs.assemble import assemble
from dally.runs.execute import execute
from dally.runs.scenario import Scenario

ALONE = "alone"  # nobody slows anybody down: what no sharing beats
SHARINGS = ("fair", "cassini", "crux", ALONE)
POLICIES = ("themis", "fifo-backfill", "dally")
STANDING = 20  # fillings of the machines
FIGURES = ("jct_mean_s", "jct_p99_s", "computing", "comm_gpu_s", "cpu_s")


class Setup(NamedTuple):
    """A testbed, and the jobs that run there: models, and sizes with their weights."""

    cluster: str
    network: str
    settings: dict[str, str]
    models: tuple[str, ...]
    sizes: dict[int, int]
    hours: tuple[float, float]  # the shortest and the longest job
    load: float


SETUPS = {
    "cassini": Setup(
        "12x2x1",
        "a100-nvswitch-8x200g",
        {"nic_count": "1", "nic_gbps": "6.25", "oversubscription": "2", "chooses": "fastest"},
        (
            "alexnet", "vgg16", "resnet18", "resnet50", "inception-v3", "densenet121", "mobilenet-v2", "bert-base",
            "bert-large", "transformer-big", "gnmt", "gpt2", "dlrm",
        ),
        {1: 1, 2: 1, 3: 1, 4: 2, 5: 1, 6: 2, 8: 2, 12: 1},
        (0.05, 1.0),
        0.9,
    ),
    "crux": Setup(
        "4x3x8",
        "a100-nvswitch-8x200g",
        {"nic_count": "4", "oversubscription": "4", "chooses": "fastest"},
        ("gpt-7b", "bert-large", "resnet50"),
        {8: 2, 16: 3, 24: 1, 32: 3, 48: 1},
        (0.1, 2.0),
        0.9,
    ),
}  # fmt: skip


def write_jobs(setup: Setup, seed: int, jobs: int, path: Path) -> None:
    """Poisson arrivals at the load, durations uniform on a logarithmic scale."""
    rng = random.Random(seed)
    racks, machines, gpus = (int(count) for count in setup.cluster.split("x"))
    rows: list[dict[str, object]] = []
    work_gpu_s = 0.0
    for number in range(jobs):
        shortest, longest = setup.hours
        duration_s = 3600.0 * shortest * (longest / shortest) ** rng.random()
        size = rng.choices(list(setup.sizes), list(setup.sizes.values()))[0]
        model = rng.choice(setup.models)
        work_gpu_s += size * duration_s
        rows.append({"job_id": number, "gpus": size, "duration_s": round(duration_s, 1), "model": model})
    span_s = work_gpu_s / (racks * machines * gpus * setup.load)
    moment_s = 0.0
    for row in rows:
        moment_s += rng.expovariate(jobs / span_s)
        row["submit_s"] = round(moment_s, 1)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ("job_id", "submit_s", "gpus", "duration_s", "model"), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def scenario(setup: Setup, trace: Path, policy: str, sharing: str, seed: int) -> Scenario:
    """The run of these jobs; the policy as NAME or NAME:KEY=VALUE."""
    name, _, setting = policy.partition(":")
    key, _, value = setting.partition("=")
    return Scenario(
        trace=str(trace),
        cluster=setup.cluster,
        policy=name,
        settings={key: value} if key else {},
        seed=seed,
        network=setup.network,
        network_settings={**setup.settings, **({} if sharing == ALONE else {"sharing": sharing})},
        contention="off" if sharing == ALONE else "on",
        restart_per_gpu_s=1.0,
    )


def run(name: str, policy: str, sharing: str, seed: int, jobs: int, folder: Path) -> dict[str, Any]:
    """The figures of one run; `computing`: the share of held GPU time that computes."""
    setup = SETUPS[name]
    trace = folder / f"{name}-{seed}.csv"
    if not trace.exists():
        write_jobs(setup, seed, jobs, trace)
    summary = execute(scenario(setup, trace, policy, sharing, seed)).summary
    held_gpu_s = summary["compute_gpu_s"] + summary["comm_gpu_s"]
    return {**summary, "computing": summary["compute_gpu_s"] / held_gpu_s}


def standing(name: str, sharing: str, seed: int, jobs: int, folder: Path) -> float:
    """The share of held GPU time that computes when all jobs have come at once and some have started."""
    setup = SETUPS[name]
    trace = folder / f"{name}-{seed}-standing.csv"
    write_jobs(setup._replace(load=1e9), seed, jobs, trace)
    simulation, _ = assemble(scenario(setup, trace, "fifo-backfill", sharing, seed))
    simulation.run(10.0)
    running = [job for job in simulation.jobs if job.allocation is not None]
    held = sum(int(job.gpus) for job in running)
    return float(sum(int(job.gpus) * (1.0 - job.comm_rate) for job in running) / held)


def gain_of_shifts(jobs: int, hidden: float) -> float:
    """How many times as fast equal jobs are with shifts as at random, that transfer for 1 / jobs of each step."""
    cost = Cost()
    cost.links, cost.seconds = vec[i64]([0]), vec[float]([1.0])
    demand = Demand((jobs - 1.0) * (1.0 - hidden), (jobs - 1.0) * hidden + hidden, cost, 1.0 - hidden)
    times = []
    for sharing in (Contention(1), CassiniContention(1)):
        for job in range(jobs):
            sharing.add(job, demand)
        times.append(sharing.iteration_s(0))
    return times[0] / times[1]


def print_extras(options: argparse.Namespace, folder: Path) -> None:
    """The tables of standing jobs and of what shifts gain at most."""
    print(f"\n{'standing':<9}" + "".join(f"{sharing:>9}" for sharing in options.sharings))
    for name in options.setups:
        means = [
            mean(standing(name, sharing, seed, options.jobs, folder) for seed in range(1, STANDING + 1))
            for sharing in options.sharings
        ]
        print(f"{name:<9}" + "".join(f"{value:>9.1%}" for value in means))
    print("\nshifts   exposed   all hidden but the last half")
    for jobs in (2, 3, 4):
        print(f"{jobs} jobs {gain_of_shifts(jobs, 0.0):>10.2f}{gain_of_shifts(jobs, 0.5):>10.2f}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table per set-up, or rows as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.link_sharing", description=__doc__)
    parser.add_argument("--setups", nargs="+", default=list(SETUPS), choices=list(SETUPS))
    parser.add_argument("--policies", nargs="+", default=list(POLICIES), metavar="NAME[:KEY=VALUE]")
    parser.add_argument("--sharings", nargs="+", default=list(SHARINGS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.setups:
            for policy in options.policies:
                for sharing in options.sharings:
                    each = [run(name, policy, sharing, seed, options.jobs, Path(folder)) for seed in options.seeds]
                    means = {key: sum(row[key] for row in each) / len(each) for key in FIGURES}
                    rows.append({"setup": name, "policy": policy, "sharing": sharing, **means})
                    print(name, policy, sharing, f"{means['cpu_s']:.1f} s CPU", file=sys.stderr, flush=True)
        if not options.json:
            print_rows(rows)
            print_extras(options, Path(folder))
            return
    print(json.dumps(rows, indent=2))


def print_rows(rows: list[dict[str, Any]]) -> None:
    """The table of runs."""
    print(f"{'set-up':<9}{'policy':<21}{'sharing':<9}{'mean JCT, h':>12}{'p99, h':>8}{'computing':>11}{'CPU s':>7}")
    for row in rows:
        print(
            f"{row['setup']:<9}{row['policy']:<21}{row['sharing']:<9}{row['jct_mean_s'] / 3600:>12.3f}"
            f"{row['jct_p99_s'] / 3600:>8.2f}{row['computing']:>11.1%}{row['cpu_s']:>7.1f}"
        )


if __name__ == "__main__":
    main()
