"""How fast traces are read: CPU seconds of `read_trace`, each in a process of its own.

usage: python -m benchmarks.readers

Philly as the shared csv and as a JSON list with the same jobs, and an SWF of a million jobs; the two are made
here. Exits with 1 when a limit is passed. Limits are CPU seconds on a 2-core machine.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from dally.traces import read_history
from dally.traces.writing import text_of
from dally.whole_file import write_pieces

ROOT: Final = Path(__file__).resolve().parents[1]
PHILLY: Final = ROOT.parent / "shared" / "traces" / "philly.csv.gz"
SWF_JOBS: Final = 1_000_000
READ: Final = """
import json, resource, sys, time
from pathlib import Path
from dally import is_compiled
from dally.traces import read_trace
began = time.process_time()
trace = read_trace(Path(sys.argv[1]), 1 << 60)
print(json.dumps({"cpu_s": time.process_time() - began, "jobs": len(trace.jobs), "format": trace.format,
    "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "compiled": is_compiled()}))
"""


def million(path: Path) -> None:
    """An SWF of a million jobs."""
    draw = random.Random(1)
    with path.open("w", encoding="ascii") as file:
        file.write("; Version: 2.2\n; UnixStartTime: 1672531200\n")
        submit_s = 0
        for job in range(1, SWF_JOBS + 1):
            submit_s += draw.randrange(20)
            gpus = 1 << draw.randrange(7)
            file.write(
                f"{job} {submit_s} {draw.randrange(900)} {draw.randrange(86400)} {gpus} -1 -1 {gpus} 86400 -1"
                f" {draw.choice((0, 1, 1, 5))} {draw.randrange(500)} 1 {draw.randrange(300)} 1 1 -1 -1\n"
            )


def measure(what: str, path: Path, jobs: int, most_s: float | None) -> bool:
    """Read the file and print what it took; whether that is within the limit."""
    done = subprocess.run([sys.executable, "-c", READ, str(path)], check=True, capture_output=True, text=True)
    figures = json.loads(done.stdout)
    if figures["jobs"] != jobs:
        sys.exit(f"{what}: {figures['jobs']} jobs where there are {jobs}")
    fine = most_s is None or figures["cpu_s"] <= most_s
    print(
        f"{what:24} {figures['format']:7} {jobs:9,} jobs {path.stat().st_size / 1e6:7.1f} MB"
        f" {figures['cpu_s']:6.2f} s CPU  limit {'-' if most_s is None else f'{most_s:g} s':4}"
        f" {figures['rss_mb']:5.0f} MB  {'compiled' if figures['compiled'] else 'not compiled'}"
        f"{'' if fine else '  TOO MUCH'}",
        flush=True,
    )
    return fine


def main() -> None:
    fine = True
    with tempfile.TemporaryDirectory() as folder:
        if PHILLY.exists():
            history = read_history(PHILLY)
            listed = Path(folder) / "cluster_job_log"
            write_pieces(listed, text_of(history, "philly"))
            fine &= measure("Philly, csv.gz", PHILLY, len(history.rows), 1.0)
            fine &= measure("Philly, JSON", listed, len(history.rows), None)
        else:
            print(f"{PHILLY} is not here: left out")
        swf = Path(folder) / "million.swf"
        million(swf)
        fine &= measure("a million jobs, SWF", swf, SWF_JOBS, 6.0)
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
