"""Made-up sites with known truth: what `dally whatif` finds of them from their accounting records alone.

    python -m benchmarks.calibration_sites [--jobs 1500]

Each site runs jobs under hidden settings in the simulator, and leaves what Slurm would: `sacct --parsable2` with
whole seconds, partitions, node lists and time limits. `dally whatif` gets the record and a list of machines, and
nothing else.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

from dally.cli.main import exit_code
from dally.cluster.formats.writers import to_toml
from dally.cluster.partitions import Partition
from dally.cluster.topology import Machine, Topology
from dally.job_spec import JobSpec
from dally.runs.execute import execute
from dally.runs.folder import FolderRecord
from dally.runs.scenario import Scenario
from dally.traces import History
from dally.traces.generate import WorkloadRequest, find_recipe, generate
from dally.traces.rows import TraceRow
from dally.traces.writing import text_of

EPOCH_S = 1_700_000_000.0
LOAD = 0.95
LARGEST = 32  # GPUs of a job

Change = Callable[[JobSpec, Random], JobSpec]


@dataclass(frozen=True)
class Site:
    """A cluster, what its users submit, and the settings that the record does not state."""

    name: str
    machines: Sequence[Machine]
    policy: str
    settings: dict[str, str] = field(default_factory=dict)
    partitions: dict[str, str] = field(default_factory=dict)  # the first letter of machine names by partition
    submitted: Change = lambda spec, _: spec
    given: int = 0  # machines that the operator forgets to list


def racks(letter: str, count: int, machines: int, kind: str = "") -> list[Machine]:
    """Machines of 8 GPUs in racks."""
    return [
        Machine((f"{letter}rack{rack}",), f"{letter}{rack}n{place}", 8, kind)
        for rack in range(count)
        for place in range(machines)
    ]


def limited(spec: JobSpec, draw: Random) -> JobSpec:
    """A time limit as users state it: several times what the job takes, in round hours."""
    hours = max(1.0, round((spec.duration_s or 0.0) / 3600.0 * draw.choice((1.5, 2.0, 4.0))))
    return replace(spec, limit_s=3600.0 * hours)


def of_three(spec: JobSpec, draw: Random) -> JobSpec:
    """Whole nodes go to `wide`; of the others, four in ten are content with older GPUs."""
    if spec.gpus >= 8:
        return replace(spec, partition="wide", gpus=8 * (spec.gpus // 8))
    return replace(spec, partition="old" if draw.random() < 0.4 else "main")


SITES = (
    Site("one partition", racks("a", 3, 6), "fifo-backfill", {"tier": "closest"}),
    Site(
        "three partitions",
        [*racks("w", 2, 6, "A100"), *racks("m", 1, 6, "A100"), *racks("o", 1, 6, "V100")],
        "fifo-backfill",
        {},
        {"wide": "w", "main": "m", "old": "o"},
        of_three,
    ),
    Site("time limits", racks("a", 3, 6), "slurm-backfill", {}, {}, limited),
    Site("a record of a larger cluster", racks("a", 3, 6), "fifo-backfill", given=6),
)


def cluster_text(site: Site, truth: bool) -> str:
    """The topology file: the site's own, or what its operator gives."""
    machines = list(site.machines)[: None if truth or not site.given else -site.given]
    topology = Topology(["machine", "rack", "network"], machines)
    if truth:
        numbers = topology.machine_numbers()
        topology.partitions = [
            Partition(name, frozenset(numbers[one.name] for one in machines if one.name.startswith(letter)))
            for name, letter in site.partitions.items()
        ]
    return to_toml(topology)


def submissions(site: Site, jobs: int, seed: int) -> list[TraceRow]:
    """What the users submit."""
    draw = Random(seed)
    gpus = sum(machine.gpus for machine in site.machines)
    made = generate(find_recipe("venus-like"), WorkloadRequest(seed=seed, jobs=jobs, load=LOAD, gpus=gpus))
    rows = []
    for number, job in enumerate(made.jobs):
        spec = JobSpec(min(job.gpus, LARGEST), user=job.user, name=job.name, duration_s=job.duration_s)
        rows.append(TraceRow(number, job.job_id, job.submit_s, site.submitted(spec, draw), job.duration_s))
    return rows


def record(site: Site, jobs: int, seed: int, folder: Path) -> History:
    """What happened at the site, as its accounting has it: whole seconds."""
    folder.mkdir(parents=True)
    (folder / "truth.toml").write_text(cluster_text(site, True))
    rows = submissions(site, jobs, seed)
    bare = [row._replace(spec=replace(row.spec, duration_s=None)) for row in rows]
    (folder / "jobs.csv").write_text("".join(text_of(History(bare, "duration_s", "csv", {}, {}, None), "csv")))
    scenario = Scenario(str(folder / "jobs.csv"), str(folder / "truth.toml"), site.policy, site.settings)
    execute(scenario, out=folder / "run")
    run = FolderRecord(folder / "run")
    starts = run.events.filter(run.events["kind"] == "start").select("job_id", "time_s", "machines")
    placed = {job_id: (time_s, machines) for job_id, time_s, machines in starts.iter_rows()}
    ran = [row for row in bare if row.job_id in placed]
    return History(
        [
            row._replace(
                submit_s=float(int(row.submit_s)),
                stated=float(max(1, int(row.stated))),
                wait_s=float(max(0, int(placed[row.job_id][0]) - int(row.submit_s))),
                nodes=",".join(placed[row.job_id][1]),
                status="COMPLETED",
            )
            for row in ran
        ],
        "duration_s", "csv", {}, {}, EPOCH_S,
    )  # fmt: skip


def ask(site: Site, jobs: int, folder: Path) -> dict[str, Any]:
    """The answer to `dally whatif` about the site's record, and the CPU seconds that it took."""
    history = record(site, jobs, 1, folder)
    (folder / "sacct.txt").write_text("".join(text_of(history, "sacct")))
    (folder / "cluster.toml").write_text(cluster_text(site, False))
    began = process_time()
    words = ["whatif", str(folder / "sacct.txt"), "--cluster", str(folder / "cluster.toml"), "--network", "none"]
    code = exit_code([*words, "--seed", "1", "--jobs", "1", "--skip-impossible", "--out", str(folder / "answer")])
    if code:
        raise SystemExit(f"{site.name}: exit code {code}")
    values: dict[str, Any] = json.loads((folder / "answer" / "whatif.json").read_text())
    return values | {"cpu_s": process_time() - began}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1500)
    jobs = parser.parse_args().jobs
    lines = ["| site | hidden | found | mean wait, recorded | replayed | verdict |", "|---|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as temporary:
        for number, site in enumerate(SITES):
            values = ask(site, jobs, Path(temporary) / str(number))
            hidden = ":".join([site.policy, *(f"{key}={value}" for key, value in site.settings.items())])
            whole, verdict = values["fit"]["whole"], values["verdict"]
            lines.append(
                f"| {site.name} | {hidden} | {values['calibration']['policy']} "
                f"| {whole['recorded_mean_s'] / 60:.1f} min | {whole['replayed_mean_s'] / 60:.1f} min "
                f"| {verdict['level']}: {'; '.join(verdict['reasons'])} |"
            )
    print("\n".join(lines))


if __name__ == "__main__":
    main()
