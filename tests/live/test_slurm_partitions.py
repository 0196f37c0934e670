"""What a partition and slurm.conf set for all jobs: whole nodes, CPUs by GPU, limits by node. Needs no Slurm."""

from __future__ import annotations

from typing import Any

import pytest

from dally.live.backends import base
from dally.live.backends.base import ObservedJob, ObservedMachine
from dally.live.backends.slurm.job_record import records_of
from dally.live.backends.slurm.jobs_json import JobReader
from dally.live.backends.slurm.nodes_json import machines_of, threads_of
from dally.live.backends.slurm.partition_choice import job_defaults
from dally.live.backends.stated_facts import NOTHING_STATED
from tests.live.test_slurm_records import NOW_S, OURS, row

SHOWN = """\
PartitionName=gpu State=UP MaxNodes=UNLIMITED MaxCPUsPerNode=UNLIMITED OverSubscribe=NO JobDefaults=(null)
PartitionName=small State=UP MaxNodes=UNLIMITED MaxCPUsPerNode=UNLIMITED OverSubscribe=NO JobDefaults=(null)
PartitionName=whole State=UP MaxNodes=UNLIMITED MaxCPUsPerNode=UNLIMITED OverSubscribe=EXCLUSIVE JobDefaults=(null)
PartitionName=lean State=UP MaxCPUsPerNode=8 OverSubscribe=NO JobDefaults=DefCpuPerGPU=4,DefMemPerGPU=2000
"""
MEMBERS = {"gpu": "abcd", "small": "cd", "whole": "ab", "lean": "ab"}


@pytest.fixture
def reader() -> JobReader:
    """a and b have four GPUs, c and d two."""
    reader = JobReader(frozenset(), 4)
    machines = [ObservedMachine(name, 4 if name in "ab" else 2, cpus=16.0) for name in "abcd"]
    reader.partitions.members = {name: frozenset(names) for name, names in MEMBERS.items()}
    reader.partitions.update(SHOWN, machines, ())
    return reader


def job_in(reader: JobReader, **changes: Any) -> ObservedJob:
    record = next(records_of([row(**{**OURS, "tres_per_node": "gres:gpu:1", **changes})]))
    return reader.job(reader.as_its_partition_has_it(record), NOTHING_STATED, NOW_S)


@pytest.mark.parametrize(
    ("changes", "gpus", "nodes", "machines"),
    [
        ({"partition": "gpu", "shared": "none"}, 4, 1, "ab"),
        ({"partition": "small", "shared": "none"}, 2, 1, "cd"),
        ({"partition": "gpu", "shared": "none", "required_nodes": "c"}, 2, 1, "cd"),
        ({"partition": "gpu", "shared": "none", "excluded_nodes": "a,b"}, 2, 1, "cd"),
        ({"partition": "whole"}, 4, 1, "ab"),
        ({"partition": "whole", "tres_per_node": "", "tres_per_job": "gres:gpu:6"}, 8, 2, "ab"),
        ({"partition": "small", "node_count": 2, "max_nodes": 2, "shared": "none"}, 4, 2, "cd"),
    ],
)
def test_whole_machines_are_those_that_the_job_may_use(
    reader: JobReader, changes: dict[str, Any], gpus: int, nodes: int, machines: str
) -> None:
    job = job_in(reader, **changes)
    assert (job.spec.gpus, job.spec.nodes_min, job.spec.exclusive) == (gpus, nodes, True)
    assert job.allowed == frozenset(machines)


@pytest.mark.parametrize(
    ("changes", "cpus", "memory_mb"),
    [
        ({}, (4.0, 0.0), (2000.0, 0.0)),
        ({"cpus": 3, "minimum_cpus_per_node": 3}, (0.0, 3.0), (2000.0, 0.0)),
        ({"cpus_per_tres": "gpu:2"}, (2.0, 0.0), (2000.0, 0.0)),
        ({"memory_per_node": 500}, (4.0, 0.0), (0.0, 500.0)),
        ({"partition": "gpu"}, (0.0, 1.0), (0.0, 0.0)),
    ],
)
def test_what_a_job_does_not_state_its_partition_does(
    reader: JobReader, changes: dict[str, Any], cpus: tuple[float, float], memory_mb: tuple[float, float]
) -> None:
    spec = job_in(reader, **{"partition": "lean", **changes}).spec
    assert (spec.cpus_per_gpu, spec.cpus_per_node) == cpus
    assert (spec.memory_mb_per_gpu, spec.memory_mb_per_node) == memory_mb


def test_defaults_of_slurm_conf_and_whole_cores(reader: JobReader) -> None:
    nodes = [{"name": "a", "threads": 2}, {"name": "b", "threads": 1}]
    reader.partitions.defaults = job_defaults("DefCpuPerGPU=6")._replace(threads=threads_of(nodes))
    assert job_in(reader, partition="gpu").spec.cpus_per_gpu == 6.0
    assert job_in(reader, partition="lean").spec.cpus_per_gpu == 4.0
    assert job_in(reader, partition="gpu", cpus=5).spec.cpus_per_node == 6.0  # a core has two
    assert job_defaults("(null)") == job_defaults("")


@pytest.mark.parametrize(
    ("partitions", "cpus"), [(("lean",), (11.0, 8.0)), (("gpu",), (16.0, 16.0)), (("lean", "gpu"), (16.0, 16.0))]
)
def test_cpus_of_a_partition_on_a_machine(
    reader: JobReader, partitions: tuple[str, ...], cpus: tuple[float, float]
) -> None:
    """MaxCPUsPerNode counts the jobs of its partition, and not those of others."""
    machines = [ObservedMachine("a", 4, cpus=16.0, cpus_taken=3.0), ObservedMachine("b", 4, cpus=16.0)]
    jobs = [job_in(reader, partition=name) for name in partitions]
    limited = reader.partitions.with_cpu_limits(machines, jobs)
    assert tuple(machine.cpus for machine in limited) == cpus


@pytest.mark.parametrize(
    ("state", "reserved", "expected"),
    [
        ({"state": "idle", "state_flags": ["MAINTENANCE", "RESERVED"]}, {"n01"}, base.UP),
        ({"state": "idle", "state_flags": ["MAINTENANCE", "RESERVED"]}, set(), base.DRAINING),
        ({"state": ["IDLE", "MAINTENANCE"]}, {"n01"}, base.UP),
        ({"state": ["IDLE", "MAINTENANCE", "DRAIN"]}, {"n01"}, base.DRAINING),
        ({"state": ["DOWN", "MAINTENANCE"]}, {"n01"}, base.DOWN),
    ],
)
def test_jobs_of_a_maintenance_may_run_on_its_machines(
    state: dict[str, Any], reserved: set[str], expected: str
) -> None:
    """The reservation keeps all other jobs away."""
    node = {"name": "n01", "gres": "gpu:4", "partitions": ["gpu"], **state}
    (machine,) = machines_of([node], frozenset(), reserved=reserved)
    assert machine.state == expected


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"tres_per_node": "", "tres_per_task": "gres:gpu:1", "tasks": 5, "tasks_per_node": 2}, "uneven"),
        ({"tres_per_node": "", "tres_per_task": "gres:gpu:1", "tasks": 4, "tasks_per_node": 2}, ""),
        ({"tres_per_node": "", "tres_per_job": "gres:gpu:4", "node_count": 2, "max_nodes": 2}, ""),
        # Two or three nodes share seven GPUs on no machines, and six on those of two or of four.
        ({"tres_per_node": "", "tres_per_job": "gres:gpu:7", "node_count": 2, "max_nodes": 3}, "uneven"),
        ({"tres_per_node": "", "tres_per_job": "gres:gpu:6", "node_count": 2, "max_nodes": 3}, ""),
        ({"tres_per_node": "", "tres_per_job": "gres:gpu:6", "node_count": 2, "max_nodes": 3, "partition": "small"},
         ""),
    ],
)  # fmt: skip
def test_uneven_shapes(reader: JobReader, changes: dict[str, Any], name: str) -> None:
    assert reader.unmodelled(next(records_of([row(**OURS, **changes)]))) == name


def test_a_stated_group_that_contradicts_the_nodes_does_not_count(reader: JobReader) -> None:
    changes = {"tres_per_node": "", "tres_per_job": "gres:gpu:2", "node_count": 2, "required_nodes": "a,b"}
    stated = NOTHING_STATED.__class__(NOTHING_STATED.gpus, group=2)
    for more, group in ((changes, 1), ({**changes, "node_count": 1, "required_nodes": ""}, 2)):
        record = next(records_of([row(**OURS, **more)]))
        assert reader.job(record, stated, NOW_S).spec.group == group


def test_nodes_that_another_user_has_alone_are_not_for_the_job(reader: JobReader) -> None:
    nodes = [
        {"name": name, "partitions": [of for of, names in MEMBERS.items() if name in names]} for name in "abcd"
    ]
    nodes[0]["owner"], nodes[1]["owner"], nodes[2]["owner"] = "ann", "bob", ""
    reader.partitions.see_nodes(nodes, frozenset("abcd"))
    assert job_in(reader, partition="gpu", user_name="bob").allowed == frozenset("bcd")
    assert job_in(reader, partition="whole", user_name="eve").allowed == frozenset()
    assert job_in(reader, partition="small", user_name="eve").allowed == frozenset("cd")


def test_a_partition_whose_nodes_have_jobs_of_one_user_is_left_to_slurm(reader: JobReader) -> None:
    reader.partitions.update(SHOWN.replace("OverSubscribe=EXCLUSIVE", "ExclusiveUser=YES"), (), ())
    job = job_in(reader, partition="gpu,whole")
    assert (job.managed, job.reason) == (False, "shares its nodes in a way that Dally does not model")
    assert job_in(reader, partition="gpu").managed


def test_one_task_has_all_its_cpus_on_each_node(reader: JobReader) -> None:
    """`--gpus=4 -c20` was sent to nodes of 16 CPUs again and again."""
    total = {"partition": "gpu", "tres_per_node": "", "tres_per_job": "gres:gpu:4", "tasks": 1}
    spec = job_in(reader, **total, cpus=20, minimum_cpus_per_node=20).spec
    assert (spec.cpus_per_node, spec.cpus_per_gpu) == (20.0, 0.0)
    spec = job_in(reader, **total | {"tasks": 4}, cpus=16, minimum_cpus_per_node=4).spec
    assert (spec.cpus_per_node, spec.cpus_per_gpu) == (0.0, 4.0)
