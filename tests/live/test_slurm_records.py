"""What Slurm's tools print, turned into the contract's jobs and machines; needs no Slurm."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dally.cluster.formats.toml_file import parse_toml
from dally.cluster.formats.writers import to_toml
from dally.job_spec import JobSpec
from dally.live.backends import base
from dally.live.backends.slurm import SlurmBackend
from dally.live.backends.slurm.comments import WaitingComments
from dally.live.backends.slurm.job_facts import facts_of_comment, facts_of_script
from dally.live.backends.slurm.job_mark import read_mark, with_mark
from dally.live.backends.slurm.job_record import records_of
from dally.live.backends.slurm.job_request import gpu_request
from dally.live.backends.slurm.job_shape import note_of, shape_of, update_arguments
from dally.live.backends.slurm.jobs_json import JobReader, slurm_now_s
from dally.live.backends.slurm.nodes_json import machines_of
from dally.live.backends.slurm.order_checks import with_orders
from dally.live.backends.slurm.shown_topology import topology_of
from dally.live.backends.slurm.tools import Tools
from dally.live.backends.stated_facts import NOTHING_STATED

NOW_S = 1_000_000.0
OURS: dict[str, Any] = {"admin_comment": "dally:submit=1"}
TOTAL: dict[str, Any] = {"tres_per_node": "", "tres_per_job": "gres:gpu:a100:8"}
KEPT = "dally:submit=1;gpus=8;kept=1;nodes=1;tasks=1;cpus=1;maxnodes=0;perjob=gres:gpu:a100:8"


def row(**changes: Any) -> dict[str, Any]:
    """A job as `squeue --json` of Slurm 22.05 writes it: held, one node of eight GPUs."""
    return {
        "job_id": 7, "array_job_id": 0, "array_task_id": None, "array_task_string": "", "admin_comment": "",
        "batch_flag": True, "requeue": True, "restart_cnt": 0, "het_job_id": 0, "comment": "", "dependency": "",
        "job_state": "PENDING", "state_reason": "JobHeldUser", "priority": 0, "submit_time": 999_000,
        "eligible_time": 0, "time_limit": None, "tres_per_job": "", "tres_per_node": "gres:gpu:8",
        "tres_per_task": "", "tres_per_socket": "", "gres_detail": [], "nodes": "", "node_count": 1, "tasks": 1,
        "cpus": 1, "tasks_per_node": 0, "memory_per_node": None, "max_nodes": 0,
        "minimum_cpus_per_node": 1, "shared": None, "partition": "gpu", "name": "a",
        "user_name": "ann", "account": "physics", "qos": "normal",
    } | changes  # fmt: skip


def job_of(reader: JobReader | None = None, **changes: Any) -> base.ObservedJob:
    (record,) = records_of([row(**changes)])
    return (reader or JobReader(frozenset(), 8)).job(record, NOTHING_STATED, NOW_S)


@pytest.mark.parametrize(
    ("changes", "state", "managed"),
    [
        (OURS, base.QUEUED, True),
        ({**OURS, "state_reason": "JobHeldAdmin"}, base.HELD, True),
        ({**OURS, "dependency": "afterok:5(unfulfilled)"}, base.HELD, True),
        ({**OURS, "eligible_time": 1_003_600}, base.HELD, True),
        ({**OURS, "job_state": "STOPPED"}, base.STOPPING, True),  # paused, and on its way back to the queue
        ({**OURS, "job_state": "STOPPED", "nodes": "a", "gres_detail": ["gpu:8"]}, base.RUNNING, True),
        ({**OURS, "eligible_time": 1_007_200, "submit_time": 1_007_200}, base.QUEUED, True),  # our clock is behind
        ({**OURS, "eligible_time": 1_000_050, "restart_cnt": 2, "submit_time": 999_930}, base.STOPPING, True),
        ({"priority": 5, "state_reason": "Resources"}, base.HELD, False),
        ({"priority": 5, **OURS}, base.STARTING, True),
        ({"priority": 5, **OURS, "state_reason": "Resources"}, base.STARTING, True),
        ({"priority": 5, **OURS, "state_reason": "QOSMaxGRESPerUser"}, base.BLOCKED, True),
        ({"priority": 5, **OURS, "state_reason": "AssocGrpGRES"}, base.BLOCKED, True),
        ({}, base.HELD, False),  # held by its user from before setup
        ({"job_state": "RUNNING"}, base.RUNNING, False),
        ({"job_state": "RUNNING", **OURS}, base.RUNNING, True),
        ({"job_state": "RUNNING", **OURS, "requeue": False}, base.RUNNING, False),
        ({"job_state": "SUSPENDED"}, base.RUNNING, False),
        ({"job_state": "CONFIGURING"}, base.STARTING, False),
        ({**OURS, "job_state": "CONFIGURING", "nodes": "a", "gres_detail": ["gpu:8"]}, base.RUNNING, True),
        ({"job_state": "COMPLETING"}, base.STOPPING, False),
        ({"job_state": ["RUNNING", "COMPLETING"]}, base.STOPPING, False),
        ({"job_state": "COMPLETED"}, base.FINISHED, False),
        ({"job_state": "TIMEOUT"}, base.FAILED, False),
        ({"job_state": "CANCELLED"}, base.CANCELLED, False),
    ],
)
def test_states(changes: dict[str, Any], state: str, managed: bool) -> None:
    found = job_of(**changes)
    assert (found.state, found.managed) == (state, managed)


def test_a_job_whose_dependency_has_failed_says_so() -> None:
    job = job_of(**OURS, state_reason="JobHeldAdmin", dependency="afterok:5(failed)")
    assert (job.state, job.reason) == (base.HELD, "DependencyNeverSatisfied afterok:5(failed)")


@pytest.mark.parametrize(
    ("nodes", "description", "state"),
    [
        ("a", "ReqNodeNotAvail, UnavailableNodes:a", base.STARTING),
        ("a,b", "ReqNodeNotAvail, UnavailableNodes:b", base.BLOCKED),  # b drains
        ("a", "ReqNodeNotAvail, May be reserved for other job", base.BLOCKED),
        ("c", "ReqNodeNotAvail, UnavailableNodes:c", base.STARTING),  # silent for a moment
        ("", "ReqNodeNotAvail, UnavailableNodes:b", base.BLOCKED),
    ],
)
def test_nodes_that_are_open_are_only_passed_over(nodes: str, description: str, state: str) -> None:
    """Slurm says the same of nodes for which a job ahead waits in another partition: it looks again in a moment."""
    reader = JobReader(frozenset(), 8)
    flags = {"a": [], "b": ["DRAIN"], "c": ["NOT_RESPONDING"]}
    rows = [{"name": name, "state": "idle", "state_flags": of_it} for name, of_it in flags.items()]
    reader.partitions.see_nodes(rows, frozenset("abc"))
    shown = {"state_reason": "ReqNodeNotAvail", "state_description": description, "required_nodes": nodes}
    assert job_of(reader, **OURS | shown, priority=5).state == state


def test_a_requeued_job_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm ends a job that starts in the second in which it was stopped."""
    now_s = [50.0]
    monkeypatch.setattr("dally.live.backends.slurm.jobs_json.time.monotonic", lambda: now_s[0])
    reader = JobReader(frozenset(), 8)
    again = {**OURS, "eligible_time": 1_000_050, "restart_cnt": 1, "submit_time": 999_930}
    found = []
    for seconds in (0.0, 1.0, 0.3, 5.0):
        now_s[0] += seconds
        found.append(job_of(reader, **again).state)
    assert found == [base.STOPPING, base.STOPPING, base.QUEUED, base.QUEUED]
    assert job_of(reader, **again | {"restart_cnt": 2}).state == base.STOPPING


def test_a_job_that_its_user_released_is_still_ours() -> None:
    assert job_of(**OURS).state == base.QUEUED
    assert job_of(**OURS, priority=5).state == base.STARTING
    other = job_of(JobReader(frozenset({"other"}), 8), **OURS)
    assert (other.state, other.managed, other.reason) == (
        base.HELD,
        False,
        "may run in a partition that Dally does not schedule",
    )


@pytest.mark.parametrize(
    ("changes", "gpus"),
    [
        ({}, 8),
        ({"node_count": 4}, 32),
        ({"tres_per_node": "", "tres_per_job": "gres:gpu:a100:12"}, 12),
        ({"tres_per_node": "", "tres_per_task": "gres/gpu:1", "tasks": 6}, 6),
        ({"tres_per_node": "gres:nic:2,gres:gpu:a100:2"}, 2),
        ({"shared": "none", "tres_per_node": "gres:gpu:1", "node_count": 2}, 16),
        ({"admin_comment": "by hand " + KEPT, "node_count": 5}, 8),
        ({"node_count": {"set": True, "infinite": False, "number": 2}}, 16),
    ],
)
def test_gpus(changes: dict[str, Any], gpus: int) -> None:
    (record,) = records_of([row(**changes)])
    assert gpu_request(record, 8).gpus == gpus


def test_a_job_that_runs_on_without_a_node_asks_for_what_it_has() -> None:
    """sbatch --no-kill; Slurm 22.05 then tells of the nodes that are left."""
    kept = "dally:submit=1;gpus=16;kept=1;nodes=2;pernode=gres:gpu:8"
    ours: dict[str, Any] = {"admin_comment": kept, "job_state": "RUNNING"}
    found = job_of(**ours, nodes="n01", gres_detail=["gpu:8(IDX:0-7)"])
    assert (found.state, found.spec.gpus, found.placement) == (base.RUNNING, 8, {"n01": 8})
    assert job_of(**ours | {"job_state": "PENDING"}).spec.gpus == 16


def test_a_running_job_tells_which_gpus_it_has() -> None:
    detail = ["gpu:a100:8(IDX:0-7)", "gpu:a100:2(IDX:0-1),gpu:h100:2(IDX:4,6)", "nic:1"]
    found = job_of(job_state="RUNNING", nodes="n[03,07],login1", gres_detail=detail, priority=9)
    assert found.placement == {"n03": 8, "n07": 4}
    assert found.spec.gpus == 12
    assert job_of(tres_per_node="gres:gpu:8", time_limit=90).spec.limit_s == 5400.0


def test_what_is_asked_for_on_one_node_stays_together() -> None:
    assert job_of(tres_per_node="gres:gpu:4", node_count=2).spec.group == 4
    assert (
        job_of(tres_per_node="gres:gpu:8", admin_comment="dally:kept=1;nodes=2;pernode=gres:gpu:4").spec.group == 4
    )
    assert job_of(tres_per_node="", tres_per_job="gres:gpu:8").spec.group == 1


def test_jobs_without_gpus_are_left_out_and_arrays_are_their_tasks() -> None:
    array = row(job_id=20, array_job_id=20, array_task_string="0-2,7,10-14:2%4")
    task = row(job_id=21, array_job_id=20, array_task_id=5, job_state="RUNNING")
    found = [record.job_id for record in records_of([row(tres_per_node=""), array, task])]
    assert found == ["20_0", "20_1", "20_2", "20_7", "20_10", "20_12", "20_14", "20_5"]


class Printed:
    """Slurm's tools, which print these rows."""

    def __init__(self, jobs: list[dict[str, Any]], nodes: list[dict[str, Any]]) -> None:
        self.of = {"jobs": jobs, "nodes": nodes}
        self.switches: str | None = None  # None: Slurm tells of none
        self.asked = 0  # for them

    def rows(self, kind: str, *_words: str) -> list[dict[str, Any]]:
        return self.of[kind]

    def nodes(self) -> list[dict[str, Any]]:
        return self.of["nodes"]

    def run(self, *words: str, utc: bool = False) -> str:
        if "topology" not in words:
            return ""
        self.asked += 1
        if self.switches is None:
            raise base.BackendError("scontrol -o: no topology")
        return self.switches


def backend_of(
    monkeypatch: pytest.MonkeyPatch, *jobs: dict[str, Any], nodes: Sequence[str] = ("a",)
) -> SlurmBackend:
    printed = Printed(list(jobs), [{"name": name, "gres": "gpu:8", "state": "idle"} for name in nodes])
    backend = SlurmBackend()
    monkeypatch.setattr(backend, "_tools", printed)
    return backend


@pytest.mark.parametrize(
    "odd", [{"array_job_id": 9, "array_task_string": "1,3,..."}, {"tres_per_node": "gres:gpu:8:x:y("}]
)
def test_a_job_that_waits_and_cannot_be_read_stops_nobody(
    odd: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = backend_of(monkeypatch, row(comment='{"model": 5}'), row(job_id=9, **odd))
    for _ in range(2):
        found = backend.snapshot()
        assert [job.job_id for job in found.jobs] == ["7"]
        unread, stated = found.problems  # for as long as that is so
        assert unread.startswith("job 9: squeue's record of it cannot be read")
        assert stated.startswith("job 7: ")


def test_a_job_that_runs_and_cannot_be_read_costs_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = backend_of(monkeypatch, row(job_id=9, job_state="RUNNING", nodes="a[", gres_detail=["gpu:8"]))
    with pytest.raises(base.BackendError, match="job 9: squeue's record of it cannot be read: must be a name"):
        backend.snapshot()


def test_a_cluster_whose_nodes_are_others_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = backend_of(monkeypatch, nodes=("a", "b"))
    printed = backend._tools.of["nodes"]  # type: ignore[attr-defined]
    assert (backend.topology().total_gpus(), backend.generation) == (16, 0)
    printed[0] |= {"state": "down", "gres": "gpu:8(S:0-1)"}
    printed.reverse()
    backend.snapshot()
    assert backend.generation == 0
    for generation, change in enumerate(({"gres": "gpu:4"}, {"gres": "gpu:a100:4"}, {"name": "c"}), start=1):
        printed[0] |= change
        for _ in range(2):
            backend.snapshot()
        assert backend.generation == generation
    printed.clear()
    with pytest.raises(base.BackendError, match="no node of these partitions has GPUs"):
        backend.snapshot()


def test_a_cluster_whose_switches_are_others_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are looked at once a minute, and whenever the tree is asked for."""
    now_s = [100.0]
    monkeypatch.setattr("dally.live.backends.slurm.slurm_backend.time.monotonic", lambda: now_s[0])
    backend = backend_of(monkeypatch, nodes=("a", "b", "c", "d"))
    printed: Any = backend._tools
    below = "SwitchName=r0 Level=0 Nodes={}\nSwitchName=r1 Level=0 Nodes={}\nSwitchName=s Level=1 Switches=r[0-1]\n"
    printed.switches = below.format("a,b", "c,d")
    assert backend.topology().names[1] == ["r0", "r1"]
    for switches, generation in ((None, 0), (printed.switches, 0), (below.format("a,c", "b,d"), 1)):
        printed.switches = switches
        before = backend.generation, printed.asked
        backend.snapshot()
        assert (backend.generation, printed.asked) == before
        now_s[0] += 60.0
        for _ in range(2):
            backend.snapshot()
        assert (backend.generation, printed.asked) == (generation, before[1] + 1)
    assert backend.topology().names[0] == ["a", "c", "b", "d"]
    assert backend.generation == 1


def test_the_tools_print_the_tasks_of_an_array_in_full() -> None:
    assert Tools().run("sh", "-c", "echo $SLURM_BITSTR_LEN") == "0\n"


def test_what_a_user_writes_stays_text() -> None:
    nasty = 'x JobState=RUNNING\n"}] NodeList=n01 <script>'
    found = job_of(name=nasty, comment=nasty, **OURS)
    assert (found.spec.name, found.state, found.placement) == (nasty, base.QUEUED, {})


def test_the_note_survives_beside_an_operators_comment() -> None:
    (record,) = records_of([row(admin_comment="see ticket 5", node_count=2, tasks=16, cpus=64)])
    placement = {"a": 8, "b": 8}
    note = note_of(record, 16, placement)
    assert note == (
        "see ticket 5 dally:submit=999000;gpus=16;needs=0;nodes=2;tasks=16;cpus=64;mincpus=1;taskspernode=0;"
        "memory=0;pernode=gres:gpu:8;maxnodes=0;kept=1;on=2cd913df.00000000"
    )
    (again,) = records_of([row(admin_comment=note, submit_time=999_999, node_count=4, tasks=4)])
    assert shape_of(again, 16) == shape_of(record, 16)
    assert note_of(again, 16, placement) == note
    assert JobReader(frozenset(), 8).job(again, NOTHING_STATED, NOW_S).submit_s == 999_000.0
    assert read_mark("nothing of ours: dallying") is None
    assert with_mark("dally:submit=1", {"submit": "2"}) == "dally:submit=2"


@pytest.mark.parametrize(
    ("asked", "placement", "words"),
    [
        ({}, {"a": 8}, "NumNodes=1-1 NumTasks=1 NumCPUs=1 MinCPUsNode=1 TresPerNode=gres:gpu:8 ReqNodeList=a"),
        (  # one task a node stays one task a node
            {}, {"a": 4, "b": 4},
            "NumNodes=2-2 NumTasks=2 NumCPUs=2 MinCPUsNode=1 TresPerNode=gres:gpu:4 ReqNodeList=a,b",
        ),
        (  # one task a GPU stays one task a GPU, and keeps its CPUs and memory
            {"tasks": 8, "cpus": 32, "tasks_per_node": 8, "memory_per_node": 1000}, {"a": 4, "b": 4},
            "NumNodes=2-2 NumTasks=8 NumCPUs=32 MinCPUsNode=16 TasksPerNode=4 CPUsPerTask=4 MinMemoryNode=500 "
            "TresPerNode=gres:gpu:4 ReqNodeList=a,b",
        ),
        (  # uneven: a total, and Slurm fills machine by machine
            {}, {"a": 5, "b": 3},
            "NumNodes=2-2 NumTasks=2 NumCPUs=2 MinCPUsNode=1 TresPerNode= TresPerJob=gres:gpu:8 ReqNodeList=a,b",
        ),
        (
            {"tres_per_node": "", "tres_per_job": "gres:gpu:a100:8"}, {"a": 8},
            "NumNodes=1-1 NumTasks=1 NumCPUs=1 MinCPUsNode=1 TresPerNode=gres:gpu:a100:8 TresPerJob= "
            "ReqNodeList=a",
        ),
    ],
)  # fmt: skip
def test_shapes(asked: dict[str, Any], placement: dict[str, int], words: str) -> None:
    (record,) = records_of([row(**asked)])
    assert " ".join(update_arguments(record, shape_of(record, 8), placement, True)) == f"{words} StartTime=now"


@pytest.mark.parametrize(
    ("asked", "placement", "words"),
    [
        ({}, {"a": 8}, ""),
        ({"node_count": 2, "max_nodes": 2, "tres_per_node": "gres:gpu:4", "tasks": 8}, {"a": 4, "b": 4}, ""),
        ({"node_count": 4, "max_nodes": 4, "tres_per_node": "gres:gpu:4", "tres_req_str": "cpu=1,node=2"},
         {"a": 4, "b": 4}, "NumNodes=2-2"),  # of -N2-4 Slurm shows 4
        (TOTAL, {"a": 8}, ""),
        (TOTAL, {"a": 4, "b": 4}, "NumNodes=2-2 TresPerNode=gres:gpu:a100:4 TresPerJob="),
        (TOTAL, {"a": 5, "b": 3}, "NumNodes=2-2"),
        ({**TOTAL, "node_count": 2, "max_nodes": 4}, {"a": 3, "b": 3, "c": 2}, "NumNodes=3-3"),
        ({"tres_per_node": "", "tres_per_task": "gres:gpu:2", "tasks": 4}, {"a": 4, "b": 4},
         "NumNodes=2-2 TasksPerNode=2"),
        ({"shared": "none", "tres_per_node": "gres:gpu:1"}, {"a": 8}, ""),
        # Once we have changed it, an earlier start may have left something else.
        ({**TOTAL, "admin_comment": KEPT, "node_count": 2, "tres_per_node": "gres:gpu:4"}, {"a": 8},
         "NumNodes=1-1 NumTasks=1 TresPerNode="),
        ({**TOTAL, "admin_comment": KEPT, "node_count": 2, "tres_per_node": "gres:gpu:4", "tres_per_job": ""},
         {"a": 8}, "NumNodes=1-1 NumTasks=1 TresPerNode= TresPerJob=gres:gpu:a100:8"),
        ({"node_count": 2, "max_nodes": 2, "tres_per_node": "gres:gpu:3", "tres_per_job": "gres:gpu:6"},
         {"a": 3, "b": 3}, "TresPerJob="),
    ],
)  # fmt: skip
def test_a_job_keeps_its_shape(asked: dict[str, Any], placement: dict[str, int], words: str) -> None:
    (record,) = records_of([row(**asked)])
    told = " ".join(update_arguments(record, shape_of(record, 8), placement, False))
    assert told == f"{words} ReqNodeList={','.join(placement)} StartTime=now".lstrip()


def stated(model: str, duration_s: float, checkpoint_every_s: float) -> JobSpec:
    return JobSpec(0, model=model, duration_s=duration_s, checkpoint_every_s=checkpoint_every_s)


@pytest.mark.parametrize(
    ("comment", "facts"),
    [
        ("nightly run", None),
        (
            '{"model": "bert", "expected": "1.5h", "checkpoint": 600}',
            JobSpec(0, model="bert", duration_s=5400.0, checkpoint_every_s=600.0),
        ),
        ('{"model": 5, "expected": -1, "checkpoint": true, "group": 4}', JobSpec(0, group=4)),
        ("{broken", None),
    ],
)
def test_comments(comment: str, facts: JobSpec | None) -> None:
    problems: list[str] = []
    assert facts_of_comment(comment, problems) == facts
    assert len(problems) == {"{broken": 1, '{"model": 5': 3}.get(comment[:11].split(",")[0], 0)


def test_scripts() -> None:
    problems: list[str] = []
    script = "#!/bin/bash\n#SBATCH --gpus=8\n#DALLY model=gpt2 expected=2h\n#DALLY checkpoint=10m what\necho\n"
    assert facts_of_script(script, problems) == JobSpec(
        0, model="gpt2", duration_s=7200.0, checkpoint_every_s=600.0
    )
    assert problems == ["#DALLY what: must be NAME=VALUE"]


def test_nodes() -> None:
    rows: list[dict[str, Any]] = [
        {"name": "a", "gres": "gpu:a100:8(S:0-1)", "state": "idle", "state_flags": [], "partitions": ["gpu"]},
        {"name": "b", "gres": "gpu:8", "state": "mixed", "state_flags": ["DRAIN"], "reason": "fan"},
        {"name": "c", "gres": "gpu:8", "state": "idle", "state_flags": ["NOT_RESPONDING"]},
        {"name": "d", "gres": "gpu:8", "state": ["DOWN", "DRAIN"]},
        {"name": "e", "gres": "", "state": "idle"},
    ]
    found = machines_of(rows, frozenset())
    assert [(machine.name, machine.state) for machine in found] == [
        ("a", base.UP), ("b", base.DRAINING), ("c", base.DRAINING), ("d", base.DOWN),
    ]  # fmt: skip
    assert [machine.name for machine in machines_of(rows, frozenset({"gpu"}))] == ["a"]


def test_the_tree() -> None:
    text = (
        "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=a,b\nSwitchName=s1 Level=0 LinkSpeed=1 Nodes=c,login\n"
        "SwitchName=top Level=1 LinkSpeed=1 Nodes=a,b,c,login Switches=s[0-1]\n"
    )
    machines = [base.ObservedMachine(name, 8) for name in "cab"]
    found = topology_of(text, machines)
    assert (found.names[0], found.names[1]) == (["a", "b", "c"], ["s0", "s1"])
    assert sorted(topology_of("", machines).names[0]) == ["a", "b", "c"]
    parts = {"all": frozenset("abc"), "one": frozenset("b")}
    again = parse_toml(Path("c.toml"), to_toml(topology_of(text, machines, parts)))
    names = again.names[0]
    assert {one.name: {names[place] for place in one.machines} for one in again.partitions} == parts
    assert topology_of(text, machines, {"all": frozenset("abc")}).partitions == []
    with pytest.raises(base.BackendError, match="no node"):
        topology_of(text, [])


def waiting(job_id: str, reason: str, message: str) -> base.WaitingNotice:
    return base.WaitingNotice(job_id, "waiting", reason, message, None)


def test_users_see_why_a_job_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [1000.0]
    monkeypatch.setattr("dally.live.backends.slurm.comments.time.monotonic", lambda: now_s[0])
    array = row(job_id=20, array_job_id=20, array_task_string="0-2%1", admin_comment="dally:submit=1")
    records = {record.job_id: record for record in records_of([row(admin_comment="see 5 dally:submit=1"), array])}
    comments = WaitingComments()

    def due(*notices: base.WaitingNotice, start: str = "", starting: tuple[str, ...] = ()) -> dict[str, str]:
        """After they have waited for a while: jobs that start in a moment get none."""
        publication = base.Publication(frozenset(records), notices, (), lambda _: start)
        at_once = comments.due(publication, records, starting)
        now_s[0] += 5.0
        return at_once | comments.due(publication, records, starting)

    tasks = [waiting("20_0", "gpus", "a"), waiting("20_1", "gpus", "b")]
    assert comments.due(base.Publication(frozenset(records), (*tasks,), (), lambda _: ""), records, ()) == {}
    assert due(*tasks, starting=("20_2",)) == {}  # or it would lose the mark of its start
    first = due(waiting("7", "gpus", "waits for [8] GPUs"), *tasks)
    assert first == {"7": "[Dally: waits for 8 GPUs] see 5 dally:submit=1", "20_[0-2]": "[Dally: a] dally:submit=1"}
    assert due(waiting("7", "gpus", "waits for [8] GPUs"), start="14:30") == {}  # soon enough
    assert due(waiting("7", "timer", "waits for its rack")) == {}
    now_s[0] += 20.0
    assert "7" in due(waiting("7", "timer", "waits for its rack"))
    now_s[0] += 120.0
    assert due(waiting("7", "timer", "waits for its rack"), start="14:30") == {
        "7": "[Dally: waits for its rack; expected start: 14:30] see 5 dally:submit=1"
    }
    assert read_mark(first["7"]) == {"submit": "1"}
    assert with_mark(first["7"], {"submit": "2"}) == "see 5 dally:submit=2"


def test_a_clock_that_is_behind_slurms_holds_no_job_up() -> None:
    rows = [
        row(submit_time=1_007_000),
        row(submit_time=1_000, last_sched_evaluation={"set": True, "number": 1_007_190}),
    ]
    assert slurm_now_s(rows, NOW_S) == 1_007_190
    assert slurm_now_s([], NOW_S) == NOW_S


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED", "RUNNING"])
def test_a_job_whose_script_ends_by_our_sigterm_is_on_its_way_back(state: str) -> None:
    """It would leave the books for that moment, and come again as a new job without its history."""
    job = job_of(**OURS, job_state=state)
    assert with_orders(job, {}, {}, {job.job_id}).state == base.STOPPING
    assert with_orders(job, {}, {}, ()).state == job.state
    cancelled = job_of(**OURS, job_state="CANCELLED")
    assert with_orders(cancelled, {}, {}, {job.job_id}).state == base.CANCELLED
