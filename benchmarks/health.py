"""How soon slow machines and links are named, and what acting on it wins back, on traces of clusters.

usage: python -m benchmarks.health [--parts machine,nic,uplink,quiet,lingjun,venus80,lemons,ettr] [--seeds 1,2,3]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from math import inf
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from dally.benchmark.cells import Cell, prepare
from dally.benchmark.tables_page import shared_folder
from dally.cluster.topology import Topology
from dally.engine.draws import uniform
from dally.engine.health_watch import HealthWatch
from dally.engine.simulate import Simulation
from dally.engine.uneven_failures import drawn_lemons
from dally.health.training_time import best_interval_s, effective_share
from dally.metrics.summary import Row
from dally.model import EVICT
from dally.runs.assemble import assemble
from dally.runs.execute import execute
from dally.runs.scenario import Scenario
from dally.runs.training_runs import simulated_share

HOUR_S: Final = 3600.0
EVERY_S: Final = 8 * HOUR_S  # another machine becomes slow,
LASTS_S: Final = 5 * HOUR_S  # for so long
FELT: Final = 1.04  # times as long: from there on a job is delayed
# A few machines that are very slow, for as long as Greyhound's fail-slows last.
# On Lingjun's jobs as many as lose 10 % of the GPU time, as ByteDance's did; Venus's are not calibrated.
STRAGGLERS: Final = {"lingjun": "stragglers=0.02,factor=3", "venus80": "stragglers=0.012,factor=3"}
MOST_OUT: Final = 0.1


class Setup(NamedTuple):
    """What is slow, how many there are of it, and where: gangs cross racks only if one does not hold them."""

    kind: str  # of episodes
    name: str  # of the tier
    factor: float
    cluster: str = "8x8x8"
    policy: str = "dally"

    def names(self) -> list[str]:
        """Of all that may become slow."""
        racks, machines, _ = (int(part) for part in self.cluster.split("x"))
        if self.name == "rack":
            return [f"rack rack{rack}" for rack in range(racks)]
        prefix = "machine " if self.kind == "link" else ""
        return [f"{prefix}rack{rack}-m{place}" for rack in range(racks) for place in range(machines)]


# Racks of four machines, and a policy that does not look for near ones: 22 uses of uplinks at any moment.
ACROSS: Final = ("16x4x8", "fifo-backfill")
SETUPS: Final = {
    "machine": Setup("machine", "machine", 1.3),
    "machine-across": Setup("machine", "machine", 1.3, *ACROSS),
    "nic": Setup("link", "machine", 2.0, *ACROSS),
    "uplink": Setup("link", "rack", 2.0, *ACROSS),
    "quiet": Setup("machine", "machine", 1.0),
    "quiet-across": Setup("machine", "machine", 1.0, *ACROSS),
}


def injected(part: str, seed: int, days: float, folder: Path) -> Row:
    """One after the other is slow: minutes until it is named, and what else is."""
    setup = SETUPS[part]
    prepared = prepare("venus80", 1, shared_folder(), folder)
    names = setup.names()
    episodes: list[tuple[str, float]] = []
    at_s = 24 * HOUR_S
    while setup.factor > 1.0 and at_s < days * 24 * HOUR_S - LASTS_S:
        episodes.append((names[int(uniform(seed, 1, len(episodes)) * len(names))], at_s))
        at_s += EVERY_S
    path = folder / f"{part}-{seed}.csv"
    rows = [f"{setup.kind},{name},{setup.factor},{at_s},{at_s + LASTS_S}\n" for name, at_s in episodes]
    path.write_text("kind,name,factor,from_s,until_s\n" + "".join(rows), encoding="utf-8")
    scenario = Scenario(
        str(prepared.trace), setup.cluster, policy=setup.policy, network="congested", seed=seed,
        health=f"{path},watch=1", until_s=days * 24 * HOUR_S,
    )  # fmt: skip
    simulation, _ = assemble(scenario)
    watch = simulation.watch
    assert isinstance(watch, HealthWatch)
    felt: set[int] = set()
    while simulation.step(scenario.until_s):
        felt.update(_felt(simulation, watch, episodes))
    named = [
        (row.at_s, shown(row.suspect.name, simulation.state.cluster.topology, watch)) for row in watch.accusations
    ]
    delays = [first_s(named, setup.kind, name, at_s) for name, at_s in episodes]
    wrong = [row for row in named if not any(fits(row, setup.kind, name, at_s) for name, at_s in episodes)]
    hit = [delay for delay in delays if delay < inf]
    missed = sum(delays[place] == inf for place in felt)
    return {
        "part": part, "factor": setup.factor, "seed": seed, "injected": len(delays), "felt": len(felt),
        "named": len(hit), "median_min": median([*hit, *[inf] * missed]) / 60.0 if hit else inf,
        "false_per_day": len(wrong) / days,
    }  # fmt: skip


def _felt(simulation: Simulation, watch: HealthWatch, episodes: list[tuple[str, float]]) -> list[int]:
    """Episodes now that delay a job: what delays none is not to be seen in any job's progress."""
    now = simulation.now
    present = [place for place, (_, at_s) in enumerate(episodes) if at_s < now <= at_s + LASTS_S]
    if not present:
        return []
    slow = any(
        job.since_s <= now and watch.faults.expected_rate(job)[0] > FELT * job.rate
        for job in simulation.state.cluster.running.values()
    )
    return present if slow else []


def shown(name: str, topology: Topology, watch: HealthWatch) -> tuple[str, str]:
    """Kind and name that the file of episodes has for it."""
    kind, number = name.split()
    return kind, str(topology.names[0][int(number)]) if kind == "machine" else watch.faults.link_name(int(number))


def fits(row: tuple[float, tuple[str, str]], kind: str, name: str, at_s: float) -> bool:
    """Whether a name was right: during the episode, or soon after."""
    return row[1] == (kind, name) and at_s <= row[0] <= at_s + LASTS_S + HOUR_S


def first_s(named: list[tuple[float, tuple[str, str]]], kind: str, name: str, at_s: float) -> float:
    """Seconds from the onset until it is named; infinity: it never was."""
    rows = [row[0] - at_s for row in named if fits(row, kind, name, at_s) and row[0] <= at_s + LASTS_S]
    return min(rows, default=inf)


def lost(workload: str, seed: int, folder: Path) -> Row:
    """GPU time lost to slow members without action and with it; mean JCT beside the run without slow machines."""
    prepared = prepare(workload, seed, shared_folder(), folder)
    scenario = Cell(workload, "congested", seed).scenario(prepared, "dally", {})
    sound = execute(scenario).summary
    watched = execute(replace(scenario, health=f"{STRAGGLERS[workload]},watch=1")).summary
    acted = execute(replace(scenario, health=f"{STRAGGLERS[workload]},act=1,most_out={MOST_OUT}")).summary
    before, after = watched["health"], acted["health"]
    return {
        "part": "lost", "workload": workload, "seed": seed, "lost": before["lost_share"],
        "lost_acting": after["lost_share"], "won_back": 1.0 - after["lost_gpu_s"] / before["lost_gpu_s"],
        "jct": watched["jct_mean_s"] / sound["jct_mean_s"], "jct_acting": acted["jct_mean_s"] / sound["jct_mean_s"],
        "moves": after["moves"], "probes": after["probes"], "most_out": after["most_out"],
    }  # fmt: skip


def lemon(seed: int, folder: Path, share: float = 0.5) -> Row:
    """Jobs of 8 machines or more that a failure ended, a day, without and with lemons kept out."""
    prepared = prepare("venus80", 1, shared_folder(), folder)
    scenario = Scenario(
        str(prepared.trace), "9x7x8", policy="dally", network="congested", seed=seed, failure_rate=0.1,
        checkpoint_every_s=1800.0, until_s=20 * 24 * HOUR_S,
    )  # fmt: skip
    result: Row = {"part": "lemons", "seed": seed, "share": share}
    for name, act in (("failures", "watch=1"), ("failures_acting", "act=1")):
        text = f"lemons=3,lemon_share={share},{act}"
        simulation, _ = assemble(replace(scenario, health=text))
        simulation.run(scenario.until_s)
        log = simulation.state.log
        result[name] = sum(
            log.kinds[row] == EVICT and simulation.jobs[int(log.jobs[row])].gpus >= 64 for row in range(len(log))
        )
        assert isinstance(simulation.watch, HealthWatch)
        result["right"] = sorted(simulation.watch.lemons) == drawn_lemons(63, 3, seed)
    result["fall"] = 1.0 - result["failures_acting"] / result["failures"] if result["failures"] else 0.0
    return result


def ettr() -> Iterator[Row]:
    """The engine's effective training time beside the closed form, over sizes and rates of failure."""
    for machines in (1, 8, 64, 256, 1024):
        for per_day in (0.00234, 0.0065, 0.05):
            for restart_s in (60.0, 900.0):
                per_s = per_day * machines / 86400.0
                every_s = best_interval_s(per_s, 60.0)
                closed = effective_share(per_s, every_s, 60.0, restart_s)
                simulated = simulated_share(machines, per_day, every_s, 60.0, restart_s, 3600.0, 1, 1000)
                yield {
                    "part": "ettr", "machines": machines, "per_day": per_day, "restart_s": restart_s,
                    "closed": closed, "simulated": simulated, "points": 100.0 * abs(closed - simulated),
                }  # fmt: skip


def rows(parts: list[str], seeds: list[int], days: float, folder: Path) -> Iterator[Row]:
    """A row for every part and seed, as they come."""
    for part in parts:
        if part == "ettr":
            yield from ettr()
            continue
        for seed in seeds:
            if part in SETUPS:
                yield injected(part, seed, days, folder)
            elif part == "lemons":
                yield lemon(seed, folder)
            else:
                yield lost(part, seed, folder)


def main() -> None:
    """Run the parts and print a row of JSON for each run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", default=",".join((*SETUPS, "lingjun", "venus80", "lemons", "ettr")))
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--days", type=float, default=10.0, help="of the runs in which one thing is slow")
    arguments = parser.parse_args()
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        for row in rows(arguments.parts.split(","), seeds, arguments.days, Path(folder)):
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
