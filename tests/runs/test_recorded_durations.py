"""What recorded places cost is taken out of durations: a replay of a simulated run ends as the run did."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.whatif_loads import as_recorded

from dally.errors import InputError
from dally.runs.assemble import assemble, tier_slowdowns
from dally.runs.execute import execute
from dally.runs.scenario import Scenario
from dally.traces.writing import text_of

HEADER = "job_id,submit_s,gpus,duration_s,wait_s,model,nodes\n"
MODELS = ("gpt2-xl", "vgg16", "bert-large", "resnet50")
JOBS = "job_id,submit_s,gpus,duration_s,model\n" + "".join(
    f"j{n},{n * 300},{(3, 12, 6, 8, 20)[n % 5]},{1000 + 700 * (n % 7)},{MODELS[n % 4]}\n" for n in range(60)
)


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    (tmp_path / "jobs.csv").write_text(JOBS)
    return Scenario(trace=str(tmp_path / "jobs.csv"), cluster="2x3x4", policy="fifo-backfill", network="slow")


@pytest.mark.parametrize("network", ["slow", "congested", "normal", ""])
def test_a_replay_ends_as_the_run_did(scenario: Scenario, tmp_path: Path, network: str) -> None:
    """Whatever network is assumed: places and neighbours are as recorded, so all that it costs is known."""
    run = execute(scenario)
    assert run.summary["tier_starts"]["network"] > 5
    (tmp_path / "recorded.csv").write_text("".join(text_of(as_recorded(run), "csv")))
    again = execute(replace(scenario, trace=str(tmp_path / "recorded.csv"), network=network, durations="recorded"))
    for column in ("start_s", "finish_s"):
        assert again.jobs[column].to_list() == pytest.approx(run.jobs[column].to_list(), abs=1e-3)
    if network == scenario.network:
        assert again.jobs["comm_s"].to_list() == pytest.approx(run.jobs["comm_s"].to_list(), abs=1e-3)
        assert again.notes == {
            "ran at a recorded place: what it cost them is taken out of their durations": run.summary["jobs"]
        }


def test_one_gang_apart_by_hand(tmp_path: Path) -> None:
    rows = 'a,0,8,1000,0,gpt2-xl,rack0-m0\nb,5000,8,1000,0,gpt2-xl,"rack0-m0,rack1-m0"\nc,9000,8,1000,0,vgg16,x1\n'
    (tmp_path / "t.csv").write_text(HEADER + rows)
    base = Scenario(
        trace=str(tmp_path / "t.csv"), cluster="2x2x8", policy="fifo", network="slow", durations="recorded"
    )
    simulation, trace = assemble(base)
    apart = tier_slowdowns(base, "gpt2-xl", 8)[2]
    assert apart > 1.2
    assert [job.duration_s for job in simulation.jobs] == pytest.approx([1000, 1000 / apart, 1000])
    assert list(trace.notes.values()) == [2, 1]
    assert [job.allocation for job in simulation.jobs] == [None, None, None]
    simulation, trace = assemble(replace(base, durations="closest"))
    assert [job.duration_s for job in simulation.jobs] == [1000, 1000, 1000]
    assert trace.notes == {}


def test_neighbours_on_a_link_are_taken_out_while_they_are_there(tmp_path: Path) -> None:
    """b shares the uplinks during the first half of a: a did less work then than in the second."""
    two = '"rack0-m0,rack1-m0"'
    other = '"rack0-m1,rack1-m1"'
    (tmp_path / "t.csv").write_text(
        HEADER + f"a,0,8,1000,0,gpt2-xl,{two}\nb,0,8,500,0,gpt2-xl,{other}\nc,5000,8,1000,0,gpt2-xl,{two}\n"
    )
    base = Scenario(
        trace=str(tmp_path / "t.csv"), cluster="2x2x8", policy="fifo", network="slow", durations="recorded"
    )
    simulation, _ = assemble(base)
    shared, neighbour, alone = (job.duration_s for job in simulation.jobs)
    assert shared == pytest.approx(neighbour + alone / 2, rel=1e-5)
    assert neighbour < alone / 2


def test_only_the_two_ways_are_known(scenario: Scenario) -> None:
    with pytest.raises(InputError, match="unknown way to read durations 'record'; did you mean 'recorded'"):
        assemble(replace(scenario, durations="record"))
