"""Types of GPU and partitions: who runs where."""

from __future__ import annotations

from pathlib import Path

import pytest

from dally.cluster.formats.toml_file import parse_toml
from dally.cluster.formats.writers import to_toml
from dally.engine.simulate import Simulation
from dally.errors import InputError
from dally.policies.registry import POLICIES
from dally.runs.assemble import assemble
from dally.runs.scenario import Scenario

CLUSTER = """
[[tiers]]
name = "machine"
[[tiers]]
name = "rack"
[[tiers]]
name = "network"
[[machines]]
path = "r0"
names = "old[1-2]"
gpus = 4
gpu_type = "V100"
[[machines]]
path = "r1"
names = "new[1-2]"
gpus = 4
gpu_type = "A100"
[[partitions]]
name = "debug"
machines = ["old1", "new1"]
max_gpus = 4
time_limit_s = 3600
users = ["ann", "ben"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cluster.toml").write_text(CLUSTER)
    return tmp_path


def ran(folder: Path, jobs: str, policy: str = "fifo-backfill", **more: object) -> Simulation:
    """The run of jobs given as rows of id, submission, GPUs, duration, types, partition, user."""
    (folder / "jobs.csv").write_text(f"job_id,submit_s,gpus,duration_s,gpu_type,partition,user\n{jobs}")
    given = Scenario(str(folder / "jobs.csv"), str(folder / "cluster.toml"), policy, **more)  # type: ignore[arg-type]
    simulation, _ = assemble(given)
    simulation.run()
    return simulation


def places_of(simulation: Simulation) -> dict[str, list[set[str]]]:
    """The machines of every place that each job had."""
    log, topology = simulation.state.log, simulation.state.cluster.topology
    found: dict[str, list[set[str]]] = {}
    for row in range(len(log)):
        parts = range(int(log.part_ends[row - 1]) if row else 0, int(log.part_ends[row]))
        names = {topology.names[0][int(log.part_machines[part])] for part in parts}
        if names:
            found.setdefault(simulation.jobs[int(log.jobs[row])].job_id, []).append(names)
    return found


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_gangs_are_of_types_and_in_partitions_they_accept(folder: Path, policy: str) -> None:
    rows = (
        "a,0,4,1000,A100,,ann\nb,1,4,1000,V100|A100,,ben\nc,2,8,500,,,cid\nd,3,4,300,,debug,ann\n"
        "e,4,2,800,V100,debug,ben\nf,5,12,900,A100+V100,,cid\ng,6,4,200,V100,,ann\n"
    )
    simulation = ran(folder, rows, policy)
    places = places_of(simulation)
    assert simulation.state.finished == 7
    old, new = {"old1", "old2"}, {"new1", "new2"}
    assert all(place <= new for place in places["a"])
    assert all(place <= old or place <= new for job in "bc" for place in places[job])
    assert all(place in ({"old1"}, {"new1"}) for place in places["d"])
    assert all(place == {"old1"} for place in places["e"])
    assert all(len(place) >= 3 for place in places["f"]), "types mixed, as it said"
    assert all(place <= old for place in places["g"])


def test_a_slower_type_takes_longer(folder: Path) -> None:
    simulation = ran(folder, "a,0,4,1000,V100|A100,,\nb,0,4,1000,V100,,\n", gpu_speeds="A100=1,V100=0.5")
    assert [job.finish_s for job in simulation.jobs] == [1000.0, 1000.0], "each on the fastest that it accepts"
    crowd = "".join(f"x{i},0,4,1000,A100,,\n" for i in range(6))
    late = ran(folder, f"{crowd}a,1,4,1000,V100|A100,,\n", gpu_speeds="A100=1,V100=0.5").jobs[-1]
    assert late.finish_s == 2001.0, "a slower GPU now: twice as long, and sooner done than in line"


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("a,0,8,100,,debug,ann", "partition 'debug' takes jobs of up to 4 GPUs, and this one asks for 8"),
        ("a,0,1,100,,debug,eve", "partition 'debug' is for others than user 'eve'"),
        ("a,0,12,100,,,ann", "gpu_type: asks for 12 GPUs of type any, but of one and there are 8 V100, 8 A100"),
        ("a,0,1,100,H100,,ann", "gpu_type: asks for 1 GPUs of type H100 and there are 8 V100, 8 A100"),
    ],
)
def test_what_no_place_would_do_for_is_refused(folder: Path, row: str, problem: str) -> None:
    with pytest.raises(InputError, match="job 'a': ") as raised:
        ran(folder, row + "\n")
    assert problem in str(raised.value)
    assert ran(folder, row + "\nb,0,1,10,,,\n", skip_impossible=True).state.finished == 1


def test_partitions_are_read_back_as_they_were_written() -> None:
    once = parse_toml(Path("a.toml"), CLUSTER)
    again = parse_toml(Path("b.toml"), to_toml(once))
    assert once.partitions == again.partitions
    assert once.gpu_types == again.gpu_types
    with pytest.raises(InputError, match=r"partitions\[0\].machines: 'new9': no such machine"):
        parse_toml(Path("c.toml"), CLUSTER.replace('"new1"', '"new9"'))
