"""Writes the bundled demo workload: a week of synthetic jobs with a daily rhythm.

usage: python examples/make_demo.py OUT.csv
"""

from __future__ import annotations

import csv
import math
import random
import sys

JOBS = 1500
DAYS = 7
SIZES = {1: 0.48, 2: 0.12, 4: 0.15, 8: 0.15, 16: 0.06, 32: 0.03, 64: 0.01}
MODELS = ("resnet50", "vgg16", "bert-large", "gpt2-xl")


def submit_times(rng: random.Random) -> list[int]:
    """Arrivals over the week: busy in the afternoon, quiet at night."""
    times: list[int] = []
    while len(times) < JOBS:
        moment = rng.random() * DAYS * 86400
        hour = moment / 3600 % 24
        if rng.random() < 0.55 + 0.45 * math.sin((hour - 9) / 24 * 2 * math.pi):
            times.append(int(moment))
    start = min(times)
    return sorted(moment - start for moment in times)


def main() -> None:
    """Write the workload; always the same one."""
    rng = random.Random(7)
    with open(sys.argv[1], "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["job_id", "submit_s", "gpus", "duration_s", "model", "user"])
        for number, submit_s in enumerate(submit_times(rng)):
            gpus = rng.choices(list(SIZES), list(SIZES.values()))[0]
            duration_s = int(min(max(rng.lognormvariate(math.log(5400), 1.4), 120), 2 * 86400))
            user = f"u{int(rng.paretovariate(1.2))}"
            writer.writerow([f"j{number}", submit_s, gpus, duration_s, rng.choice(MODELS), user])


if __name__ == "__main__":
    main()
