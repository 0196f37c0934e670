"""The flagship with unchanged constants where nothing was tuned, beside the strongest rivals.

usage: python -m benchmarks.held_out [--settings …] [--cells …] [--networks …] [--policies …] [--seeds 1]
                                     [--out DIR] [--markdown FILE] [--jobs N] [--days N]

Settings: `seeds` (11, 12, 13), `racks16` (racks of 16 machines), `flat62` (62 s a restart), `load0.7` and `load1.2`
(inter-arrival times scaled), `windows` (benchmarks/held_out_loads.py says which). The first of --policies is judged
against the others. Finished runs are stored in --out: what is there is not run again.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.held_out_loads import (
    WINDOWS,
    Maker,
    Source,
    as_it_is,
    held_out_loads,
    loaded,
    other_window,
    racks_of_16,
)
from benchmarks.kept_runs import add_options
from dally.benchmark.cells import MIX, WORKLOADS, find_workload
from dally.benchmark.reproduction import OurStanding, our_standing, percent, promises
from dally.benchmark.tables_page import shared_folder
from dally.cli.runs.batch import Batch, names, open_store, whole_numbers
from dally.errors import InputError, unknown
from dally.metrics.comparison import compare_rows
from dally.metrics.summary import Row
from dally.report.text_table import TextCell, TextTable
from dally.runs.scenario import Scenario
from dally.sweep.batch import Outcome
from dally.sweep.policy_list import read_policies
from dally.sweep.run import Run, comparison_runs
from dally.sweep.workers.local import LocalWorkers
from dally.whole_file import write_whole

# Ours, whoever is best of the others in a cell of docs/results.md on these networks, and those that never preempt:
# their tails are often the shortest.
POLICIES: Final = (
    "dally,las:tier=closest,tiresias:tier=closest,tiresias-gittins:tier=closest,gavel,dally-paper,dally-paper-manual,"
    "dally-paper-consolidated,kueue-required,fifo-backfill:tier=closest,easy-backfill:tier=closest,slurm-switches"
)
HEADINGS: Final = [
    "cell", "ours, h", "best rival, h", "best rival", "ours vs best", "p99 ours / best, h", "comm. ÷ reachable",
]  # fmt: skip


PAGE: Final = """# Held-out evaluation

Written by `{command}`: run it again rather than change the page.

`{ours}` with the constants it has everywhere, in settings that were not used to choose them, beside
{rivals}. Times are hours, means over seeds; the change against the best rival is the mean over seeds of ratios;
the p99 beside ours is the lowest of any rival, the non-preemptive ones included.
Communication is what jobs are exposed to ÷ what they cannot
avoid on that network.

Philly has weeks that no cell of the benchmark uses. In the other traces every job is in a cell: their windows are
later parts on clusters of another size, without earlier history, which is a weaker check. Jobs that run when a
window begins are submitted at 0 with their remaining work; durations are cut at 14 days, and 0 counts as 30 s.

{windows}

## All settings

{overall}

"""


class Setting(NamedTuple):
    """What is other than in the cells that the constants were chosen on."""

    about: str
    maker: Maker = as_it_is
    seeds: tuple[int, ...] = ()  # instead of those of --seeds
    flat_restart_s: float | None = None

    def base(self) -> Scenario:
        """What all its runs share."""
        flat_s = self.flat_restart_s
        return Scenario(
            trace="", cluster="", policy="", mix=MIX, restart_s=flat_s or 0.0,
            restart_per_gpu_s=1.0 if flat_s is None else 0.0,
        )  # fmt: skip


SETTINGS: Final = {
    "seeds": Setting("seeds 11, 12, 13: other models, and other batches", seeds=(11, 12, 13)),
    "racks16": Setting("racks of 16 machines", racks_of_16),
    "flat62": Setting("a restart takes 62 s, whatever the gang", flat_restart_s=62.0),
    "load0.7": Setting("arrivals stretched to 70 % of the GPUs", loaded(0.7)),
    "load1.2": Setting("arrivals packed to 120 % of the GPUs", loaded(1.2)),
    "windows": Setting("windows of the traces that no cell has", other_window),
}


def cells_of(line: OurStanding) -> list[TextCell]:
    """The line as the table has it."""
    texts = [
        f"{line.workload}, {line.network}", f"{line.ours_h:.2f}", f"{line.best_h:.2f}", line.best,
        percent(line.change), line.p99_text(), line.comm_text(),
    ]  # fmt: skip
    return [TextCell(text) for text in texts]


def standings(rows: Sequence[Row], name: str, ours: str) -> list[OurStanding]:
    """A line per cell of a setting."""
    contests = compare_rows([row for row in rows if row["setting"] == name], "")
    return [line for contest in contests if (line := our_standing(contest, ours))]


def overall(rows: Sequence[Row], ours: str) -> str:
    """In how many cells of all settings each promise is kept."""
    return promises([line for name in SETTINGS for line in standings(rows, name, ours)])


def report(rows: Sequence[Row], ours: str) -> list[tuple[str, TextTable, str]]:
    """Heading, table and verdict of each setting that has runs."""
    found = []
    for name, setting in SETTINGS.items():
        lines = standings(rows, name, ours)
        if lines:
            table = TextTable(HEADINGS, [cells_of(line) for line in lines])
            found.append((f"{name}: {setting.about}", table, promises(lines)))
    return found


def runs_of(name: str, given: argparse.Namespace, folder: Path) -> list[Run]:
    """The runs of one setting; its traces get a folder in that one, as settings change the same ones."""
    setting = SETTINGS[name]
    source = Source(given.shared or shared_folder(), folder / name, given.days)
    seeds = setting.seeds or whole_numbers("--seeds", given.seeds)
    loads = held_out_loads(setting.maker, names(given.cells), seeds, source)
    runs = comparison_runs(loads, names(given.networks), read_policies([given.policies]), setting.base())
    return [replace(run, labels={"setting": name, **run.labels}) for run in runs]


def run_all(given: argparse.Namespace) -> Outcome:
    """Every setting's runs, made now or from an earlier call."""
    chosen = names(given.settings)
    for name in chosen:
        if name not in SETTINGS:
            raise unknown("setting", name, SETTINGS)
    for name in names(given.cells):
        find_workload(name)
    with tempfile.TemporaryDirectory() as temporary, open_store(given.out) as store:
        folder = (given.out or Path(temporary)) / "traces"
        runs = [run for name in chosen for run in runs_of(name, given, folder)]
        return Batch(LocalWorkers(given.jobs)).run(runs, store)


def page(sections: Sequence[tuple[str, TextTable, str]], summed_up: str, policies: str) -> str:
    """The tables as a page in Markdown, which the command writes again."""
    ours, *rivals = [f"`{chosen.label()}`" for chosen in read_policies([policies])]
    windows = [
        f"- `{one.name}`: `{one.trace}`, from day {one.first_day} until before day {one.last_day}, "
        f"{one.cluster or f'{one.hosts} hosts of the real tree'}"
        + (f", {one.batch} jobs of at least 30 min at once" if one.batch else "")
        for one in WINDOWS.values()
    ]
    head = PAGE.format(
        command=shlex.join(["python", "-m", "benchmarks.held_out", *sys.argv[1:]]),
        ours=ours.strip("`"),
        rivals=", ".join(rivals),
        windows="\n".join(windows),
        overall=summed_up,
    )
    return head + "\n".join(
        f"## {title[:1].upper()}{title[1:]}\n\n{table.markdown()}\n{summed}\n" for title, table, summed in sections
    )


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", default=",".join(SETTINGS))
    parser.add_argument("--cells", default=",".join(WORKLOADS))
    parser.add_argument("--networks", default="slow,congested")
    parser.add_argument("--policies", default=POLICIES, help="the first is judged against the others")
    parser.add_argument("--seeds", default="1", help="of all settings but `seeds`")
    add_options(parser)
    return parser.parse_args()


def main() -> None:
    """Run what is missing, then print the tables."""
    given = arguments()
    try:
        outcome = run_all(given)
    except InputError as error:
        sys.exit(f"held_out: {error}")
    ours = read_policies([given.policies])[0].label()
    sections = report(outcome.rows, ours)
    for title, table, summed in sections:
        print(f"{title}\n\n{table.aligned()}\n\n{summed}\n")
    summed_up = overall(outcome.rows, ours)
    print(f"all settings: {summed_up}")
    if given.markdown:
        write_whole(given.markdown, page(sections, summed_up, given.policies).encode())
    if outcome.failures:
        sys.exit("\n".join(outcome.failures))


if __name__ == "__main__":
    main()
