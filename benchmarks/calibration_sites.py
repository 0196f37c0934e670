"""Made-up sites with known truth: what `dally whatif` finds of them from their accounting records alone.

    python -m benchmarks.calibration_sites [--jobs 1500] [--only WORDS] [--seed 1]

Each site runs jobs under hidden settings in the simulator, and leaves what Slurm would: `sacct --parsable2` with
whole seconds, accounts, partitions, node lists and time limits, as the second half of the jobs begins: jobs that
run or wait then are in it as such. `dally whatif` gets this record and a list of machines, and nothing else. Its
forecast of what `dally` would change is compared with the second half, which ran under both.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from dally.benchmark.tables_page import shared_folder
from dally.cli.main import exit_code
from dally.cluster.formats.writers import to_toml
from dally.cluster.partitions import Partition
from dally.cluster.topology import Machine, Topology
from dally.job_spec import JobSpec
from dally.live.forecast.estimator import cpu_s
from dally.model import INFINITY
from dally.runs.execute import execute
from dally.runs.folder import FolderRecord
from dally.runs.scenario import Scenario
from dally.sweep.whatif.smaller import job_waits
from dally.traces import History, read_history
from dally.traces.generate import WorkloadRequest, find_recipe, generate
from dally.traces.readers.sacct import PENDING, RUNNING
from dally.traces.rows import NOT_KNOWN, TraceRow
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
    queues: str = ""  # limits, as a queues file
    trace: str = ""  # jobs of that file, and not made-up ones


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


def of_accounts(spec: JobSpec, draw: Random) -> JobSpec:
    """Four accounts, and time limits."""
    return limited(replace(spec, account=f"team{int(spec.user[1:] or 0) % 4}"), draw)


LIMITS = """
[queues.team0]
min_runtime = "3650d"
limit = 32
match = {account = ["team0"]}

[queues.team1]
min_runtime = "3650d"
limit = 48
match = {account = ["team1"]}

[queues.rest]
min_runtime = "3650d"
default = true
"""


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
    Site("fair share, limits", racks("a", 3, 6), "slurm-backfill", {}, {}, of_accounts, 0, LIMITS),
    Site("a record of a larger cluster", racks("a", 3, 6), "fifo-backfill", given=6),
)
# Jobs of public traces, on clusters so small that jobs wait.
TRACES = (
    Site("Venus", racks("v", 8, 12), "fifo-backfill", {"tier": "closest"}, trace="helios_venus_window20d.csv.gz"),
    Site("ITP", racks("i", 6, 12), "fifo-backfill", trace="ms_itp2021_cluster04.csv.gz"),
    Site("Philly", racks("p", 16, 16), "slurm-backfill", {}, {}, limited, trace="philly_win14d.csv.gz"),
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
    if site.trace:
        largest = sum(machine.gpus for machine in site.machines)
        history = read_history(shared_folder() / "traces" / site.trace)
        return [
            row._replace(
                spec=site.submitted(replace(row.spec, gpu_type="", duration_s=row.stated), draw),
                wait_s=NOT_KNOWN,
                nodes="",
                placement="",
                machines=0,
                status="",
            )
            for row in history.rows
            if row.spec.gpus <= largest and row.stated > 0
        ]
    gpus = sum(machine.gpus for machine in site.machines)
    made = generate(find_recipe("venus-like"), WorkloadRequest(seed=seed, jobs=jobs, load=LOAD, gpus=gpus))
    rows = []
    for number, job in enumerate(made.jobs):
        spec = JobSpec(min(job.gpus, LARGEST), user=job.user, name=job.name, duration_s=job.duration_s)
        rows.append(TraceRow(number, job.job_id, job.submit_s, site.submitted(spec, draw), job.duration_s))
    return rows


class Truth(NamedTuple):
    """What happened: the record of the first half, and waits of the second under the site's policy and `dally`."""

    record: History
    next_waits_s: dict[str, tuple[float, float]]
    days: float  # of the first half


def truth(site: Site, jobs: int, seed: int, folder: Path) -> Truth:
    """The site for twice as many jobs as it records."""
    folder.mkdir(parents=True)
    (folder / "truth.toml").write_text(cluster_text(site, True))
    (folder / "queues.toml").write_text(site.queues)
    rows = submissions(site, 2 * jobs, seed)
    bare = [row._replace(spec=replace(row.spec, duration_s=None)) for row in rows]
    (folder / "jobs.csv").write_text("".join(text_of(History(bare, "duration_s", "csv", {}, {}, None), "csv")))
    scenario = Scenario(str(folder / "jobs.csv"), str(folder / "truth.toml"), site.policy, site.settings)
    scenario = replace(scenario, queues=str(folder / "queues.toml") if site.queues else "")
    execute(scenario, out=folder / "run")
    execute(replace(scenario, policy="dally", settings={}), out=folder / "other")
    half_s = bare[len(bare) // 2].submit_s
    first = recorded(bare, FolderRecord(folder / "run"), half_s)
    now, then = (job_waits([FolderRecord(folder / name).jobs]) for name in ("run", "other"))
    after = {
        job_id: (wait_s, then[key, job_id][1])
        for (key, job_id), (submit_s, wait_s) in now.items()
        if submit_s >= half_s and (key, job_id) in then
    }
    return Truth(first, after, (half_s - bare[0].submit_s) / 86400.0)


def recorded(bare: Sequence[TraceRow], run: FolderRecord, until_s: float) -> History:
    """What the site's accounting has at that moment: whole seconds."""
    starts = run.events.filter(run.events["kind"] == "start").select("job_id", "time_s", "machines")
    placed = {job_id: (time_s, machines) for job_id, time_s, machines in starts.iter_rows()}
    rows = [
        as_recorded(row, *placed.get(row.job_id, (INFINITY, [])), until_s) for row in bare if row.submit_s < until_s
    ]
    return History(rows, "duration_s", "csv", {}, {}, EPOCH_S)


def as_recorded(row: TraceRow, start_s: float, machines: Sequence[str], until_s: float) -> TraceRow:
    """A job as it is in the accounting at that moment: ended, running or waiting."""
    submit_s = float(int(row.submit_s))
    if start_s >= until_s:
        return row._replace(submit_s=submit_s, stated=0.0, wait_s=NOT_KNOWN, status=PENDING)
    length_s = float(max(1, int(row.stated)))
    ended = int(start_s) + length_s <= until_s
    return row._replace(
        submit_s=submit_s,
        stated=length_s if ended else float(int(until_s) - int(start_s)),
        wait_s=float(max(0, int(start_s) - int(row.submit_s))),
        nodes=",".join(machines),
        status="COMPLETED" if ended else RUNNING,
    )


def sacct_text(history: History) -> str:
    """What `sacct` prints of them: no end of jobs that run, and neither start nor allocation of those that wait."""
    head, *lines = "".join(text_of(history, "sacct")).splitlines()
    names = head.split("|")
    result = [f"{head}|ReqTRES"]
    for row, line in zip(history.rows, lines, strict=True):
        field = dict(zip(names, line.split("|"), strict=True)) | {"ReqTRES": f"gres/gpu={row.spec.gpus}"}
        if row.status in (PENDING, RUNNING):
            field["End"] = "Unknown"
        if row.status == PENDING:
            field |= {"Start": "Unknown", "AllocTRES": "", "NodeList": "None assigned"}
        result.append("|".join(field.values()))
    return "\n".join(result) + "\n"


def ask(site: Site, jobs: int, folder: Path, seed: int = 1) -> dict[str, Any]:
    """The answer to `dally whatif` about the site's record, and the CPU seconds that it took."""
    happened = truth(site, jobs, seed, folder)
    history = happened.record
    (folder / "sacct.txt").write_text(sacct_text(history))
    (folder / "cluster.toml").write_text(cluster_text(site, False))
    began = cpu_s()
    words = ["whatif", str(folder / "sacct.txt"), "--cluster", str(folder / "cluster.toml"), "--network", "none"]
    code = exit_code([*words, "--seed", "1", "--jobs", "1", "--skip-impossible", "--out", str(folder / "answer")])
    if code:
        raise SystemExit(f"{site.name}: exit code {code}")
    values: dict[str, Any] = json.loads((folder / "answer" / "whatif.json").read_text())
    now_s, then_s = (sum(wait[side] for wait in happened.next_waits_s.values()) for side in (0, 1))
    return values | {
        "cpu_s": cpu_s() - began,
        "jobs": len(history.rows),
        "days": happened.days,
        "next_change": then_s / now_s - 1.0 if now_s else 0.0,
    }


def row_of(site: Site, values: dict[str, Any]) -> str:
    """A line of the table."""
    hidden = ":".join([site.policy, *(f"{key}={value}" for key, value in site.settings.items())])
    hidden += ", limits" if site.queues else ""
    found = values["calibration"]["policy"] + (", limits" if values["calibration"]["limits"] else "")
    whole, verdict = values["fit"]["whole"], values["verdict"]
    sizes = [
        abs(size["replayed_mean_s"] - size["recorded_mean_s"]) / max(size["recorded_mean_s"], 60.0)
        for size in whole["sizes"]
    ]
    [dally] = [one for one in values["questions"]["policies"] if one["policy"] == "dally"]
    change = dally["wait_change"]
    forecast = "no waits"
    if change:
        low, high = (f"{100 * change[end]:+.0f}" for end in ("low", "high"))
        forecast = f"{100 * change['share']:+.0f} % ({low} to {high})"
    cells = [
        site.name, f"{values['jobs']:,} in {values['days']:.0f} d", hidden, found,
        f"{whole['recorded_mean_s'] / 60:.1f} min", f"{whole['replayed_mean_s'] / 60:.1f} min",
        f"{100 * max(sizes):.0f} %", f"{verdict['level']}: {'; '.join(verdict['reasons'])}".removesuffix(": "),
        forecast,
        f"{100 * values['next_change']:+.0f} %", f"{values['cpu_s']:.0f} s",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=1, help="of the jobs of made-up sites")
    parser.add_argument("--only", default="", help="sites with these words in their names")
    given = parser.parse_args()
    heads = (
        "site", "record", "hidden", "found", "mean wait", "replayed", "off by size, at most", "verdict",
        "dally, forecast", "next half", "CPU",
    )  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    with tempfile.TemporaryDirectory() as temporary:
        for number, site in enumerate((*SITES, *TRACES)):
            if given.only.casefold() in site.name.casefold():
                lines.append(row_of(site, ask(site, given.jobs, Path(temporary) / str(number), given.seed)))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
