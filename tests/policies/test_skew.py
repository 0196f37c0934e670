"""Tiresias's skew: from the profiles of the run, its own catalogue included."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dally.runs.execute import execute
from dally.runs.scenario import Scenario

ROOT = Path(__file__).parents[2]
EXAMPLE = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "models.md").read_text(encoding="utf-8"), re.DOTALL)[0]

# One GPU is free on each machine of 4 until 10. Job c takes both at 1 unless it has to stay together.
TRACE = "job_id,submit_s,gpus,duration_s,model\na,0,3,10,\nb,0,3,20,\nc,1,2,5,our-ranker\n"


@pytest.mark.parametrize(("skew", "start_s"), [("0.08", 1.0), ("0.9", 10.0)])
def test_the_users_catalogue_counts(tmp_path: Path, skew: str, start_s: float) -> None:
    (tmp_path / "t.csv").write_text(TRACE)
    assert "value = 0.08" in EXAMPLE
    (tmp_path / "mine.toml").write_text(EXAMPLE.replace("value = 0.08", f"value = {skew}"))
    scenario = Scenario(str(tmp_path / "t.csv"), "1x2x4", "tiresias", profiles=str(tmp_path / "mine.toml"))
    assert execute(scenario).outcomes[2].start_s == start_s


def test_a_model_that_nobody_knows_is_not_skewed(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TRACE)
    scenario = Scenario(str(tmp_path / "t.csv"), "1x2x4", "tiresias")
    assert execute(scenario).outcomes[2].start_s == 1.0
