"""Elastic jobs on a real Slurm: each starts at any of its sizes under one id, and is rolled back to what it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from benchmarks.restless_sizes import RestlessSizes

from dally.live.backends import base
from dally.live.backends.slurm.job_facts import facts_of_mark
from dally.live.backends.slurm.job_record import placement_in, records_of
from dally.live.backends.slurm.jobs_json import JobReader
from dally.live.backends.stated_facts import NOTHING_STATED, read_facts
from dally.live.config import Setup
from tests.live.slurm_bench import SlurmBench
from tests.live.slurm_cluster import SlurmCluster
from tests.live.test_slurm_records import NOW_S, row

POLICY: Final = f"{Path(__file__).parents[2] / 'benchmarks' / 'restless_sizes.py'}:RestlessSizes"
JOB: Final = """#!/bin/bash
trap 'exit 0' TERM
echo $SLURM_JOB_NUM_NODES $SLURM_GPUS_ON_NODE $SLURM_TASKS_PER_NODE >> {folder}/$SLURM_JOB_ID
while sleep 0.1; do :; done
"""
# What sbatch is asked for, the sizes stated, those of the job, and at each of three sizes its nodes and tasks.
KINDS: Final = (
    ("--nodes=2-4 --gpus-per-node=4", "", "8,12,16", {8: (2, 2), 16: (4, 4), 12: (3, 3)}),
    ("--nodes=1 --gpus-per-node=8 --ntasks-per-node=2", "8:24:8", "8,16,24", {8: (1, 2), 24: (3, 6), 16: (2, 4)}),
    ("--gpus=8", "2:16:2", "2,4,6,8,10,12,14,16", {8: (1, 1), 16: (2, 2), 4: (1, 1)}),
    ("--gpus-per-task=1 --ntasks=8", "4:16:4", "4,8,12,16", {8: (1, 8), 16: (2, 16), 4: (1, 4)}),
    ("-N2 --gpus=8", "4:16:4", "4,8,12,16", {8: (2, 2), 16: (4, 4), 4: (1, 1)}),
)  # fmt: skip
# What of a job that runs is the same as of its twin, which Dally never had.
COMPARED: Final = ("tres_per_node", "tres_per_job", "tres_per_task", "tasks", "cpus", "node_count", "admin_comment")


class SizesBench(SlurmBench):
    """A scheduler whose policy has its jobs run on the GPUs that `want` says."""

    def __init__(self, slurm: SlurmCluster, folder: Path) -> None:
        super().__init__(slurm, folder, Setup(POLICY, {"share": "0"}, restart_per_gpu_s=0.0))

    def elastic(self, asks: str, sizes: str) -> str:
        stated = {"preempt": "yes"} | ({"gpus": sizes} if sizes else {})
        words = ("-H", "--requeue", "-o", "/dev/null", f"--comment={json.dumps(stated)}", *asks.split())
        return self.slurm.run("sbatch", "--parsable", *words, given=JOB.format(folder=self.folder)).strip()

    def take_in(self, *job_ids: str) -> None:
        """As if they had come with our note."""
        for job_id in job_ids:
            self.slurm.run("scontrol", "update", f"JobId={job_id}", "AdminComment=dally:read=1")

    def want(self, job_id: str, gpus: int) -> None:
        policy = self.scheduler.state.policy
        assert isinstance(policy, RestlessSizes) or hasattr(policy, "desired")
        policy.desired[job_id] = gpus

    def row(self, job_id: str) -> dict[str, Any]:
        rows = json.loads(self.slurm.run("squeue", "--json"))["jobs"]
        return next(row for row in rows if str(row["job_id"]) == job_id)

    def runs_at(self, job_id: str, gpus: int, times: int) -> None:
        """Go on until it has begun so many times, and runs on so many GPUs."""
        self.want(job_id, gpus)
        self.go_on(lambda: self.has(job_id, gpus) and len(self.marks(job_id).splitlines()) >= times)

    def has(self, job_id: str, gpus: int) -> bool:
        """It runs on so many GPUs, by Slurm's own account, and has begun."""
        row = self.row(job_id)
        runs = row["job_state"] == "RUNNING" and sum(placement_in(row).values()) == gpus
        return runs and self.runs(job_id)


@pytest.mark.parametrize(("asks", "stated", "sizes", "at"), KINDS, ids=[kind[0] for kind in KINDS])
def test_a_job_runs_on_each_of_its_sizes_and_is_rolled_back(
    slurm: SlurmCluster, tmp_path: Path, asks: str, stated: str, sizes: str, at: dict[int, tuple[int, int]]
) -> None:
    bench = SizesBench(slurm, tmp_path)
    job_id, twin = bench.elastic(asks, stated), bench.elastic(asks, stated)
    bench.take_in(job_id)
    for number, (gpus, counts) in enumerate(at.items()):
        bench.runs_at(job_id, gpus, number + 1)
        nodes, on_node, _ = bench.marks(job_id).splitlines()[-1].split()
        assert (int(nodes), bench.row(job_id)["tasks"]) == counts, bench.marks(job_id)
        assert int(on_node) == gpus // counts[0]
    (seen,) = [job for job in bench.scheduler.roster.snapshot.jobs if job.job_id == job_id]
    assert (seen.spec.sizes, seen.resizable, seen.spec.gpus) == (sizes, True, next(iter(at)))
    assert [row["kind"] for row in bench.events("start", "resize")] == ["start", "resize", "resize"]
    assert bench.problems == []
    slurm.run("scontrol", "requeuehold", job_id)
    slurm.until(lambda: bench.row(job_id)["job_state"] == "PENDING")
    rollback = bench.backend.rollback()
    assert rollback.carry_out(rollback.plan()) == []
    slurm.run("scontrol", "release", twin)
    slurm.until(lambda: all(bench.row(each)["job_state"] == "RUNNING" for each in (job_id, twin)))
    rows = bench.row(job_id), bench.row(twin)
    if "=2-4" in asks:  # Slurm takes no number of tasks back: the job stays at the least of its nodes
        assert rows[0]["node_count"] == 2
        return
    assert [rows[0][name] for name in COMPARED] == [rows[1][name] for name in COMPARED]
    slurm.until(lambda: len(bench.marks(job_id).splitlines()) > len(at) and bool(bench.marks(twin)))
    assert bench.marks(job_id).splitlines()[-1] == bench.marks(twin).splitlines()[-1]


def test_sizes_of_a_script_come_by_the_note_and_a_smaller_run_is_no_loss() -> None:
    """job_submit.lua notes `#DALLY gpus=4:16:4` as sizes; a job on fewer GPUs than it asks for has lost no node."""
    note = "dally:submit=1;read=1;sizes=4:16:4;gpus=8;kept=1;nodes=1;tasks=1;cpus=1;maxnodes=0;perjob=gres:gpu:8"
    detail = {"nodes": "n01", "gres_detail": ["gpu:4(IDX:0-3)"], "job_state": "RUNNING"}
    changes = {"tres_per_node": "", "tres_per_job": "gres:gpu:4", "admin_comment": note, **detail}
    (record,) = records_of([row(**changes)])
    assert record.mark is not None
    facts = read_facts(facts_of_mark(record.mark), [])
    job = JobReader(frozenset(), 8).job(record, facts, NOW_S)
    assert (job.spec.gpus, job.spec.sizes, job.resizable, job.placement) == (8, "4,8,12,16", True, {"n01": 4})


@pytest.mark.parametrize(
    ("asks", "sizes"),
    [
        ({"node_count": 2, "max_nodes": 8, "tasks": 2}, "16,24,32,40,48,56,64"),
        ({"node_count": 2, "max_nodes": 3, "tasks": 8, "tasks_per_node": 4}, "16,24"),
        ({"node_count": 2, "max_nodes": 8, "tasks": 16}, ""),
        ({"node_count": 1, "max_nodes": 4, "tasks": 1, "tres_per_job": "gres:gpu:16"}, ""),
    ],
)
def test_a_range_of_nodes_is_one_of_sizes_where_nothing_is_stated_in_all(asks: dict[str, Any], sizes: str) -> None:
    """Of `-N2-8 --gpus-per-node=8`, the same with --ntasks-per-node=4, with -n16, and with --gpus=16."""
    (record,) = records_of([row(admin_comment="dally:submit=1", **asks)])
    assert JobReader(frozenset(), 8).job(record, NOTHING_STATED, NOW_S).spec.sizes == sizes


def test_sizes_that_do_not_go_with_a_job_are_said_and_it_runs_as_it_asks(
    slurm: SlurmCluster, tmp_path: Path
) -> None:
    bench = SizesBench(slurm, tmp_path)
    asks = ("--nodes=2 --gpus-per-node=4", "--exclusive --gpus=8 -N1", "--gpus=8 --ntasks=3", "--gpus=2")
    jobs = [
        bench.elastic(words, sizes) for words, sizes in zip(asks, ("4:16:2", "8:16:8", "4:8:4", "8:4"), strict=True)
    ]
    bench.take_in(*jobs)
    bench.go_on(lambda: all(bench.runs(job_id) for job_id in jobs))
    assert [sum(placement_in(bench.row(job_id)).values()) for job_id in jobs] == [8, 8, 8, 2]
    said = {line.split(": ", 1)[0]: line.split(": ", 1)[1] for line in bench.problems}
    assert said == {
        f"job {jobs[0]}": "gpus='4:16:2': 6: must be a multiple of 4 GPUs, those of one node or task",
        f"job {jobs[1]}": "gpus=8:16:8: it takes whole machines (--exclusive)",
        f"job {jobs[2]}": "gpus=4:8:4: its tasks are not as many for each GPU",
        f"job {jobs[3]}": "gpus='8:4': must be LEAST:MOST, LEAST:MOST:STEP or a list such as 4,8,16",
    }


def test_a_size_that_slurm_refuses_is_given_up_and_the_job_runs(slurm: SlurmCluster, tmp_path: Path) -> None:
    """The partition takes jobs of up to two nodes: of the sizes, those above what the job asks for are no more."""
    bench = SizesBench(slurm, tmp_path)
    slurm.run("scontrol", "update", "PartitionName=gpu", "MaxNodes=2")
    try:
        job_id = bench.elastic("--nodes=2 --gpus-per-node=8", "8:32:8")
        bench.take_in(job_id)
        bench.want(job_id, 32)
        bench.go_on(lambda: bool(bench.events("start_failed")))
        bench.want(job_id, 16)
        bench.go_on(lambda: bench.has(job_id, 16))
        assert bench.scheduler.roster.jobs[job_id].sizes == (8, 16, 24)
        assert bench.states()[job_id] == base.RUNNING
    finally:
        slurm.run("scontrol", "update", "PartitionName=gpu", "MaxNodes=UNLIMITED")
