"""What it costs to follow growing logs, in cores: CPU seconds of the reader ÷ seconds of the clock.

usage: python -m benchmarks.progress_tail [--logs 1000] [--seconds 60]

Each log grows by a few lines of one of several frameworks every second. Writing them is not counted. The clock is
made up, as reading does not wait: a look at every log is due every 5 s of it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Final

from dally.progress.log_reader import LogReader

LINES: Final = (
    "{percent:3d}%|####      | {step}/10000 [00:45<10:55,  2.00it/s, loss=0.31]\r",
    "[titan] 2025-01-02 03:04:05,678 - root - INFO - step: {step}  loss:  3.1  memory: 40.1GiB  tps: 6,100\n",
    " iteration {step:8d}/   10000 | elapsed time per iteration (ms): 1234.5 | lm loss: 2.1 |\n"
    "time (ms) | forward-compute: 193.77 | backward-compute: 73.02 | optimizer: 63.01\n",
    "Epoch(train) [1][{step}/10000]  lr: 1.0e-02  eta: 0:00:25  time: 0.010  data_time: 0.000  loss: 11.4723\n",
    "{{'loss': 2.68, 'grad_norm': 1.46, 'learning_rate': 0.00019, 'epoch': 0.17}}\nsomething else\n",
    "a line that says nothing\nanother one, of 12 words, with a number or two: 3 of 7\n",
)


def main() -> None:
    """Print the share of a core, and how many looks found progress."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=60)
    arguments = parser.parse_args()
    now, spent_s, rows = 0.0, 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, str(number)) for number in range(arguments.logs)]
        reader = LogReader(lambda: now)
        for path in paths:
            reader.follow(path.name, str(path))
        for second in range(arguments.seconds):
            for number, path in enumerate(paths):
                text = LINES[number % len(LINES)]
                with path.open("a", encoding="utf-8") as file:
                    for step in range(10 * second, 10 * second + 10):
                        file.write(text.format(step=step, percent=step // 100))
            for _ in range(10):
                now += 0.1
                began_s = time.process_time()
                rows += len(reader.look())
                spent_s += time.process_time() - began_s
    print(f"{arguments.logs} logs: {spent_s / arguments.seconds:.3f} cores; {rows} looks found progress")


if __name__ == "__main__":
    main()
