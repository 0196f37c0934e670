"""Machines of a large model's gang in the order of its ranks, as the backend is given them."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from dally.cli.main import app
from dally.cluster.links import connect
from dally.cluster.presets import find_preset
from dally.cluster.topology import Topology, grid
from dally.live.backends.base import Placement
from dally.live.facts import placement_of
from dally.live.rank_order import in_rank_order, rank_machines
from dally.model import Profile, make_allocation
from dally.perf.profiles import find_profile, load_profiles

NETWORK = connect(grid(2, 4, 8), find_preset("h100-nvswitch-8x400g"))
LARGE = load_profiles(Path("large-models"))


def large(gpus: int) -> Profile:
    return find_profile("llama2-13b", "h100", catalogue=LARGE).step(gpus)


def test_machines_that_hold_whole_groups_come_first() -> None:
    allocation = make_allocation(2, [(0, 1), (1, 8), (2, 1), (4, 6)])  # tensor groups of two
    profile = large(16)
    placement = placement_of(NETWORK.topology, allocation)
    ordered = in_rank_order(placement, allocation, NETWORK, profile)
    assert ordered == placement  # the same GPUs
    assert list(ordered) != list(placement)
    ranks = rank_machines(profile.groups, allocation, NETWORK)
    assert [ranks.count(name) for name in placement] == [1, 8, 1, 6]
    assert list(ordered) == list(dict.fromkeys(ranks))
    assert next(iter(ordered)) == "rack0-m1"


def test_other_models_keep_the_order_of_the_fabric() -> None:
    allocation = make_allocation(1, [(0, 4), (1, 8)])
    placement = placement_of(NETWORK.topology, allocation)
    assert list(in_rank_order(placement, allocation, NETWORK, Profile(compute_s=1.0))) == list(placement)


class HeldJob:
    """A Slurm backend with one running job."""

    def __init__(self, held: Placement) -> None:
        self._held = held

    def hosts(self, job_id: str) -> Placement:
        return self._held

    def topology(self) -> Topology:
        return NETWORK.topology


def test_slurm_hosts_prints_the_machine_of_each_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "dally.cli.live.slurm._backend", lambda conf, partitions: HeldJob({"rack0-m0": 4, "rack0-m1": 8})
    )
    options = ["slurm", "hosts", "--job", "7", "--gpu", "h100", "--profiles", "large-models"]
    result = CliRunner().invoke(app, [*options, "--model", "llama2-13b", "--network", "normal"])
    assert result.exit_code == 0, result.output
    assert sorted(result.output.split()) == ["rack0-m0"] * 4 + ["rack0-m1"] * 8
    for arguments, problem in (
        (["--model", "llama2-13b"], "--network is missing"),
        (
            ["--model", "resnet50", "--network", "normal"],
            "states no parallel groups",
        ),
    ):
        refused = CliRunner().invoke(app, [*options, *arguments])
        assert problem in str(refused.exception)
