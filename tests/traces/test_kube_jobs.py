"""Kubernetes' history: how jobs and Kueue's workloads are joined, and what is made of their conditions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dally.errors import InputError
from dally.traces import read_history
from dally.traces.reading import History

Entry = dict[str, Any]
ADDED_UP = "were evicted: their running times are added up"
NO_KUEUE = "had no Kueue workload: waiting of their pods counts as running"


def at(minute: int) -> str:
    return f"2024-05-01T{10 + minute // 60}:{minute % 60:02d}:00Z"


def pods(gpus: object, resource: str = "nvidia.com/gpu", **more: object) -> Entry:
    return {"spec": {"containers": [{"resources": {"limits": {resource: gpus}}}], **more}}


def true(kind: str, minute: int, status: str = "True") -> Entry:
    return {"type": kind, "status": status, "lastTransitionTime": at(minute)}


def job(name: str, created: int = 0, started: int = 0, ended: int = 60, **spec: object) -> Entry:
    return {
        "kind": "Job",
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "creationTimestamp": at(created)},
        "spec": {"template": pods("1"), **spec},
        "status": {"startTime": at(started), "conditions": [true("Complete", ended)]},
    }


def workload(
    owner: str, *conditions: Entry, kind: str = "Job", spec: Entry | None = None, **status: object
) -> Entry:
    made_of = {"kind": kind, "name": owner, "uid": f"uid-{owner}"}
    return {
        "kind": "Workload",
        "metadata": {
            "name": f"job-{owner}-1", "namespace": "ns", "creationTimestamp": at(0), "ownerReferences": [made_of],
        },
        "spec": {"queueName": "gold", **(spec or {})},
        "status": {"conditions": list(conditions), **status},
    }  # fmt: skip


def read(folder: Path, *entries: Entry, strict: bool = False) -> History:
    path = folder / "jobs.json"
    path.write_text(json.dumps({"apiVersion": "v1", "items": entries, "kind": "List"}, indent=1))
    return read_history(path, strict=strict)


def gpus_of(folder: Path, entry: Entry) -> int:
    return read(folder, entry).rows[0].spec.gpus


def test_pods_times_limits(tmp_path: Path) -> None:
    assert gpus_of(tmp_path, job("a", parallelism=4, template=pods(8))) == 32
    assert gpus_of(tmp_path, job("a", parallelism=4, completions=3, template=pods("2"))) == 6
    assert gpus_of(tmp_path, job("a", template=pods(2, "amd.com/gpu"))) == 2
    both = {"resources": {"requests": {"nvidia.com/gpu": 1}}}
    assert gpus_of(tmp_path, job("a", template={"spec": {"containers": [both, both]}})) == 2
    first = pods(1, initContainers=[{"resources": {"limits": {"nvidia.com/gpu": 4}}}])
    assert gpus_of(tmp_path, job("a", template=first)) == 4
    sliced = read(tmp_path, job("a", parallelism=2, template=pods(1, "nvidia.com/mig-1g.5gb")))
    assert sliced.rows[0].spec.gpus == 2
    assert sliced.notes == {NO_KUEUE: 1, "asked for fractions of GPUs: rounded up": 1}
    typed = pods(1, nodeSelector={"nvidia.com/gpu.product": "A100"})
    assert read(tmp_path, job("a", template=typed)).rows[0].spec.gpu_type == "A100"


def test_kubeflow_jobs_add_up_their_replicas(tmp_path: Path) -> None:
    replicas = {"Master": {"template": pods(8)}, "Worker": {"replicas": 3, "template": pods(8)}}
    entry = {**job("a"), "kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": replicas}}
    entry["status"]["conditions"] = [true("Created", 0), true("Failed", 30)]
    found = read(tmp_path, entry).rows[0]
    assert (found.spec.gpus, found.stated, found.status) == (32, 1800.0, "Failed")


def test_what_kueue_says_comes_first(tmp_path: Path) -> None:
    given = {"flavors": {"nvidia.com/gpu": "h100"}, "resourceUsage": {"cpu": "64", "nvidia.com/gpu": "16"}}
    found = read(
        tmp_path,
        workload(
            "a",
            true("QuotaReserved", 5),
            true("Admitted", 10),
            spec={"priority": 7, "priorityClassName": "high", "maximumExecutionTimeSeconds": 9000},
            admission={"podSetAssignments": [given]},
        ),
        job("a", started=11, ended=40, parallelism=4, template=pods(8)),
    )
    row = found.rows[0]
    assert (len(found.rows), found.notes) == (1, {})
    assert (row.job_id, row.spec.gpus, row.spec.gpu_type) == ("ns/a", 16, "h100")
    assert (row.wait_s, row.stated) == (600.0, 1800.0)
    assert (row.spec.partition, row.spec.account, row.spec.qos, row.spec.priority, row.spec.limit_s) == (
        "gold",
        "ns",
        "high",
        7.0,
        9000.0,
    )


def test_evictions(tmp_path: Path) -> None:
    evicted = true("Evicted", 20, "False")
    known = workload("a", evicted, true("Admitted", 30), accumulatedPastExexcutionTimeSeconds=600)
    row = (found := read(tmp_path, known, job("a", started=30))).rows[0]
    assert (row.wait_s, row.stated, found.notes) == (20 * 60.0, 40 * 60.0, {ADDED_UP: 1})
    ended = workload("a", evicted, true("Admitted", 60, "False"), accumulatedPastExecutionTimeSeconds=2400)
    assert read(tmp_path, ended, job("a", started=30)).rows[0].stated == 2400.0
    silent = workload("a", true("Admitted", 30), schedulingStats={"evictions": [{"count": 1}]})
    row = (found := read(tmp_path, silent, job("a", started=30))).rows[0]
    assert (row.wait_s, row.stated) == (1800.0, 1800.0)
    assert list(found.notes) == [
        "were evicted: only their last run is known, and what was before counts as waiting"
    ]


def test_workloads_of_jobs_that_are_gone_and_jobs_that_are_parts(tmp_path: Path) -> None:
    needs = {"podSets": [{"count": 2, "template": pods(4)}, {"count": 1, "template": pods(1)}]}
    gone = workload("set", true("Admitted", 1), true("Finished", 31), kind="JobSet", spec=needs)
    part = job("set-worker-0", template=pods(4))
    part["metadata"]["ownerReferences"] = [{"kind": "JobSet", "name": "set", "uid": "uid-set"}]
    found = read(tmp_path, gone, part, job("other"))
    assert [(row.job_id, row.spec.gpus, row.stated) for row in found.rows] == [
        ("ns/other", 1, 3600),
        ("ns/set", 9, 1800),
    ]
    assert found.unused == {"that are parts of a job": 1}


def test_what_stands_twice_and_names_used_again(tmp_path: Path) -> None:
    running = job("a")
    running["status"]["conditions"] = []
    other = job("a", created=5)
    other["metadata"]["uid"] = "uid-2"
    found = read(tmp_path, running, job("a", ended=50), running, other)
    assert [(row.job_id, row.stated) for row in found.rows] == [("ns/a", 3000.0), ("ns/a~2", 3600.0)]
    assert found.notes["are in the file twice: counted once"] == 2
    nightly = job("nightly-28571")
    nightly["metadata"]["ownerReferences"] = [{"kind": "CronJob", "name": "nightly", "uid": "c"}]
    assert read(tmp_path, nightly).rows[0].spec.name == "nightly"


def test_what_cannot_be_used_is_counted(tmp_path: Path) -> None:
    queued, running, backwards = job("queued"), job("running"), job("backwards", started=70)
    queued["status"] = {}
    running["status"]["conditions"] = [true("Complete", 9, "False")]
    entries = (queued, running, backwards, {"kind": "Pod"}, job("good"))
    found = read(tmp_path, *entries)
    assert found.unused == {
        "of other kinds": 1, "that never started": 1, "without an end": 1, "with end before start": 1,
    }  # fmt: skip
    with pytest.raises(InputError, match=r"jobs.json:\d+: kind: 'Pod': a row of other kinds"):
        read(tmp_path, *entries, strict=True)


def test_files_joined_raw_lists_and_single_objects(tmp_path: Path) -> None:
    path = tmp_path / "jobs.json"
    nameless = {field: value for field, value in job("b").items() if field != "kind"}
    raw = {"kind": "JobList", "apiVersion": "batch/v1", "items": [nameless]}
    listed = {"apiVersion": "v1", "items": [job("a")], "kind": "List"}
    path.write_text(f"{json.dumps(listed)}\n{json.dumps(raw)}\n{json.dumps({'apiVersion': 'v1', **job('c')})}")
    assert [row.job_id for row in read_history(path).rows] == ["ns/a", "ns/b", "ns/c"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"items": [', "1: the JSON ends in the middle"),
        ('{"items": []', "1: the JSON ends in the middle"),
        ('{"items": [] "kind"', "1: '\"': expected a comma or }"),
        ('{"items" [', "1: '[': expected :"),
        ('{"items": [7]}', "1: 7: must be an object with kind, metadata, spec and status"),
        ('{"items": []}\nx', "2: 'x': must begin with {"),
        ('{"items": 7}', "1: kind: missing"),
        ("{1: 2}", "1: broken JSON: 1: must be a name in quotes"),
        ('{"a": ' * 100_000, "1: broken JSON"),
    ],
)
def test_broken_files(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "jobs.json"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_history(path, "kubernetes")
    assert str(caught.value).startswith(f"{path}:{message}")


def test_too_many_gpus_to_be_true(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="spec: 8000000 GPUs: too many to be true"):
        read(tmp_path, job("a", parallelism=2_000_000, template=pods(8)))
