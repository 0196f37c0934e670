"""How many steps a second the environments make with a random agent, on one core.

usage: python -m benchmarks.gym [--seconds 5] [--least 30000] [--trace FILE --cluster SPEC]

Without --trace: 20,000 drawn jobs on 8x8x8. Observation, mask, reward, resets and the baseline's runs count. Exits
with 1 when OrderJobs-v0 without a network makes fewer than --least steps a second and Dally is compiled.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

import dally
from dally.gym import make

CASES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("OrderJobs-v0", "", {}),
    ("OrderJobs-v0", "congested", {}),
    ("OrderJobs-v0", "", {"options": {"preempt": True, "knows": "durations"}}),
    ("PlaceJobs-v0", "", {}),
    ("PlaceJobs-v0", "congested", {}),
    ("InspectDecision-v0", "", {}),
    ("InspectDecision-v0", "congested", {"options": {"base": "dally"}}),
    ("TunePolicy-v0", "congested", {"options": {"hours": 0.5}}),
)


def drawn_jobs(path: Path, count: int = 20000) -> None:
    """Jobs at about 90 % of 512 GPUs, of sizes and durations as in the public traces."""
    drawn = random.Random(1)
    now = 0.0
    lines = ["job_id,submit_s,gpus,duration_s"]
    for place in range(count):
        now += drawn.expovariate(1.0 / 22.0)
        gpus = drawn.choices((1, 2, 4, 8, 16, 32), (50, 12, 12, 18, 5, 3))[0]
        lines.append(f"j{place},{now:.3f},{gpus},{drawn.lognormvariate(6.5, 1.3):.3f}")
    path.write_text("\n".join(lines) + "\n")


def steps_per_s(env: Any, seconds: float) -> tuple[float, int]:
    """Steps and episodes of a random agent for that long."""
    draws = np.random.default_rng(1).random(1 << 16).tolist()
    env.reset(seed=1)
    mask = env.action_masks()
    steps = episodes = 0
    began_s = process_time()
    while process_time() - began_s < seconds:
        for draw in draws:
            allowed = mask.nonzero()[0]
            _, _, over, _, _ = env.step(allowed[int(draw * len(allowed))])
            steps += 1
            if over:
                episodes += 1
                env.reset()
            mask = env.action_masks()
    return steps / (process_time() - began_s), episodes


def main() -> None:
    """Measure every case, and say whether the least is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="of CPU, for each case")
    parser.add_argument("--least", type=float, default=30000.0)
    parser.add_argument("--trace", default="")
    parser.add_argument("--cluster", default="8x8x8")
    given = parser.parse_args()
    print(f"compiled: {dally.is_compiled()}")
    rates = []
    with tempfile.TemporaryDirectory() as folder:
        trace = given.trace or str(Path(folder) / "jobs.csv")
        if not given.trace:
            drawn_jobs(Path(trace))
        for name, network, more in CASES:
            env = make(name, trace=trace, cluster=given.cluster, network=network, **more)
            rate, episodes = steps_per_s(env, given.seconds)
            rates.append(rate)
            stated = ", ".join(filter(None, [network, *(str(one) for one in more.values())]))
            print(f"{name:18} {rate:9,.0f} steps/s  {episodes:5} episodes  {stated}")
    if dally.is_compiled() and rates[0] < given.least:
        sys.exit(f"fewer than {given.least:,.0f} steps a second")


if __name__ == "__main__":
    main()
