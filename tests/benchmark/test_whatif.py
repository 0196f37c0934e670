"""A cluster that we simulate, and its record alone: what `whatif` finds out from that."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.whatif import ask, level_on, wrong_clusters
from benchmarks.whatif_loads import Lab, as_recorded, record, write

import dally
from dally.sweep.policy_list import Chosen

LABS = (
    Lab("itp-like", 300, 0.9, "2x6x4", "slow", 2),
    Lab("venus-like", 300, 0.9, "4x4x4", "congested", 3),
    Lab("itp-like", 300, 0.9, "2x6x4", "normal", 4),
)


@pytest.mark.parametrize("lab", LABS, ids=Lab.told)
def test_it_finds_what_made_the_record_and_foretells_the_gain(lab: Lab, tmp_path: Path) -> None:
    found = ask(lab, "dally", tmp_path)
    assert (found.policy, found.network) == ("slurm-backfill", lab.network)
    assert found.off < 0.05
    assert found.level == "use"
    assert abs(found.true) > 0.05, "there is something to foretell"
    assert found.predicted == pytest.approx(found.true, rel=0.1)
    for cluster in wrong_clusters(lab):
        assert level_on(lab, cluster, Chosen("dally", {}), tmp_path) == "do not quote"


def test_without_models_the_policy_is_found_and_the_network_said_to_be_a_guess(tmp_path: Path) -> None:
    lab = LABS[0]
    happened, _ = record(lab, tmp_path)
    recorded = write(as_recorded(happened, known_models=False), tmp_path / "no-models.csv")
    found = dally.whatif(recorded, lab.cluster, "dally", seeds=[1])
    assert found.summary["calibration"]["policy"] == "slurm-backfill"
    assert found.summary["calibration"]["network_evidence"] is None
    assert found.verdict.endswith("waits below can be used, what the network costs is a guess.")
    given = dally.whatif(recorded, lab.cluster, "dally", network=lab.network, current="slurm-backfill", seeds=[1])
    assert not given.summary["calibration"]["searched"]
    assert given.usable
