"""What the two sides of a what-if run on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dally.cluster.links import has_links
from dally.cluster.spec import read_topology
from dally.cluster.topology import grid
from dally.errors import InputError
from dally.runs.assemble import assemble
from dally.runs.scenario import Scenario
from dally.sweep.policy_list import Chosen
from dally.sweep.whatif import NewSide, Question, both_sides, known_network, new_topology

EXAMPLES = Path(__file__).parents[2] / "examples"
LAB = str(EXAMPLES / "lab.toml")  # states its links


def question(cluster: str, preset: str = "", **changes: Any) -> Question:
    current = Scenario(trace=str(EXAMPLES / "jobs.csv"), cluster=cluster, policy="fifo", network=preset)
    return Question(current, Chosen("fifo", {}), [1, 2], NewSide(**changes))


@pytest.mark.parametrize(
    ("cluster", "name", "expected"),
    [
        ("2x8", None, ("normal", True)),
        ("2x8", "slow", ("slow", False)),
        ("2x8", "none", ("", False)),
        (LAB, None, ("", False)),
        (LAB, "slow", ("slow", False)),
    ],
)
def test_the_network_in_use(cluster: str, name: str | None, expected: tuple[str, bool]) -> None:
    assert known_network(read_topology(cluster), name) == expected


def test_links_that_are_stated_cannot_be_wished_away() -> None:
    with pytest.raises(InputError, match="--network none: the topology states links of its own"):
        known_network(read_topology(LAB), "none")


def test_another_network_replaces_stated_links() -> None:
    topology = read_topology(LAB)
    assert has_links(new_topology(question(LAB, delta="+1 machine"), topology))
    assert not has_links(new_topology(question(LAB, "", network="fast"), topology))


def test_both_sides_in_order_with_their_files(tmp_path: Path) -> None:
    runs = both_sides(question("2x2x8", "slow", delta="+1 rack"), grid(2, 2, 8), tmp_path)
    assert [(run.labels["policy"], run.labels["seed"]) for run in runs] == [
        ("fifo", 1), ("fifo", 2), ("fifo, +1 rack", 1), ("fifo, +1 rack", 2),
    ]  # fmt: skip
    assert {run.labels["network"] for run in runs} == {"slow"}
    assert len({run.key for run in runs}) == 4
    assert read_topology(runs[2].scenario.cluster).total_gpus() == 48
    simulation, _ = assemble(runs[2].scenario)
    before, _ = assemble(runs[0].scenario)
    # A third rack brings no gang closer together: the same work takes as long.
    assert [job.duration_s for job in simulation.jobs] == pytest.approx([job.duration_s for job in before.jobs])
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == [
        "cluster.toml",
        "same-work-1.csv",
        "same-work-2.csv",
    ]
