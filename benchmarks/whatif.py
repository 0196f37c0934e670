"""Does `dally whatif` find out what a cluster does, and foretell what another policy would do there?

    python -m benchmarks.whatif [--jobs 600] [--policy dally] [--networks]

Our simulator plays the cluster, under `slurm-backfill` and a network that `whatif` is not told. It is given the
record alone: who asked for what, waited how long and ran where for how long, with names and models of jobs. The
table says what it found, how far its forecast of the change in mean completion time is from what happens there, and
what it says when it is given the wrong cluster. `--networks` counts on 216 smaller ones how often running times
lead to the true network, leave it among others, or rule it out.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import dally
from benchmarks.whatif_loads import Lab, record, truth
from dally.runs.scenario import Scenario
from dally.sweep.policy_list import Chosen
from dally.sweep.whatif.calibration import NETWORKS, network_evidence
from dally.traces import read_history

SMALL = (("venus-like", "4x4x4"), ("itp-like", "2x6x4"), ("lingjun-like", "4x4x8"))

LABS = (
    Lab("venus-like", 600, 0.9, "4x4x4", "slow", 1),
    Lab("venus-like", 600, 0.9, "4x4x4", "congested", 5),
    Lab("itp-like", 600, 0.8, "2x6x4", "normal", 3),
    Lab("philly-like", 600, 0.9, "4x4x4", "slow", 6),
    Lab("lingjun-like", 600, 0.8, "4x4x8", "slow", 2),
    Lab("venus-like", 600, 0.9, "4x4x4", "fast", 4),
    Lab("venus-like", 600, 0.9, "4x4x4", "slow", 7, within=0.8, name="venus-like, slow, names mean little"),
)


class Found(NamedTuple):
    """What `whatif` made of a record."""

    policy: str
    network: str
    others: list[str]  # networks that are not ruled out either
    off: float
    level: str
    predicted: float  # share of mean completion time that the new policy saves
    true: float


def ask(lab: Lab, policy: str, folder: Path) -> Found:
    """The answer beside the truth."""
    happened, recorded = record(lab, folder)
    answer = dally.whatif(recorded, lab.cluster, policy, seeds=[1])
    after = truth(lab, policy, folder)
    before_s, after_s = happened.summary["jct_mean_s"], after.summary["jct_mean_s"]
    total, found = answer.summary["total"], answer.summary["calibration"]
    return Found(
        found["policy"],
        found["network"] or "none",
        [name or "none" for name in found["other_networks"]],
        answer.summary["verdict"]["off"],
        answer.summary["verdict"]["level"],
        1 - total["new"]["jct_mean_s"] / total["current"]["jct_mean_s"],
        1 - after_s / before_s,
    )


def wrong_clusters(lab: Lab) -> Iterator[str]:
    """The cluster with one machine in four more, or less."""
    *above, machines, gpus = map(int, lab.cluster.split("x"))
    for other in (machines + max(1, machines // 4), machines - max(1, machines // 4)):
        yield "x".join(map(str, (*above, other, gpus)))


def level_on(lab: Lab, cluster: str, policy: Chosen, folder: Path) -> str:
    """The verdict where the cluster that is given is not the one that recorded."""
    recorded = str(folder / "recorded.csv")
    told = dally.whatif(recorded, cluster, policy.name, network=lab.network, seeds=[1], skip_impossible=True)
    return str(told.summary["verdict"]["level"])


def networks_told(within: float, jobs: int) -> Counter[str]:
    """What running times say about the true network, over 72 records; names last as usual within that share."""
    counts: Counter[str] = Counter()
    for (recipe, cluster), network, seed in product(SMALL, NETWORKS[:-1], range(1, 7)):
        with TemporaryDirectory() as name:
            _, recorded = record(Lab(recipe, jobs, 0.9, cluster, network, seed, within), Path(name))
            base = Scenario(trace=recorded, cluster=cluster, policy="fifo")
            possible = network_evidence(base, read_history(Path(recorded)), NETWORKS).possible()
        alone, among = possible == [network], network in possible
        counts["found" if alone else "among others" if among else "ruled out" if possible else "not told"] += 1
    return counts


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=0, help="of each lab")
    parser.add_argument("--policy", default="dally", help="the one to try")
    parser.add_argument("--networks", action="store_true", help="ask for networks alone")
    given = parser.parse_args()
    if given.networks:
        for within in (0.1, 0.3, 0.8):
            print(f"names within {within:.0%}: {dict(networks_told(within, given.jobs or 400))}", flush=True)
        return
    print("| cluster that recorded | found | off | verdict | JCT saved, foretold | true | on 5/4, 3/4 machines |")
    print("|---|---|---:|---|---:|---:|---|")
    for lab in LABS:
        lab = lab._replace(jobs=given.jobs or lab.jobs)
        with TemporaryDirectory() as name:
            found = ask(lab, given.policy, Path(name))
            wrong = [
                level_on(lab, cluster, Chosen(given.policy, {}), Path(name)) for cluster in wrong_clusters(lab)
            ]
        also = f" (or {', '.join(found.others)})" if found.others else ""
        print(
            f"| {lab.told()} | {found.policy}, {found.network}{also} | {100 * found.off:.1f} % | {found.level} "
            f"| {100 * found.predicted:+.1f} % | {100 * found.true:+.1f} % | {', '.join(wrong)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
