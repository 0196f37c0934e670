"""Options of sbatch on a real Slurm: a job starts where it should, is blocked with a reason, or is left alone.

usage: python -m benchmarks.slurm_options [--only TEXT]

A private cluster on this machine (tests/live/slurm_site.py): three partitions, features, two types of GPU, two
reservations, licences, and limits of a QOS and an account by slurmdbd. Each row submits a job as an ordinary user,
runs the daemon's cycles until the job runs or is blocked, and compares. Then all of them are submitted once more
while no partition is up, begun by Dally in vain, and rolled back: Slurm must show each as if Dally had never been,
and run it.
Needs root and Debian's slurmctld, slurmd, slurm-client, munge, slurmdbd and mariadb-server; takes three minutes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.live.slurm_option_rows import PARTITION_ROWS, ROWS, OptionBench, report
from tests.live.slurm_rollback_rows import RollbackBench
from tests.live.slurm_site import missing_for_a_site, slurm_site


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="", help="rows whose options contain this")
    given = parser.parse_args()
    if missing_for_a_site():
        raise SystemExit(f"not installed: {', '.join(missing_for_a_site())}")
    rows = [row for row in ROWS if given.only in row.options]
    with slurm_site() as site, tempfile.TemporaryDirectory() as folder:
        also = [row for row in PARTITION_ROWS if given.only in row.options]
        outcomes = OptionBench(site, Path(folder)).run([*rows, *also])
        print(report(outcomes), flush=True)
        print("\nRolled back:\n")
        restored = RollbackBench(site, Path(folder)).run(rows)
    print(report(restored))
    sys.exit(0 if all(outcome.fine for outcome in outcomes + restored) else 1)


if __name__ == "__main__":
    main()
