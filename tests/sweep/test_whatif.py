"""What the two sides of a what-if run on."""

from __future__ import annotations

from pathlib import Path

import pytest

from dally.cluster.links import has_links
from dally.cluster.spec import read_topology
from dally.errors import InputError
from dally.runs.assemble import assemble
from dally.runs.scenario import Scenario
from dally.sweep.whatif.change import Change, WhatIfSide, changed, today
from dally.sweep.whatif.from_history import HistoryQuestion, both_sides, known_network

EXAMPLES = Path(__file__).parents[2] / "examples"
LAB = str(EXAMPLES / "lab.toml")  # states its links


def current(cluster: str, preset: str = "") -> WhatIfSide[Scenario]:
    scenario = Scenario(trace=str(EXAMPLES / "jobs.csv"), cluster=cluster, policy="fifo", network=preset)
    return today(scenario, read_topology(cluster))


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
    assert has_links(changed(Change(cluster_delta="+1 machine"), current(LAB)).topology)
    assert not has_links(changed(Change(network="fast"), current(LAB)).topology)


@pytest.mark.parametrize(
    ("change", "policy", "settings"),
    [
        (Change(settings={"tier": "closest"}), "las", {"lease_s": "5", "tier": "closest"}),
        (Change("las", {"lease_s": "9"}), "las", {"lease_s": "9"}),
        (Change("fifo"), "fifo", {}),
        (Change(), "las", {"lease_s": "5"}),
    ],
)
def test_settings_merge_over_those_in_use(change: Change, policy: str, settings: dict[str, str]) -> None:
    before = today(Scenario("", "2x8", "las", {"lease_s": "5"}), read_topology("2x8"))
    after = changed(change, before).config
    assert (after.policy, after.settings) == (policy, settings)


@pytest.mark.parametrize(
    ("change", "given", "policy"),
    [
        (Change(), True, "dally"),
        (Change(cluster_delta="+1 machine"), True, "dally"),
        (Change(settings={"lease_s": "9"}), True, ""),
        (Change(settings={"lease_s": "9"}), False, "dally"),
        (Change(quotas=("a.limit=1",)), False, ""),
        (Change("las", quotas=("a.limit=1",)), False, "las"),
    ],
)
def test_the_policy_that_is_asked_about(change: Change, given: bool, policy: str) -> None:
    question = HistoryQuestion(Scenario("", "", "las"), change, [1], policy_stated=given)
    assert question.requested_change().policy == policy


def test_new_quotas_go_into_a_file(tmp_path: Path) -> None:
    queues = tmp_path / "queues.toml"
    queues.write_text("[queues.a]\nguarantee = 8\ndefault = true\n")
    before = today(Scenario("", "2x8", "fifo", queues=str(queues)), read_topology("2x8"))
    after = changed(Change(quotas=("a.guarantee=+4",)), before, tmp_path / "new")
    assert after.label == "fifo, a.guarantee=+4"
    assert "guarantee = 12" in Path(after.config.queues).read_text()


def test_both_sides_in_order_with_their_files(tmp_path: Path) -> None:
    before, change = current("2x2x8", "slow"), Change(cluster_delta="+1 rack")
    runs = both_sides(before, changed(change, before), change, [1, 2], tmp_path)
    assert [(run.labels["policy"], run.labels["seed"]) for run in runs] == [
        ("fifo", 1), ("fifo", 2), ("fifo, +1 rack", 1), ("fifo, +1 rack", 2),
    ]  # fmt: skip
    assert {run.labels["network"] for run in runs} == {"slow"}
    assert len({run.key for run in runs}) == 4
    assert read_topology(runs[2].scenario.cluster).total_gpus() == 48
    simulation, _ = assemble(runs[2].scenario)
    current_run, _ = assemble(runs[0].scenario)
    # A third rack brings no gang closer together: the same work takes as long.
    assert [job.duration_s for job in simulation.jobs] == pytest.approx(
        [job.duration_s for job in current_run.jobs]
    )
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == [
        "cluster.toml",
        "same-work-1.csv",
        "same-work-2.csv",
    ]
