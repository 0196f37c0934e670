"""What one Job or Workload of Kubernetes says of itself: `kubectl get jobs,workloads -o json`."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from dally.errors import at
from dally.input_file import shown
from dally.traces.readers.json_objects import Entry, list_in, object_in, text_in
from dally.traces.rows import MOST_GPUS, NOT_KNOWN, Reading
from dally.traces.table import number

# nvidia.com/gpu, amd.com/gpu and so on; then parts of GPUs: slices of hardware (MIG) and of time.
GPU: Final = re.compile(r"[\w.-]+/gpu(\.shared)?|nvidia\.com/mig-.*", re.ASCII)
PART_OF_GPU: Final = re.compile(r".*(\.shared|/mig-.*)")
USER_LABELS: Final = ("user", "username", "owner", "submitted-by")  # behind any prefix
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
PRODUCT_LABEL: Final = "nvidia.com/gpu.product"
PAST: Final = ("accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds")  # v1beta1's spelling
DONE: Final = ("Complete", "Succeeded", "Failed", "Finished")
HELD: Final = ("Admitted", "QuotaReserved")  # since when GPUs are its own


class RequestedGpus(NamedTuple):
    """GPUs that pods ask for."""

    gpus: int = 0
    gpu_type: str = ""
    parts: bool = False  # parts of GPUs are among them


class KubeObject(NamedTuple):
    """A Job or a Workload; texts that are not known are empty, times None."""

    line: int
    kind: str
    key: str  # its uid, or its name where there is none
    path: str  # kind/namespace/name
    namespace: str
    name: str
    family: str  # what jobs made by one template share
    owners: tuple[str, ...]  # uids and paths of what it was made by
    needs: RequestedGpus
    submit_s: float | None
    start_s: float | None
    end_s: float | None
    past_s: float  # seconds of earlier runs
    evicted: bool
    status: str
    user: str
    queue: str
    priority: float
    priority_class: str
    limit_s: float


def read_object(reading: Reading, line: int, entry: Entry) -> KubeObject | None:
    """What the object says; None if it is neither a job nor a workload."""
    path = reading.path
    kind = text_in(path, line, entry, "kind")
    if not kind:
        raise at(path, line, "kind", "missing: every object says what it is")
    spec, status = object_in(path, line, entry, "spec"), object_in(path, line, entry, "status")
    needs = _needs(reading, line, kind, spec, status)
    if needs is None:
        return None
    about = object_in(path, line, entry, "metadata")
    name, namespace = text_in(path, line, about, "name"), text_in(path, line, about, "namespace")
    if not name:
        raise at(path, line, "metadata.name", "missing: every object has one")
    labels = object_in(path, line, about, "labels")
    times = {held: _since(reading, line, status, held) for held in (*HELD, *DONE)}
    end_s = _date(reading, line, status, "completionTime")
    started = [times[held] for held in HELD] if kind == "Workload" else [_date(reading, line, status, "startTime")]
    owners = list_in(path, line, about, "ownerReferences")
    return KubeObject(
        line,
        kind,
        text_in(path, line, about, "uid") or f"{kind}/{namespace}/{name}",
        f"{kind}/{namespace}/{name}",
        namespace,
        name,
        _family(reading, line, about, owners),
        tuple(key for owner in owners for key in _keys(reading, line, namespace, owner)),
        needs,
        _date(reading, line, about, "creationTimestamp"),
        next((result for result in started if result is not None), None),
        end_s if end_s is not None else next((times[done] for done in DONE if times[done] is not None), None),
        max(_seconds(reading, line, status, field, 0.0) for field in PAST),
        _evicted(reading, line, status),
        next((done for done in DONE if times[done] is not None), ""),
        _user(reading, line, labels),
        text_in(path, line, spec, "queueName") or text_in(path, line, labels, QUEUE_LABEL),
        max(0.0, float(_whole(reading, line, spec, "priority", 0, least=-(2**31)))),
        text_in(path, line, spec, "priorityClassName"),
        max(
            _seconds(reading, line, spec, field, NOT_KNOWN)
            for field in ("activeDeadlineSeconds", "maximumExecutionTimeSeconds")
        ),
    )


def _needs(reading: Reading, line: int, kind: str, spec: Entry, status: Entry) -> RequestedGpus | None:
    """GPUs of all its pods; None for what is no job."""
    path = reading.path
    if kind == "Workload":
        admitted = list_in(path, line, object_in(path, line, status, "admission"), "podSetAssignments")
        options = _sum([_assigned(reading, line, assignment) for assignment in admitted])
        pods = list_in(path, line, spec, "podSets")
        return options if options.gpus else _sum([_pods(reading, line, each, "count") for each in pods])
    if kind == "Job":
        completions = _whole(reading, line, spec, "completions", MOST_GPUS)
        count = min(_whole(reading, line, spec, "parallelism", 1), completions)
        return _times(reading, line, count, _pod(reading, line, object_in(path, line, spec, "template")))
    replicas = [field for field in spec if field.endswith("ReplicaSpecs")]  # PyTorchJob, MPIJob, TFJob, …
    if not replicas:
        return None
    groups = object_in(path, line, spec, replicas[0])
    return _sum([_pods(reading, line, object_in(path, line, groups, name), "replicas") for name in groups])


def _pods(reading: Reading, line: int, group: Entry, count: str) -> RequestedGpus:
    """So many pods of one template."""
    each = _pod(reading, line, object_in(reading.path, line, group, "template"))
    return _times(reading, line, _whole(reading, line, group, count, 1), each)


def _pod(reading: Reading, line: int, template: Entry) -> RequestedGpus:
    """One pod: its containers run together, those of its beginning one after another before them."""
    path = reading.path
    spec = object_in(path, line, template, "spec")
    together = _sum([_container(reading, line, each) for each in list_in(path, line, spec, "containers")])
    before = [_container(reading, line, each) for each in list_in(path, line, spec, "initContainers")]
    needs = max([together, *before], key=lambda result: result.gpus)
    return needs._replace(gpu_type=text_in(path, line, object_in(path, line, spec, "nodeSelector"), PRODUCT_LABEL))


def _container(reading: Reading, line: int, container: Entry) -> RequestedGpus:
    """Limits, which for GPUs are what is asked for; where they are left out, requests."""
    resources = object_in(reading.path, line, container, "resources")
    result = [_resources(reading, line, resources, field) for field in ("limits", "requests")]
    return result[0] if result[0].gpus else result[1]


def _assigned(reading: Reading, line: int, assignment: Entry) -> RequestedGpus:
    """What Kueue gave to a set of pods, and of which flavour."""
    needs = _resources(reading, line, assignment, "resourceUsage")
    flavors = object_in(reading.path, line, assignment, "flavors")
    types = [text_in(reading.path, line, flavors, name) for name in flavors if GPU.fullmatch(name)]
    return needs._replace(gpu_type=types[0] if types else "")


def _resources(reading: Reading, line: int, entry: Entry, field: str) -> RequestedGpus:
    amounts = object_in(reading.path, line, entry, field)
    named = [name for name in amounts if GPU.fullmatch(name)]
    gpus = sum(reading.gpus(line, name, str(amounts[name])) for name in named)
    return RequestedGpus(gpus, "", any(PART_OF_GPU.fullmatch(name) for name in named))


def _sum(needs: list[RequestedGpus]) -> RequestedGpus:
    types = dict.fromkeys(need.gpu_type for need in needs if need.gpus and need.gpu_type)
    return RequestedGpus(sum(need.gpus for need in needs), "+".join(types), any(need.parts for need in needs))


def _times(reading: Reading, line: int, count: int, needs: RequestedGpus) -> RequestedGpus:
    if count * needs.gpus > MOST_GPUS:
        raise at(reading.path, line, "spec", f"{count * needs.gpus} GPUs: too many to be true")
    return needs._replace(gpus=count * needs.gpus)


def _whole(reading: Reading, line: int, entry: Entry, field: str, otherwise: int, least: int = 0) -> int:
    """A whole number; `otherwise` where none is stated."""
    value = entry.get(field)
    if value is None:
        return otherwise
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**31:
        raise at(reading.path, line, field, f"{shown(value)}: must be a whole number of 32 bits, at least {least}")
    return value


def _seconds(reading: Reading, line: int, entry: Entry, field: str, otherwise: float) -> float:
    value = entry.get(field)
    return otherwise if value is None else number(reading.path, line, field, str(value))


def _date(reading: Reading, line: int, entry: Entry, field: str) -> float | None:
    text = text_in(reading.path, line, entry, field)
    return reading.date(line, field, text) if text else None


def _since(reading: Reading, line: int, status: Entry, kind: str) -> float | None:
    """Since when the condition is true; None if it is not."""
    for condition in list_in(reading.path, line, status, "conditions"):
        if condition.get("type") == kind and condition.get("status") == "True":
            return _date(reading, line, condition, "lastTransitionTime")
    return None


def _evicted(reading: Reading, line: int, status: Entry) -> bool:
    """Whether it lost its GPUs at some time: later conditions may hide that, statistics tell."""
    path = reading.path
    record = list_in(path, line, object_in(path, line, status, "schedulingStats"), "evictions")
    conditions = list_in(path, line, status, "conditions")
    return bool(record) or any(condition.get("type") == "Evicted" for condition in conditions)


def _user(reading: Reading, line: int, labels: Entry) -> str:
    for label in USER_LABELS:
        for name in labels:
            if name.rpartition("/")[2] == label:
                return text_in(reading.path, line, labels, name)
    return ""


def _family(reading: Reading, line: int, about: Entry, owners: list[Entry]) -> str:
    """The name of the CronJob that made it, or the one its own was made from, or its own."""
    path = reading.path
    cron = [text_in(path, line, owner, "name") for owner in owners if owner.get("kind") == "CronJob"]
    made_from = text_in(path, line, about, "generateName").rstrip("-")
    return next((name for name in (*cron, made_from) if name), text_in(path, line, about, "name"))


def _keys(reading: Reading, line: int, namespace: str, owner: Entry) -> list[str]:
    """The uid and the path of an owner."""
    uid, kind, name = (text_in(reading.path, line, owner, field) for field in ("uid", "kind", "name"))
    return [key for key in (uid, f"{kind}/{namespace}/{name}") if key]
