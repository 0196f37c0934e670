"""Traces whose jobs have constraints, and clusters that state what they have."""

from __future__ import annotations

from pathlib import Path

import pytest

from dally.cluster.formats.toml_file import parse_toml
from dally.cluster.formats.writers import to_toml
from dally.cluster.topology import Capacity
from dally.errors import InputError
from dally.runs.assemble import assemble
from dally.runs.scenario import Scenario
from dally.testing.invariants import record_of

CLUSTER = """
[[tiers]]
name = "machine"
[[tiers]]
name = "network"
[[machines]]
names = "n[0-1]"
gpus = 8
cpus = 16
memory_mb = 1000
resources = {nic = 2}
features = ["ib", "a100"]
[[machines]]
names = "n2"
gpus = 8
"""
HEADER = "job_id,submit_s,gpus,duration_s,cpus_per_gpu,features,exclusive,gpus_per_node\n"


def scenario(folder: Path, *rows: str, skip: bool = False) -> Scenario:
    (folder / "c.toml").write_text(CLUSTER)
    (folder / "j.csv").write_text(HEADER + "".join(f"{row}\n" for row in rows))
    return Scenario(str(folder / "j.csv"), str(folder / "c.toml"), "fifo-backfill", skip_impossible=skip)


def test_a_run_by_hand(tmp_path: Path) -> None:
    """`a` takes all CPUs of n0. `b` has n1 to itself. `c` takes 4 GPUs of n0 and of n2. `d` waits for CPUs."""
    simulation, _ = assemble(
        scenario(tmp_path, "a,0,4,100,4,ib,,", "b,0,8,50,,ib,1,", "c,0,8,100,,,,4", "d,0,4,9,4,ib,,")
    )
    simulation.run()
    assert [job.start_s for job in simulation.jobs] == [0.0, 0.0, 0.0, 50.0]
    assert [job.job_id for job in simulation.jobs if job.tier == 1] == ["c"]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("d,0,4,100,20,ib,,", "job 'd': no machines have all that it needs"),
        ("d,0,4,100,,roce,,", "job 'd': no machine has the features roce"),
        ("d,0,4,100,,ib&,,", "job 'd': features: 'ib&': must be names"),
        ("d,0,4,100,,,2,", "j.csv:2: exclusive: '2': must be 0 or 1"),
        ("d,0,4,100,,,,1.5", "j.csv:2: gpus_per_node: '1.5': must be a whole number"),
        ("d,0,4,100,-1,,,", "j.csv:2: cpus_per_gpu: '-1': must be a number, not negative"),
    ],
)
def test_what_cannot_be(tmp_path: Path, row: str, problem: str) -> None:
    with pytest.raises(InputError) as error:
        assemble(scenario(tmp_path, row))
    assert problem in str(error.value)


def test_jobs_that_fit_nowhere_are_left_out_if_asked(tmp_path: Path) -> None:
    _, trace = assemble(scenario(tmp_path, "a,0,4,100,4,ib,,", "d,0,4,100,20,ib,,", skip=True))
    assert ([job.job_id for job in trace.jobs], trace.skipped) == (["a"], 1)


def test_topology_files_state_capacities(tmp_path: Path) -> None:
    topology = parse_toml(tmp_path / "c.toml", CLUSTER)
    stated = Capacity(16.0, 1000.0, {"nic": 2.0}, frozenset(("ib", "a100")))
    assert topology.capacities == [stated, stated, Capacity()]
    assert parse_toml(tmp_path / "again.toml", to_toml(topology)).capacities == topology.capacities


@pytest.mark.parametrize("line", ["cpus = -1", 'resources = "nic"', "resources = {nic = -1}", "features = 3"])
def test_bad_capacities_name_their_line(tmp_path: Path, line: str) -> None:
    stated = "\n".join(row for row in CLUSTER.split("\n") if not row.startswith(("cpus", "resources", "features")))
    with pytest.raises(InputError, match=f"c.toml:10: machines.0..{line.split()[0]}"):
        parse_toml(tmp_path / "c.toml", stated.replace("memory_mb = 1000", f"memory_mb = 1000\n{line}"))


PARTITIONS = """
[[partitions]]
name = "first"
machines = ["n0"]
[[partitions]]
name = "last"
machines = ["n[1-2]"]
time_limit_s = 100.0
"""


@pytest.mark.parametrize("policy", ["fifo-backfill", "dally", "las"])
def test_partitions_overlap_and_a_job_may_name_several(tmp_path: Path, policy: str) -> None:
    """One policy has all machines: `a` may only have n0, `b` any of three, `c` only n1 and n2, `d` any by name."""
    (tmp_path / "c.toml").write_text(CLUSTER + PARTITIONS)
    rows = ("a,0,8,50,first,", "b,0,8,50,,", "c,0,8,50,last,60", 'd,0,8,50,"first,last",200')
    text = "job_id,submit_s,gpus,duration_s,partition,limit_s\n" + "".join(f"{row}\n" for row in rows)
    (tmp_path / "j.csv").write_text(text)
    simulation, _ = assemble(Scenario(str(tmp_path / "j.csv"), str(tmp_path / "c.toml"), policy))
    simulation.run()
    starts = [row for row in record_of(simulation).events if row.kind == "start"]
    seen = {simulation.jobs[row.job].job_id: {machine for machine, _ in row.parts} for row in starts}
    assert seen["a"] == seen["d"] == {0}  # `last` takes no job of 200 s
    assert seen["c"] <= {1, 2}
    assert [job.finish_s for job in simulation.jobs] == [50.0, 50.0, 50.0, 100.0]
