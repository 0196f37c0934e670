"""Jobs and nodes as `--json` of later versions of Slurm writes them; needs no Slurm.

Since 23.02 numbers are objects, since 23.11 states and flags are lists, and `sinfo` no longer lists nodes.
"""

from __future__ import annotations

import json
import math
import time
from typing import Any

import pytest

from dally.live.backends import base
from dally.live.backends.base import ObservedMachine, ObservedReservation
from dally.live.backends.slurm.job_record import records_of, whole_records
from dally.live.backends.slurm.jobs_json import JobReader, throttled
from dally.live.backends.slurm.left_alone import left_alone
from dally.live.backends.slurm.nodes_json import less_ours, machines_of
from dally.live.backends.slurm.partition_choice import seconds_of
from dally.live.backends.slurm.shown_limits import licences_left, reservations_of
from dally.live.backends.slurm.tools import Tools
from dally.live.backends.stated_facts import NOTHING_STATED
from tests.live.test_slurm_records import NOW_S, row


def whole(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


UNSET = {"set": False, "infinite": False, "number": 0}
NO_END = {"set": True, "infinite": True, "number": 0}
WRAPPED: dict[str, Any] = {
    "array_job_id": UNSET, "array_task_id": UNSET, "het_job_id": UNSET, "priority": whole(0), "max_nodes": UNSET,
    "node_count": whole(2), "tasks": whole(4), "cpus": whole(16), "tasks_per_node": UNSET, "time_limit": whole(90),
    "submit_time": whole(999_000), "eligible_time": UNSET, "memory_per_node": whole(8000), "memory_per_cpu": UNSET,
    "minimum_cpus_per_node": whole(4), "array_max_tasks": UNSET, "minimum_tmp_disk_per_node": UNSET,
}  # fmt: skip
OLD: dict[str, Any] = {
    "node_count": 2, "tasks": 4, "cpus": 16, "time_limit": 90, "memory_per_node": 8000, "minimum_cpus_per_node": 4,
}  # fmt: skip
COMMON: dict[str, Any] = {
    "admin_comment": "dally:submit=1", "excluded_nodes": "n04", "required_nodes": "", "features": "ib&fast",
    "licenses": "matlab:2", "resv_name": "team",
}  # fmt: skip
VERSIONS = {
    "22.05": {**OLD, "tres_per_node": "gres:gpu:a100:4"},
    "23.02": {**WRAPPED, "tres_per_node": "gres:gpu:a100:4", "time_minimum": NO_END},
    "23.11": {**WRAPPED, "tres_per_node": "gres/gpu:a100:4", "job_state": ["PENDING"], "shared": [], "flags": []},
    "24.05": {**WRAPPED, "tres_per_node": "gres/gpu:a100=4", "job_state": ["PENDING"], "shared": [], "flags": []},
}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_job_of_any_version(version: str) -> None:
    (record,) = records_of([row(**COMMON | VERSIONS[version])])
    job = JobReader(frozenset(), 8).job(record, NOTHING_STATED, NOW_S)
    spec = job.spec
    assert (job.state, job.managed, spec.gpus, spec.gpus_per_node, spec.gpu_type) == ("queued", True, 8, 4, "a100")
    assert (spec.nodes_min, spec.nodes_max, spec.group, spec.limit_s) == (2, 2, 4, 5400.0)
    assert (spec.cpus_per_node, spec.memory_mb_per_node) == (8.0, 8000.0)
    assert (spec.features, spec.exclude, spec.licences, spec.reservation) == ("ib&fast", "n04", "matlab=2", "team")


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"shared": "user"}, "shared"),
        ({"shared": ["user"]}, "shared"),
        ({"shared": ["none"]}, ""),
        ({"het_job_id": whole(7)}, "het"),
        ({"het_job_id": UNSET}, ""),
        ({"tres_per_node": "gres/gpu=0"}, "no-gpus"),
        ({"tres_per_node": "gres/gpu:2,gres/nic:1"}, "other-gres"),
        ({"tres_per_node": "", "tres_per_job": "gres/gpu:a100:2,gres/gpu:v100:1"}, "gpu-types"),
        ({"minimum_tmp_disk_per_node": whole(5)}, "tmp"),
        ({"features": "[a|b]"}, "features"),
        ({"licenses": "a|b"}, "licence-choice"),
        ({"core_spec": 2}, "core-spec"),
    ],
)
def test_what_is_left_alone_in_any_version(changes: dict[str, Any], name: str) -> None:
    assert left_alone(row(**changes)) == name


@pytest.mark.parametrize(
    ("changes", "spec"),
    [
        ({"tres_per_node": "", "tres_per_job": "gres:gpu:6", "node_count": 2, "max_nodes": 3}, (6, 0, 2, 3, 1)),
        ({"tres_per_node": "", "tres_per_job": "gres:gpu:8", "node_count": 2, "max_nodes": 2}, (8, 4, 2, 2, 1)),
        ({"tres_per_node": "", "tres_per_job": "gres:gpu:8"}, (8, 0, 0, 0, 1)),
        ({"tres_per_node": "", "tres_per_task": "gres:gpu:2", "tasks": 4}, (8, 0, 0, 0, 2)),
        ({"tres_per_node": "", "tres_per_task": "gres:gpu:1", "tasks": 4, "tasks_per_node": 2}, (4, 2, 0, 0, 1)),
        ({"shared": "none", "tres_per_node": "gres:gpu:1", "node_count": 2}, (16, 8, 2, 2, 8)),
    ],
)
def test_shapes_of_requests(changes: dict[str, Any], spec: tuple[int, ...]) -> None:
    (record,) = records_of([row(**changes)])
    asks = JobReader(frozenset(), 8).job(record, NOTHING_STATED, NOW_S).spec
    assert (asks.gpus, asks.gpus_per_node, asks.nodes_min, asks.nodes_max, asks.group) == spec


@pytest.mark.parametrize(
    ("changes", "cpus_and_memory"),
    [
        (
            {"cpus": 32, "tasks": 4, "tres_req_str": "cpu=32,mem=62.50G,node=1,gres/gpu=8"},
            (0.0, 32.0, 0.0, 64000.0),
        ),
        ({"cpus_per_tres": "gres:gpu:4", "memory_per_tres": "gres:gpu:2000"}, (4.0, 0.0, 2000.0, 0.0)),
        ({"cpus": 4, "memory_per_cpu": 1000}, (0.0, 4.0, 0.0, 4000.0)),
        (
            {"cpus": 16, "tres_per_node": "", "tres_per_job": "gres:gpu:8", "memory_per_cpu": 10},
            (2.0, 0.0, 20.0, 0.0),
        ),
    ],
)
def test_cpus_and_memory(changes: dict[str, Any], cpus_and_memory: tuple[float, ...]) -> None:
    (record,) = records_of([row(**changes)])
    asks = JobReader(frozenset(), 8).job(record, NOTHING_STATED, NOW_S).spec
    seen = (asks.cpus_per_gpu, asks.cpus_per_node, asks.memory_mb_per_gpu, asks.memory_mb_per_node)
    assert seen == cpus_and_memory


def test_an_arrays_limit_blocks_its_other_tasks() -> None:
    ours = "dally:submit=1"
    array = row(job_id=20, array_job_id=20, array_task_string="1-4%2", array_max_tasks=2, admin_comment=ours)
    runs = row(
        job_id=21, array_job_id=20, array_task_id=0, array_max_tasks=2, admin_comment=ours, job_state="RUNNING",
        nodes="a", gres_detail=["gpu:8(IDX:0-7)"],
    )  # fmt: skip
    records = {record.job_id: record for record in records_of([array, runs])}
    reader = JobReader(frozenset(), 8)
    jobs = throttled((reader.job(one, NOTHING_STATED, NOW_S) for one in records.values()), records)
    assert {job.job_id: job.state for job in jobs} == {
        "20_1": base.QUEUED, "20_2": base.BLOCKED, "20_3": base.BLOCKED, "20_4": base.BLOCKED, "20_0": base.RUNNING,
    }  # fmt: skip
    assert [record.job_id for record in whole_records([array, runs])] == ["20_[1-4]", "20_0"]


PARTITIONS = """\
PartitionName=a AllowAccounts=ALL AllowQos=ALL MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0 Nodes=a,b State=UP
PartitionName=c AllowAccounts=ALL AllowQos=ALL MaxNodes=UNLIMITED MaxTime=1-00:00:00 MinNodes=0 Nodes=c,d State=UP
PartitionName=all AllowAccounts=ALL AllowQos=ALL MaxNodes=UNLIMITED MaxTime=00:30:00 MinNodes=0 Nodes=ALL State=UP
PartitionName=theirs AllowAccounts=x,y MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0 Nodes=c,d State=UP
PartitionName=down AllowAccounts=ALL DenyQos=low MaxNodes=UNLIMITED MaxTime=UNLIMITED Nodes=c,d State=DOWN
PartitionName=one AllowAccounts=ALL DenyQos=low MaxNodes=1 MaxTime=UNLIMITED MinNodes=0 Nodes=c,d State=UP
"""


@pytest.mark.parametrize(
    ("changes", "machines"),
    [
        ({"partition": "a"}, "ab"),
        ({"partition": "a,c"}, "cd"),  # the first that has room
        ({"partition": "a,c", "features": "ib"}, "ab"),  # the first that could have
        ({"partition": "c,a", "tres_per_node": "gres:gpu:h100:4"}, "ab"),
        ({"partition": "c,a", "excluded_nodes": "c"}, "ab"),
        ({"partition": "c,a", "required_nodes": "a,b"}, "ab"),
        ({"partition": "c,a", "minimum_cpus_per_node": 20}, "ab"),
        ({"partition": "c,a", "resv_name": "r"}, "cd"),
        ({"partition": "e,c"}, "cd"),  # e is reserved
        ({"partition": "e,c", "resv_name": "r"}, "ef"),
        ({"partition": "a,all"}, "abcdef"),
        ({"partition": "a,all", "time_limit": 60}, "ab"),
        ({"partition": "all", "time_limit": 60}, "abcdef"),  # Slurm says why not
        ({"partition": "a,theirs"}, "ab"),
        ({"partition": "a,theirs", "account": "y"}, "cd"),
        ({"partition": "a,down"}, "ab"),
        ({"partition": "a,one"}, "ab"),
        ({"partition": "a,c", "node_count": 1}, "abcd"),  # any one machine is in one of them
        ({"partition": "unknown"}, "abcdef"),
    ],
)
def test_several_partitions_are_one_at_a_time(changes: dict[str, Any], machines: str) -> None:
    reader = JobReader(frozenset(), 4)
    now_s = time.time()
    nodes = [
        ObservedMachine(
            name, 4, gpu_type="h100" if name in "ab" else "a100", cpus=32.0 if name in "ab" else 16.0,
            features=frozenset(("ib",) if name in "ab" else ()),
        )
        for name in "abcdef"
    ]  # fmt: skip
    reserved = [ObservedReservation("r", frozenset("ef"), now_s - 60.0, now_s + 60.0)]
    reader.partitions.update(PARTITIONS, nodes, reserved)
    every = {"a": "ab", "c": "cd", "e": "ef", "all": "abcdef", "theirs": "cd", "down": "cd", "one": "cd"}
    reader.partitions.members = {name: frozenset(members) for name, members in every.items()}
    reader.partitions.free_gpus = {"a": 4, "b": 1, "c": 4, "d": 4, "e": 4, "f": 4}
    asks = row(**{"tres_per_node": "gres:gpu:4", "node_count": 2, **changes})
    allowed = reader.job(next(records_of([asks])), NOTHING_STATED, NOW_S).allowed
    assert "".join(sorted(allowed or "abcdef")) == machines


@pytest.mark.parametrize(
    ("text", "seconds"), [("00:30:00", 1800.0), ("1-12:00:01", 129601.0), ("UNLIMITED", math.inf), ("", math.inf)]
)
def test_limits_of_time(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


NODE: dict[str, Any] = {
    "name": "n01", "gres": "gpu:a100:4", "partitions": ["gpu"], "cpus": 16, "real_memory": 64000, "alloc_cpus": 10,
    "alloc_memory": 9000,
}  # fmt: skip


@pytest.mark.parametrize(
    "node",
    [
        {**NODE, "state": "mixed", "state_flags": ["RESERVED"], "active_features": "ib,fast"},
        {**NODE, "state": ["MIXED", "RESERVED"], "features": ["ib", "fast"], "active_features": ["ib", "fast"],
         "effective_cpus": 16},
    ],
)  # fmt: skip
def test_a_node_of_any_version(node: dict[str, Any]) -> None:
    (machine,) = machines_of([node], frozenset(), counts_memory=True)
    assert (machine.cpus, machine.memory_mb, machine.features) == (16.0, 64000.0, frozenset(("ib", "fast")))
    assert (machine.state, machine.cpus_taken, machine.memory_mb_taken) == (base.UP, 10.0, 9000.0)
    ours = row(
        job_state="RUNNING", nodes="n01", gres_detail=["gpu:a100:4(IDX:0-3)"], cpus=8, memory_per_node=4000,
        tres_per_node="gres:gpu:4",
        admin_comment="dally:kept=1;gpus=4;nodes=1;cpus=8;memory=4000;pernode=gres:gpu:4",
    )  # fmt: skip
    job = JobReader(frozenset(), 4).job(next(records_of([ours])), NOTHING_STATED, NOW_S)
    (rest,) = less_ours([machine], [job])
    assert (rest.cpus_taken, rest.memory_mb_taken) == (2.0, 5000.0)


def test_nodes_come_from_sinfo_or_from_scontrol(monkeypatch: pytest.MonkeyPatch) -> None:
    tools = Tools()
    calls: list[str] = []

    def run(*parts: str, **_: Any) -> str:
        calls.append(parts[0])
        return json.dumps({"sinfo": []} if parts[0] == "sinfo" else {"nodes": [NODE], "errors": []})

    monkeypatch.setattr(tools, "run", run)
    for _ in range(2):
        assert tools.nodes() == [NODE]
    assert calls == ["sinfo", "scontrol", "scontrol"]


RESERVATIONS = """\
ReservationName=works StartTime=2026-11-18T06:10:43 EndTime=2026-11-18T08:10:43 Nodes=n[05-06] Users=root
ReservationName=team StartTime=2026-11-18T05:10:43 EndTime=2026-11-19T05:10:43 Nodes=n05 Users= Accounts=small,b
ReservationName=dally_lease_3 StartTime=2090-01-01T00:00:00 EndTime=2093-01-01T00:00:00 Nodes=n05 Users=root
ReservationName=elsewhere StartTime=2026-11-18T05:10:43 EndTime=2026-11-19T05:10:43 Nodes=x1 Users=root
"""


def test_reservations_and_licences() -> None:
    works, team = reservations_of(RESERVATIONS, frozenset(("n05", "n06")))
    assert (works.name, works.machines) == ("works", frozenset(("n05", "n06")))
    assert (works.users, works.accounts) == (frozenset(("root",)), frozenset())
    assert works.end_s - works.start_s == 7200.0
    assert (team.machines, team.users, team.accounts) == (
        frozenset(("n05",)), frozenset(), frozenset(("small", "b"))
    )  # fmt: skip
    shown = "LicenseName=matlab Total=5 Used=3 Free=2 Reserved=0 Remote=no\n"
    ours = row(
        job_state="RUNNING",
        nodes="a",
        gres_detail=["gpu:8(IDX:0-7)"],
        licenses="matlab:2",
        admin_comment="dally:gpus=8",
    )
    job = JobReader(frozenset(), 8).job(next(records_of([ours])), NOTHING_STATED, NOW_S)
    assert licences_left(shown, [job]) == {"matlab": 4.0}
    assert reservations_of("No reservations in the system\n", frozenset(("n05",))) == ()
