"""`--contention off`: jobs that share links are as fast as alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from dally.errors import InputError
from dally.runs.assemble import assemble
from dally.runs.execute import execute
from dally.runs.scenario import Scenario

# Two gangs of 12 on three machines of 8 share the middle machine's NIC.
TRACE = "job_id,submit_s,gpus,duration_s,model\na,0,12,3600,vgg16\nb,0,12,3600,vgg16\n"


def scenario(folder: Path, contention: str, policy: str = "fifo-backfill", jobs: int = 2) -> Scenario:
    trace = folder / "trace.csv"
    trace.write_text("\n".join(TRACE.splitlines()[: jobs + 1]) + "\n")
    return Scenario(str(trace), "1x3x8", policy, network="slow", contention=contention)


@pytest.mark.parametrize("policy", ["fifo-backfill", "ada-srsf", "dally", "dally-paper"])
def test_two_gangs_on_one_link_are_as_fast_as_alone(tmp_path: Path, policy: str) -> None:
    alone = execute(scenario(tmp_path, "on", policy, jobs=1)).summary
    off = execute(scenario(tmp_path, "off", policy)).summary
    on = execute(scenario(tmp_path, "on", policy)).summary
    assert off["jct_mean_s"] == pytest.approx(alone["jct_mean_s"])
    assert off["comm_s"] == pytest.approx(2 * alone["comm_s"])
    assert on["comm_s"] > 1.05 * off["comm_s"]


def test_what_a_place_costs_counts_nobody_else(tmp_path: Path) -> None:
    simulation, _ = assemble(scenario(tmp_path, "off"))
    simulation.run(10.0)
    first, second = simulation.jobs
    assert first.allocation is not None
    own, inflicted = simulation.state.speed.slowdown(second, first.allocation)
    assert own == pytest.approx(1.0 / first.rate)
    assert inflicted == 0.0


def test_it_is_on_or_off(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--contention some: must be "):
        execute(scenario(tmp_path, "some"))
