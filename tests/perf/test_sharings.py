"""`--set-network sharing=…`: the same jobs under each way of sharing links, in whole runs."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks import link_sharing

from dally.cluster.links import LINK_SHARINGS, override
from dally.cluster.presets import find_preset
from dally.errors import InputError
from dally.runs.assemble import assemble
from dally.runs.execute import execute
from dally.runs.scenario import Scenario

# Two gangs of 12 on three machines of 8 share the middle machine's NIC. Equal steps interleave; unequal ones rank.
TRACE = "job_id,submit_s,gpus,duration_s,model\na,0,12,3600,{0}\nb,0,12,3600,{1}\n"
MODELS = {"cassini": ("gpt2", "gpt2"), "crux": ("vgg16", "gpt2")}


def scenario(folder: Path, sharing: str, models: tuple[str, str] = ("vgg16", "gpt2"), **other: Any) -> Scenario:
    trace = folder / "trace.csv"
    trace.write_text(TRACE.format(*models))
    start = Scenario(str(trace), "1x3x8", "fifo-backfill", network="slow", network_settings={"sharing": sharing})
    return replace(start, **other)


@pytest.mark.parametrize("sharing", ["cassini", "crux"])
def test_any_policy_shares_links_in_the_way_of_the_network(tmp_path: Path, sharing: str) -> None:
    for policy in ("fifo-backfill", "dally", "themis"):
        fair, one, again = (
            execute(scenario(tmp_path, name, MODELS[sharing], policy=policy)).summary["comm_s"]
            for name in ("fair", sharing, sharing)
        )
        assert one == again != fair


def test_a_policy_with_a_way_of_its_own_and_runs_without_sharing_keep_theirs(tmp_path: Path) -> None:
    for policy, contention in (("ada-srsf", "on"), ("fifo-backfill", "off")):
        runs = [scenario(tmp_path, sharing, policy=policy, contention=contention) for sharing in LINK_SHARINGS]
        assert len({execute(run).summary["comm_s"] for run in runs}) == 1


@pytest.mark.parametrize("sharing", ["cassini", "crux"])
def test_a_place_costs_what_it_then_takes_and_a_saved_run_goes_on(tmp_path: Path, sharing: str) -> None:
    simulation, _ = assemble(scenario(tmp_path, sharing, MODELS[sharing]))
    simulation.run(10.0)
    speed = simulation.state.speed
    first, second = simulation.jobs
    for job in (first, second):
        assert job.allocation is not None
        own, _ = speed.slowdown(job, job.allocation)
        assert own == pytest.approx(1.0 / job.rate, rel=1e-3)
    again = pickle.loads(pickle.dumps(speed))
    assert again.sharing() == sharing
    assert [each.rate for each in again.removed(second)] == [each.rate for each in speed.removed(second)]


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(InputError, match="sharing: 'luck': must be one of fair, adadual, cassini, crux"):
        override(find_preset("slow"), {"sharing": "luck"})


def test_what_shifts_gain_at_most() -> None:
    assert link_sharing.gain_of_shifts(2, 0.0) == pytest.approx(1.33, abs=0.005)
    assert link_sharing.gain_of_shifts(3, 0.5) == pytest.approx(1.19, abs=0.005)


def test_the_benchmark_prints_its_tables(capsys: pytest.CaptureFixture[str]) -> None:
    link_sharing.main(["--setups", "cassini", "--policies", "fifo-backfill", "--seeds", "1", "--jobs", "30"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[2] for line in lines[1:5]] == ["fair", "cassini", "crux", "alone"]
    standing = lines[lines.index("") + 2].split()
    assert standing[0] == "cassini"
    assert float(standing[-1].rstrip("%")) >= float(standing[1].rstrip("%"))
