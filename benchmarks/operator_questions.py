"""CPU seconds of the questions of docs/operator.md and docs/whatif.md on a large record.

    python -m benchmarks.operator_questions [--jobs 20000] [--only WORDS]

The record is of a made-up site of 640 GPUs under `fifo-backfill`, as Slurm's accounting has it.
"""

from __future__ import annotations

import argparse
import io
import tempfile
from contextlib import redirect_stdout
from pathlib import Path

from benchmarks.calibration_sites import Site, cluster_text, racks, sacct_text, truth
from dally.cli.main import exit_code
from dally.live.forecast.estimator import cpu_s

SITE = Site("ten racks", racks("p", 10, 8), "fifo-backfill")
STATED = ("--current", "fifo-backfill", "--network", "slow", "--seed", "1")
ON_RECORD: dict[str, tuple[str, ...]] = {
    "three questions": (),
    "--save-gpus": ("--save-gpus",),
    "--buy": ("--buy",),
    "1 trust": ("--network", "slow", "--policy", "dally", "--out", "answer"),
    "3 another scheduler, 4 who loses": (*STATED, "--policy", "dally", "--top", "3"),
    "5 two more racks": (*STATED, "--policy", "fifo-backfill", "--cluster-delta", "+2 racks"),
    "6 a faster network": (*STATED, "--policy", "fifo-backfill", "--new-network", "fast"),
    "7 scattering": (*STATED, "--policy", "fifo-backfill", "--set", "tier=closest"),
}


def questions(folder: Path) -> dict[str, list[str]]:
    """The commands, by name."""
    on = [str(folder / "sacct.txt"), "--topology", str(folder / "cluster.toml")]
    run = str(folder / "failing")
    simulate = ["simulate", *on, "--network", "slow", "--policy", "fifo-backfill", "--out", run]
    whatifs = {
        name: ["whatif", *on, "--jobs", "1", *(str(folder / word) if word == "answer" else word for word in words)]
        for name, words in ON_RECORD.items()
    }
    return whatifs | {
        "2 what people run": ["trace", "stats", on[0]],
        "10 failures": [*simulate, "--failure-rate", "0.01", "--checkpoint-every", "1800"],
        "8 why did a job wait": ["explain", "j15000", "--run", run],
        "9 the longest queue": ["explain", "--waiting", "--run", run],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=20000)
    parser.add_argument("--only", default="", help="questions with these words in their names")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "site"
        record = truth(SITE, given.jobs, 1, folder).record
        (folder / "sacct.txt").write_text(sacct_text(record))
        (folder / "cluster.toml").write_text(cluster_text(SITE, False))
        print(f"{len(record.rows):,} jobs on {sum(machine.gpus for machine in SITE.machines)} GPUs")
        for name, words in questions(folder).items():
            if given.only.casefold() in name.casefold():
                began = cpu_s()
                with redirect_stdout(io.StringIO()):
                    code = exit_code(words)
                print(f"{cpu_s() - began:6.1f} s  {name}{f' (exit code {code})' if code else ''}", flush=True)


if __name__ == "__main__":
    main()
