"""The same benchmark in two checkouts in turn, to see what a change costs.

usage: python -m benchmarks.against [--rounds 5] [--figure PATTERN]... BEFORE WORDS...
       python -m benchmarks.against --figure 'p99 ([0-9.]+)' ../before -m benchmarks.serve --seconds 0 --cycles 150

WORDS are what Python is started with, in this checkout and in the one BEFORE, each with the package installed in
its own .venv (`make install` there first). Prints the CPU seconds of the whole process, its children included, and
of each --figure (its group is a number of the output, the last that matches): the least and the median of both,
and their ratios, this checkout by the other. They take turns: what disturbs the machine disturbs both.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryFile
from typing import Final

HERE: Final = Path(__file__).resolve().parents[1]
CPU: Final = "CPU s"


def measure(checkout: Path, words: list[str], figures: list[str]) -> dict[str, float]:
    """Run the command once: its CPU seconds, and the figures it printed."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with TemporaryFile("w+") as output:
        command = [str(checkout / ".venv" / "bin" / "python"), *words]
        process = subprocess.Popen(command, cwd=checkout, env=env, stdout=output, stderr=subprocess.STDOUT)
        _, status, spent = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    # Exit 1 is a limit of the benchmark that was missed, or a mistake in it.
    if process.returncode not in (0, 1) or "Traceback (most recent call last)" in text:
        sys.exit(f"{checkout}: {' '.join(words)}: exit {process.returncode}\n{text}")
    found = {CPU: spent.ru_utime + spent.ru_stime}
    for figure in figures:
        matches = re.findall(figure, text)
        if not matches:
            sys.exit(f"{checkout}: nothing in the output matches {figure!r}\n{text}")
        found[figure] = float(matches[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=lambda text: Path(text).resolve())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--figure", action="append", default=[])
    parser.add_argument("words", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    rows: list[tuple[dict[str, float], dict[str, float]]] = []
    for number in range(given.rounds):
        order = (given.before, HERE) if number % 2 == 0 else (HERE, given.before)
        by_checkout = {checkout: measure(checkout, given.words, given.figure) for checkout in order}
        rows.append((by_checkout[given.before], by_checkout[HERE]))
    print(f"{' '.join(given.words)}, {given.rounds} rounds")
    for figure in (CPU, *given.figure):
        before, here = ([pair[side][figure] for pair in rows] for side in (0, 1))
        least, middle = (of(here) / of(before) for of in (min, median))
        print(
            f"  {figure:24} before {min(before):9.3f} / {median(before):9.3f}  here {min(here):9.3f} /"
            f" {median(here):9.3f}  ratio {least:.3f} (least) {middle:.3f} (median)",
            flush=True,
        )


if __name__ == "__main__":
    main()
