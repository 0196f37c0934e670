"""Pods and nodes as the server tells of them, turned into the contract's jobs and machines; needs no server."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from dally.errors import InputError
from dally.live.backends import base
from dally.live.backends.base import BackendError
from dally.live.backends.kubernetes.gang_ledger import GangLedger
from dally.live.backends.kubernetes.kube_api import KubeApi
from dally.live.backends.kubernetes.label_selector import label_rules
from dally.live.backends.kubernetes.neighbours import Neighbours
from dally.live.backends.kubernetes.node_ledger import NodeLedger
from dally.live.backends.kubernetes.node_record import fits, node_record, types_in
from dally.live.backends.kubernetes.options import KubeOptions, read_options
from dally.live.backends.kubernetes.owners import Controller, Owners, size_of
from dally.live.backends.kubernetes.pod_gang import PodGang, gang_of, job_of_gang, read_placement, write_placement
from dally.live.backends.kubernetes.pod_ledger import PodLedger
from dally.live.backends.kubernetes.pod_record import PodRecord, pod_record
from dally.live.backends.kubernetes.quantity import quantity
from dally.live.backends.kubernetes.ranks import seats
from dally.live.backends.kubernetes.tenancy import TRUSTED, Tenancy
from dally.live.backends.kubernetes.volume_claims import VolumeClaims

CREATED = "2026-11-16T10:00:00Z"


def pod(name: str, gpus: int = 8, node: str = "", phase: str = "Pending", **about: Any) -> PodRecord:
    limits = {"nvidia.com/gpu": str(gpus), "cpu": "500m", "memory": "2Gi"}
    labels = {"dally.io/gang": "g", "dally.io/gang-size": "2", **about.pop("labels", {})}
    spec = {"schedulerName": "dally", "nodeName": node, "containers": [{"resources": {"limits": limits}}]}
    about |= {"name": name, "namespace": "a", "uid": name, "creationTimestamp": CREATED, "labels": labels}
    return pod_record({"metadata": about, "spec": spec, "status": {"phase": phase}}, lambda *_: True)


def gang(*pods: PodRecord) -> PodGang:
    return gang_of(pods[0].key, sorted(pods, key=lambda one: one.rank_key), None, lambda node: node == "gone")


def state(*pods: PodRecord) -> str:
    return job_of_gang(gang(*pods), None, False, "").state


PLAN = {"dally.io/placement": "n1=8,n2=8"}
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
MADE: dict[str, Any] = {"ownerReferences": [OWNER]}
GOING: dict[str, Any] = {"deletionTimestamp": CREATED}


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([pod("p0")], base.HELD),
        ([pod("p0"), pod("p1")], base.QUEUED),
        ([pod("p0"), pod("p1", annotations={"dally.io/hold": "true"})], base.HELD),
        ([pod("p0", node="n1", annotations=PLAN), pod("p1")], base.RUNNING),  # half, and being finished
        ([pod("p0", node="n1"), pod("p1")], base.RUNNING),  # half, of bare pods: left as it is
        ([pod("p0", node="n1", **MADE), pod("p1", **MADE)], base.STOPPING),  # half, and nobody knows its plan
        ([pod("p0", node="n1", annotations=PLAN), pod("p1", node="n2", annotations=PLAN)], base.RUNNING),
        ([pod("p0", node="n1", **GOING), pod("p1")], base.STOPPING),
        ([pod("p0", node="gone", **GOING), pod("p1"), pod("p2")], base.QUEUED),
        ([pod("p0", node="n1", phase="Succeeded"), pod("p1", node="n2", phase="Succeeded")], base.FINISHED),
        ([pod("p0", node="n1", phase="Succeeded"), pod("p1", node="n2", phase="Failed")], base.FAILED),
        ([pod("p0", node="n1", phase="Failed"), pod("p1"), pod("p2")], base.QUEUED),
    ],
)
def test_states(pods: list[PodRecord], expected: str) -> None:
    assert state(*pods) == expected


def test_a_gang_keeps_its_place_until_its_last_pod_ends() -> None:
    found = job_of_gang(
        gang(pod("p0", node="n1", phase="Succeeded"), pod("p1", node="n2", annotations=PLAN)), None, False, ""
    )
    assert (found.state, found.placement, found.spec.gpus) == (base.RUNNING, {"n1": 8, "n2": 8}, 16)


def test_a_job_of_more_completions_than_pods_at_a_time() -> None:
    """Two of five at a time: the next takes the place of one that is through, and the last runs alone."""
    made = Controller("uid", 0.0, 2, total=5)
    through = [pod(f"t{number}", node="n1", phase="Succeeded") for number in range(3)]

    def found(*pods: PodRecord) -> PodGang:
        return gang_of(pods[0].key, pods, made, lambda _: False)

    running = found(*through, pod("p3", node="n1", annotations=PLAN), pod("p4"))
    assert (running.half, running.due, running.left_over()) == (True, 2, {"n2": 8})
    last = found(*through, pod("t3", phase="Succeeded"), pod("p4", node="n1", annotations=PLAN))
    assert (last.half, last.due) == (False, 1)
    assert job_of_gang(found(*through, pod("p3")), None, False, "").state == base.HELD
    assert job_of_gang(found(*through, pod("p3"), pod("p4")), None, False, "").spec.gpus == 16


def test_a_job_that_ended_while_its_pods_were_evicted() -> None:
    """Too few of its pods are left to tell, but its controller does."""
    left = [pod("p0", node="n1", phase="Succeeded")]
    for over, expected in (("", base.HELD), (base.FINISHED, base.FINISHED), (base.FAILED, base.FAILED)):
        found = gang_of(left[0].key, left, Controller("uid", 0.0, 2, over=over), lambda _: False)
        assert job_of_gang(found, None, False, "").state == expected


def test_facts() -> None:
    notes = {"dally.io/model": "bert", "dally.io/expected": "1.5h", "dally.io/checkpoint": "never"}
    found = job_of_gang(gang(pod("p0", annotations=notes), pod("p1", annotations=notes)), None, False, "")
    assert (found.job_id, found.spec.gpus, found.spec.group) == ("a.gang.g", 16, 8)
    assert (found.spec.model, found.spec.duration_s, found.spec.checkpoint_every_s) == ("bert", 5400.0, None)
    assert "checkpoint" in found.reason
    assert (found.spec.user, found.spec.account, found.submit_s) == ("a", "a", 1794823200.0)


def test_foreign_pods_only_take_gpus() -> None:
    found = job_of_gang(gang(pod("p0", node="n1")), None, True, "")
    assert (found.state, found.managed, found.placement) == (base.RUNNING, False, {"n1": 8})


@pytest.mark.parametrize(
    ("api", "kind", "name", "real"),
    [
        ("jobset.x-k8s.io/v1alpha2", "JobSet", "train.2-a", True),
        ("v1", "Node", "n1", True),
        ("kubeflow.org/v1", "../../x", "j", False),
        ("batch/v1", "Job", "..", False),
        ("batch/v1", "Job", "j\n", False),
    ],
)
def test_controllers_that_can_be(api: str, kind: str, name: str, real: bool) -> None:
    owner = {"apiVersion": api, "kind": kind, "name": name, "uid": "u", "controller": True}
    assert (pod("p0", ownerReferences=[owner]).owner is not None) == real


def test_order_of_ranks() -> None:
    role = "training.kubeflow.org/replica-type"
    named = ["w-10", "w-2", "m-0", "w-1"]
    pods = [pod(name, labels={role: "master" if name[0] == "m" else "worker"}) for name in named]
    ordered = sorted(pods, key=lambda one: one.rank_key)
    assert [one.name for one in ordered] == ["m-0", "w-1", "w-2", "w-10"]
    assert seats(ordered, {"n1": 16, "n2": 16}) == ["n1", "n1", "n2", "n2"]
    mixed = [pod("p0", 2), pod("p1", 4), pod("p2", 2)]
    assert seats(mixed, {"n1": 4, "n2": 4}) == ["n2", "n1", "n2"]
    with pytest.raises(BackendError, match="do not fit"):
        seats(mixed, {"n1": 3, "n2": 5})
    assert read_placement(write_placement({"n1": 8, "n2": 4})) == {"n1": 8, "n2": 4}


@pytest.mark.parametrize("text", ["²", "9" * 5000, "-", "", "٣"])
def test_numbers_that_are_none(text: str) -> None:
    """Whoever can make a pod can write anything on it: it is taken for nothing said."""
    index = "batch.kubernetes.io/job-completion-index"
    notes = {index: text, "dally.io/placement": f"n1=8,n2={text}"}
    found = gang(pod("p0", node="n1", annotations=notes), pod("p1", node="n1", annotations=notes))
    assert (found.bound[0].rank_key[1:4], found.plan) == ((-1, -1, -1), {"n1": 8})
    here = node_record(node("n1", size="8"), ())
    for how in ("Gt", "Lt"):
        assert not fits(
            {"terms": [{"matchExpressions": [{"key": "size", "operator": how, "values": [text]}]}]}, here
        )


def test_sizes_that_controllers_state() -> None:
    template = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 1}}}]}}
    assert size_of("Job", {"parallelism": 4, "completions": 3, "template": template}) == 3
    assert size_of("Job", {"template": template}) == 1
    specs = {"Master": {"template": template}, "Worker": {"replicas": 3, "template": template}}
    assert size_of("PyTorchJob", {"pytorchReplicaSpecs": specs}) == 4
    cpu: dict[str, Any] = {"spec": {"containers": [{}]}}
    group = {"size": 4, "workerTemplate": template}
    assert size_of("LeaderWorkerSet", {"leaderWorkerTemplate": group}) == 4
    assert size_of("LeaderWorkerSet", {"leaderWorkerTemplate": {**group, "leaderTemplate": cpu}}) == 3
    workers = [{"replicas": 2, "numOfHosts": 3, "template": template}, {"replicas": 5, "template": cpu}]
    assert size_of("RayCluster", {"headGroupSpec": {"template": cpu}, "workerGroupSpecs": workers}) == 6
    assert size_of("RayCluster", {"headGroupSpec": {"template": template}, "workerGroupSpecs": workers}) == 7
    assert size_of("TFJob", {"tfReplicaSpecs": {"PS": {"replicas": 2, "template": {}}}}) is None


@pytest.mark.parametrize(
    ("about", "spec", "kind", "size"),
    [
        (
            {},
            {"schedulingGroup": {"podGroupName": "t"}},
            "podgroup",
            {"schedulingPolicy": {"gang": {"minCount": 2}}},
        ),
        ({"labels": {"scheduling.x-k8s.io/pod-group": "t"}}, {}, "podgroup-x", {"minMember": 2}),
        ({"annotations": {"scheduling.k8s.io/group-name": "t"}}, {}, "podgroup-volcano", {"minMember": 2}),
        ({}, {"schedulingGroup": {"podGroupName": "t"}}, "podgroup", {"schedulingPolicy": {"basic": {}}}),
    ],
)
def test_pod_groups(about: dict[str, Any], spec: dict[str, Any], kind: str, size: dict[str, Any]) -> None:
    """By the field of Kubernetes 1.36 and by the label or annotation of its forerunners."""
    gpus = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}], **spec}

    def member(name: str, **more: Any) -> PodRecord:
        given = {"name": name, "namespace": "a", "uid": name, "creationTimestamp": CREATED, **about}
        return pod_record({"metadata": given, "spec": {**gpus, **more}, "status": {}}, lambda *_: True)

    head, *workers = member("head", containers=[{}]), member("w-0"), member("w-1")
    assert (head.key.kind, head.key.name) == (kind, "t")
    states = size_of("PodGroup", size)
    if states is None:
        return
    found = gang_of(head.key, workers, Controller("u", 0.0, states), lambda _: False)
    assert job_of_gang(found, None, False, "").spec.gpus == 16
    found = gang_of(head.key, [head, workers[0]], Controller("u", 0.0, states), lambda _: False)
    assert (found.size, job_of_gang(found, None, False, "").state) == (1, base.QUEUED)


def test_a_pod_group_is_whole_once_its_plan_is_taken() -> None:
    """The pod without GPUs may be gone by then."""
    plan = {"labels": {"dally.io/gang": "", "dally.io/gang-size": "", "scheduling.x-k8s.io/pod-group": "t"}, **MADE}
    bound = [pod(f"p{number}", node=f"n{number}", annotations=PLAN, **plan) for number in (1, 2)]
    assert bound[0].key == ("a", "podgroup-x", "t")
    whole = gang_of(bound[0].key, bound, Controller("u", 0.0, 3), lambda _: False)
    assert (whole.size, whole.half) == (2, False)
    left = gang_of(bound[0].key, bound[:1], Controller("u", 0.0, 3), lambda _: False)
    assert (left.size, left.half) == (3, True)


@pytest.mark.parametrize(
    ("text", "number"),
    [("500m", 0.5), ("2Gi", 2.0**31), ("8", 8.0), ("1e3", 1000.0), ("9" * 400, 2.0**63), ("x", 0.0), ("", 0.0)],
)
def test_quantities(text: str, number: float) -> None:
    assert quantity(text) == number


def node(name: str, spec: dict[str, Any] | None = None, ready: str = "True", **labels: str) -> dict[str, Any]:
    status = {"allocatable": {"nvidia.com/gpu": "8"}, "conditions": [{"type": "Ready", "status": ready}]}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec or {}, "status": status}


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (node("n"), base.UP),
        (node("n", ready="Unknown"), base.DRAINING),
        (node("n", {"unschedulable": True}), base.DRAINING),
        (node("n", {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}), base.UP),
        (node("n", {"taints": [{"key": "mine", "effect": "NoExecute"}]}), base.UP),  # for pods that tolerate it
        (
            node("n", {"taints": [{"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}]}),
            base.DRAINING,
        ),
        (node("n", {"taints": [{"key": "mine", "effect": "PreferNoSchedule"}]}), base.UP),
    ],
)
def test_node_states(entry: dict[str, Any], expected: str) -> None:
    assert node_record(entry, KubeOptions().taints).state == expected


def test_selectors() -> None:
    here = node_record(node("n1", gpu="h200", size="8"), ())

    def allows(how: str, key: str, *values: str) -> bool:
        rule = {"key": key, "operator": how, "values": list(values)}
        return fits({"terms": [{"matchExpressions": [rule]}]}, here)

    assert fits({}, here)
    assert fits({"labels": {"gpu": "h200"}}, here)
    assert not fits({"labels": {"gpu": "a100"}}, here)
    assert allows("In", "gpu", "h200", "h100")
    assert not allows("NotIn", "gpu", "h200")
    assert allows("Exists", "gpu")
    assert allows("DoesNotExist", "other")
    assert allows("Gt", "size", "4")
    assert not allows("Lt", "size", "4")


def test_types_of_gpu() -> None:
    """Of a node by its label; of a pod by its selector or affinity, which allow some of the machines."""
    label = "nvidia.com/gpu.product"
    rule = {"key": label, "operator": "In", "values": ["H100", "H200"]}
    assert types_in({"terms": [{"matchExpressions": [rule]}]}) == ("H100", "H200")
    assert types_in({"labels": {label: "A100", "x": "y"}}) == ("A100",)
    assert types_in({"labels": {"x": "y"}}) == ()
    changed = threading.Event()
    nodes, pods = NodeLedger(KubeOptions(), changed), PodLedger(changed, lambda _: True, lambda *_: True)
    for number, kind in enumerate(("A100", "H100", "H100")):
        labels: dict[str, Any] = {label: kind, "pool": f"p{number}"}
        nodes.put(node(f"n{number}", **labels))
    assert list(nodes.draw(lambda _: 0).gpu_types) == ["A100", "H100", "H100"]
    assert [machine.gpu_type for machine in nodes.machines()] == ["A100", "H100", "H100"]
    api, pool = cast(KubeApi, None), ThreadPoolExecutor(1)
    rules = Neighbours(pods, nodes), VolumeClaims(api, pool), Owners(api, pool), Tenancy(TRUSTED, None)
    gangs = GangLedger(pods, nodes, *rules, lambda _: True, {})
    for name, chosen in (("typed", {label: "H100"}), ("pinned", {label: "H100", "pool": "p1"})):
        about = {"name": name, "namespace": "a", "uid": name, "creationTimestamp": CREATED}
        spec = {"nodeSelector": chosen, "containers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}]}
        pods.put({"metadata": {**about, "labels": {"kai.scheduler/queue": "vision"}}, "spec": spec})
    gangs.renew()
    found = {job.spec.name: job for job in gangs.jobs()}
    assert (found["typed"].state, found["typed"].spec.gpu_type, found["typed"].spec.queue) == (
        base.QUEUED,
        "H100",
        "vision",
    )
    assert (found["pinned"].state, found["pinned"].allowed) == (base.QUEUED, frozenset({"n1"}))
    assert found["typed"].allowed == frozenset({"n1", "n2"})


def test_nodes_join_leave_and_move() -> None:
    """Joining and moving make the tree old; leaving does not: the machine is down."""
    ledger = NodeLedger(KubeOptions(labels=("spine", "rack")), threading.Event())
    for number in range(4):
        ledger.put(node(f"n{number}", spine="s", rack=f"r{number // 2}"))
    topology = ledger.draw(lambda _: 0)
    assert (topology.tiers, topology.names[1]) == (["machine", "rack", "spine"], ["r0", "r1"])
    assert ledger.generation == 0
    ledger.put(node("n1", ready="False", spine="s", rack="r0"))
    ledger.drop(node("n3"))
    assert ledger.generation == 0
    assert [machine.state for machine in ledger.machines()] == [base.UP, base.DRAINING, base.UP, base.DOWN]
    ledger.put(node("n9", spine="s", rack="r1"))
    assert ledger.generation == 1
    ledger.draw(lambda _: 0)
    ledger.put(node("n9", spine="s", rack="r0"))
    assert ledger.generation == 2


def test_without_labels_the_network_is_flat() -> None:
    ledger = NodeLedger(KubeOptions(), threading.Event())
    ledger.put(node("n1"))
    ledger.put(node("n2"))
    assert ledger.draw(lambda _: 0).tiers == ["machine", "network"]
    with pytest.raises(BackendError, match="no node has GPUs"):
        NodeLedger(KubeOptions(), threading.Event()).draw(lambda _: 0)


def test_no_such_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--backend kubernetes"):
        KubeApi(str(tmp_path / "nothing"))


def test_options() -> None:
    found = read_options({"labels": "spine, rack", "force": "True", "image": "x"})
    assert (found.labels, found.force, found.image) == (("spine", "rack"), True, "x")
    with pytest.raises(InputError, match="must be true or false"):
        read_options({"force": "yes"})
    with pytest.raises(InputError, match="preset"):
        read_options({"presett": "x"})


@pytest.mark.parametrize(
    ("text", "fits_gpu", "fits_spot"),
    [
        ("pool=gpu", True, False),
        ("pool==gpu,zone", True, False),
        ("pool!=gpu", False, True),
        ("pool in (gpu, tpu)", True, False),
        ("pool notin (spot),zone in (a,b)", True, False),
        ("!zone", False, True),
        ("", True, True),
    ],
)
def test_label_selectors(text: str, fits_gpu: bool, fits_spot: bool) -> None:
    rules = label_rules("nodes", text)
    assert all(rule.fits({"pool": "gpu", "zone": "a"}) for rule in rules) == fits_gpu
    assert all(rule.fits({"pool": "spot"}) for rule in rules) == fits_spot


def test_what_is_no_label_selector() -> None:
    with pytest.raises(InputError, match="must be a label selector"):
        label_rules("nodes", "pool=(gpu)")


def test_a_node_that_leaves_the_selector_drains() -> None:
    """Its jobs run on; it takes no others."""
    ledger = NodeLedger(KubeOptions(nodes="pool=gpu"), threading.Event())
    for name in ("n1", "n2"):
        ledger.put(node(name, pool="gpu"))
    ledger.put(node("other", pool="x"))
    assert ledger.draw(lambda _: 0).names[0] == ["n1", "n2"]
    ledger.put(node("n2", pool="x"))
    assert [machine.state for machine in ledger.machines()] == [base.UP, base.DRAINING]
    assert not ledger.is_lost("n2")


def test_a_gpu_that_failed_leaves_the_others() -> None:
    ledger = NodeLedger(KubeOptions(), threading.Event())
    entry = node("n1")
    entry["status"]["capacity"] = {"nvidia.com/gpu": "8"}
    entry["status"]["allocatable"] = {"nvidia.com/gpu": "7"}
    ledger.put(entry)
    assert ledger.draw(lambda _: 0).total_gpus() == 8
    (machine,) = ledger.machines()
    assert (machine.state, machine.gpus, machine.reason) == (base.UP, 7, "7 of its 8 GPUs can be given")
