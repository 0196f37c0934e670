"""Where runs spend their time as plain Python, file by file: what is seldom met there need not be compiled.

usage: PYTHONPATH=src python scripts/compiled_shares.py [POLICY ...]     (all of them: some minutes)

For every file under src/dally: the largest share of a run's CPU time that went into its own lines, and the run's
policy. Files that setup.py compiles are marked. Runs: 4,000 jobs like the demo's, with failures, and summaries.
A share weighs more once the rest is compiled: placement/pods.py, here 0.2 % of a run, costs 12 % if left plain.
"""

from __future__ import annotations

import gc
import runpy
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import dally
from dally.cli.runs.compare import CLUSTER, NETWORK, RECIPE
from dally.policies.registry import POLICIES
from dally.traces.generate import WorkloadRequest, find_recipe, generate, write_workload

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "dally"
ASK = WorkloadRequest(seed=1, jobs=4000, load=1.0, gpus=144)
EVERY_S = 0.004  # of CPU time


def shares(run: Callable[[], object]) -> dict[str, float]:
    """The share of samples in each file of ours while it ran."""
    seen: Counter[str] = Counter()

    def sample(_: int, frame: FrameType | None) -> None:
        if frame:
            seen[frame.f_code.co_filename] += 1

    gc.collect()
    signal.signal(signal.SIGPROF, sample)
    signal.setitimer(signal.ITIMER_PROF, EVERY_S, EVERY_S)
    try:
        run()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
    total = sum(seen.values())
    ours = {Path(name): count for name, count in seen.items() if name.startswith(str(SOURCE))}
    return {str(path.relative_to(SOURCE)): count / total for path, count in ours.items()}


def run(trace: Path, policy: str) -> object:
    """The summary of a run."""
    return dally.simulate(trace, CLUSTER, policy, network=NETWORK, failure_rate=0.01).summary


def main() -> None:
    """Print the table, the largest share first."""
    if dally.is_compiled():
        sys.exit("this Dally is compiled: run with PYTHONPATH=src")
    names = sys.argv[1:] or list(POLICIES)
    most: dict[str, tuple[float, str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "jobs.csv"
        write_workload(trace, generate(find_recipe(RECIPE), ASK))
        for name in names:
            found = shares(lambda: run(trace, name))  # noqa: B023 - it is called at once
            for file, share in found.items():
                most[file] = max(most.get(file, (0.0, "")), (share, name))
            print(f"{name}: {sum(found.values()):.0%} in ours", file=sys.stderr)
    compiled = set(runpy.run_path(str(ROOT / "setup.py"))["compiled"]())
    for file in compiled - most.keys():
        most[file] = (0.0, "")
    for file, (share, name) in sorted(most.items(), key=lambda one: -one[1][0]):
        print(f"{share:7.2%}  {'compiled' if file in compiled else '        '}  {file:44} {name}")


if __name__ == "__main__":
    main()
