"""The paper's own set-up, scanned: its constants, its profiles, no contention, and its rivals as they were coded.

The paper states neither the cluster's size nor what its congested network is. So several sizes and every revision
of its simulator's network are tried, and our own slow networks beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from dally.benchmark.cells import prepare
from dally.benchmark.reproduction import OURS, PAPERS, gains_by_cell, headline, reached
from dally.metrics.comparison import Contest
from dally.runs.scenario import Scenario
from dally.sweep.run import Run, make_run

CLUSTERS: Final = ("2x8x8", "4x8x8", "8x8x8")
LOADS: Final = ("paper-batch", "paper-poisson")
PROFILES: Final = "as-published"
AS_CODED: Final = ("gandiva-as-coded", "tiresias-as-coded")
# The same two as their papers have them, and the forms of the paper's own scheduler.
FAIR: Final = ("tiresias", "las:tier=closest", "dally-paper-consolidated", "dally-paper-nowait")


class ScannedNetwork(NamedTuple):
    """A network, and whether jobs on one link slow each other down."""

    network: str
    contention: str = "off"

    def name(self) -> str:
        """As the tables call it."""
        return self.network if self.contention == "off" else f"{self.network} with contention"


SETTINGS: Final = (
    ScannedNetwork("as-published"),
    ScannedNetwork("as-published-older"),
    ScannedNetwork("as-published-oldest"),
    ScannedNetwork("slow"),
    ScannedNetwork("congested"),
    ScannedNetwork("slow", "on"),
    ScannedNetwork("congested", "on"),
)
HEAD = """# The paper's own set-up

Written by `{command}`: run it again rather than change the page.

*GPU Cluster Scheduling for Network-Sensitive Deep Learning* (arXiv 2401.16492) states up to −69 % makespan, −83 %
mean JCT and −98 % exposed communication against consolidation-based scheduling. [Results](results.md) compares on
our engine, networks and rivals. This page repeats the set-up of the first author's public simulator instead, as far
as facts about it are known:

- A job's speed is that of the job alone on its placement: `--contention off`.
- Networks `as-published` (5 µs and 200 GB/s between machines of a rack, 50 µs and 400 GB/s between racks),
  `as-published-older` (100 GB/s in a rack, 1 ms at a NIC, 50 ms and 10 GB/s between racks) and
  `as-published-oldest` (5 ms and 25 GB/s in a rack). The paper does not say which is its congested network.
- Models as in its profiles (`--profiles as-published`), without overlap of compute and communication.
- Leases of 1 h, a restart of 1 s per GPU. The size of its cluster is not stated: three are tried.
- `gandiva-as-coded` puts gangs larger than a machine on GPUs drawn at random, and serves the job that started
  latest first. `tiresias-as-coded` decides by the model's name how far a gang may go. Neither is what its paper
  describes.

Two things of that simulator are not repeated. Running jobs bid again there and hold gangs that they never use, and
a gang split unevenly uses one flat ring at its slowest tier; here each gang uses the hierarchical ring.

Beside these: fair rivals (`tiresias`; `las` held at its closest tier), the forms of the paper's own scheduler, and
our `slow` and `congested` networks with and without contention. Negative is better.

"""


def published_runs(shared: Path, folder: Path, seeds: Sequence[int]) -> list[Run]:
    """Every policy on every workload, cluster and network of the scan; traces are written into the folder."""
    digests: dict[str, str] = {}
    runs: list[Run] = []
    for load in LOADS:
        for seed in seeds:
            trace = str(prepare(load, seed, shared, folder).trace)
            for cluster in CLUSTERS:
                for setting in SETTINGS:
                    for policy in (PAPERS, OURS, *AS_CODED, *FAIR):
                        runs.append(_run(trace, load, cluster, setting, policy, seed, digests))
    return runs


def _run(
    trace: str, load: str, cluster: str, setting: ScannedNetwork, policy: str, seed: int, digests: dict[str, str]
) -> Run:
    name, _, tier = policy.partition(":tier=")
    settings = {"tier": tier} if tier else {"seed": str(seed)} if name == AS_CODED[0] else {}
    scenario = Scenario(
        trace, cluster, name, settings, network=setting.network, contention=setting.contention, profiles=PROFILES,
        seed=seed,
    )  # fmt: skip
    labels = {"workload": f"{load} on {cluster}", "network": setting.name(), "policy": policy, "seed": seed}
    return make_run(scenario, labels, digests)


def published_page(contests: Sequence[Contest], command: str) -> str:
    """The scan in Markdown: where the paper's figures appear and against which rival, then every cell."""
    parts = [HEAD.format(command=command)]
    for ours in (PAPERS, OURS):
        parts.append(f"## `{ours}`\n")
        for title, baselines in (("Against the rivals as coded", AS_CODED), ("Against fair rivals", FAIR)):
            parts.append(f"### {title}: `{ours}`\n\n{headline(contests, ours, baselines)}")
            parts.append(reached(contests, ours, baselines))
            parts.append(gains_by_cell(contests, ours, baselines))
    return "\n".join(parts)
