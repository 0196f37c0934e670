"""Answers of a server, and objects of users, that must stop nobody else; the server is in memory."""

from __future__ import annotations

import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from dally.live.backends import base
from dally.live.backends.base import BackendError, StartOrder
from dally.live.backends.kubernetes import (
    KubernetesBackend,
    gang_ledger,
    gang_repair,
    leader,
    overbooking,
    owners,
)
from dally.live.backends.kubernetes.kube_api import Entry, KubeApi, RefusedError
from dally.live.backends.kubernetes.leader import Leader
from dally.live.backends.kubernetes.order_journal import AnnouncedBinding, decode, encode
from dally.live.backends.kubernetes.plan_seal import PlanSeal
from tests.live.kube_cluster import pod, until
from tests.live.kube_memory import JOBS, LEASES, PODS, Server, job_of, of_job, told


def test_a_helper_that_cannot_be_bound(server: Server, backend: KubernetesBackend) -> None:
    """A pod without GPUs costs its gang nothing, and nobody's turn."""
    server.objects[f"{JOBS}/g"] = job_of("g", 2)
    server.pods += [of_job("g", 0, node="n1"), of_job("g", 1, node="n2"), of_job("g", 2, gpus=0)]
    server.objects[f"{PODS}/g-2/binding"] = RefusedError("bind", 422, {"message": "no"})
    assert told(backend)["g"].state == base.RUNNING
    assert backend.complete() == ["job a.job.g runs, but pod g-2: bind: 422: no"]
    assert list(server.orders("POST")) == [f"{PODS}/g-2/binding"]
    assert told(backend)["g"].state == base.RUNNING


@pytest.mark.parametrize(
    "reference",
    [
        {"name": "../../../../../../api/v1/namespaces/b/secrets/s"},
        {"name": "j?dryRun=All"},
        {"apiVersion": "batch/../../api/v1"},
        {"apiVersion": "batch/v1?x="},
    ],
)
def test_references_to_what_cannot_be(
    server: Server, backend: KubernetesBackend, reference: dict[str, Any]
) -> None:
    """Users write owner references: none leads to another object."""
    server.pods.append(of_job("j", **reference))
    (job,) = backend.snapshot().jobs
    backend.cancel_job(job.job_id)
    assert {path for method, path, _ in server.asked if "j" in path.split("/")[-1]} == {f"{PODS}/j-0"}
    assert list(server.orders("DELETE")) == [f"{PODS}/j-0"]
    assert not [path for _, path, _ in server.asked if ".." in path or "?" in path]


def test_only_this_very_controller_is_deleted(server: Server, backend: KubernetesBackend) -> None:
    server.objects[f"{JOBS}/j"] = job_of("j", 1)
    server.pods.append(of_job("j"))
    assert told(backend)["j"].state == base.QUEUED
    backend.cancel_job("a.job.j")
    body = {"propagationPolicy": "Background", "preconditions": {"uid": "uid-j"}}
    assert server.orders("DELETE") == {f"{JOBS}/j": body}


@pytest.mark.parametrize(
    "ill",
    [*(RefusedError("get", code, {}) for code in (403, 404, 500)), {"metadata": {}, "spec": {"parallelism": "x"}}],
)
def test_one_controller_that_cannot_be_read(
    server: Server, backend: KubernetesBackend, monkeypatch: pytest.MonkeyPatch, ill: Any
) -> None:
    """It is held and asked again later; what was known of it stands; others go on."""
    monkeypatch.setattr(gang_ledger, "READ_EVERY_S", 0.0)
    clock_s = [0.0]
    monkeypatch.setattr(owners, "time", SimpleNamespace(monotonic=lambda: clock_s[0]))
    server.objects |= {f"{JOBS}/well": job_of("well", 1), f"{JOBS}/ill": ill}
    server.pods += [of_job("ill"), of_job("well")]
    found = told(backend)
    assert (found["well"].state, found["ill"].state) == (base.QUEUED, base.HELD)
    assert "its Job cannot be read" in found["ill"].reason
    server.objects[f"{JOBS}/ill"] = job_of("ill", 1)
    assert told(backend)["ill"].state == base.HELD  # not so soon
    assert len([path for _, path, _ in server.asked if path == f"{JOBS}/ill"]) == 1
    clock_s[0] += owners.REFUSED_AGAIN_S
    assert told(backend)["ill"].state == base.QUEUED
    server.objects[f"{JOBS}/ill"] = ill
    backend.ledger.put(of_job("ill", 1))  # one more than it has: its Job is asked
    told(backend)
    assert told(backend)["ill"].state == base.QUEUED
    assert len([path for _, path, _ in server.asked if path == f"{JOBS}/ill"]) == 3


def test_pods_that_a_complete_job_leaves_behind(
    server: Server, backend: KubernetesBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Job may make pods in the moment in which it is complete: nothing waits for the others of them."""
    for name in ("READ_EVERY_S", "INCOMPLETE_AGAIN_S"):
        monkeypatch.setattr(gang_ledger, name, -1.0)
    server.objects[f"{JOBS}/j"] = job_of("j", 3)
    server.pods += [of_job("j", 0), of_job("j", 1)]
    assert (told(backend)["j"].state, told(backend)["j"].reason) == (base.HELD, "2 of its 3 pods are there")
    complete = {"conditions": [{"type": "Complete", "status": "True"}]}
    server.objects[f"{JOBS}/j"] = job_of("j", 3) | {"status": complete}
    assert told(backend)["j"].state == base.FINISHED


@pytest.mark.parametrize(("status", "state"), [("Complete", base.FINISHED), ("Failed", base.FAILED), ("", None)])
def test_a_job_whose_pods_are_gone(
    server: Server, backend: KubernetesBackend, status: str, state: str | None
) -> None:
    """Pods that end in the moment of their eviction go at once: what their Job says of its end counts."""
    server.objects[f"{JOBS}/j"] = job_of("j", 1)
    server.pods.append(of_job("j", 0, node="n1"))
    assert told(backend)["j"].state == base.RUNNING
    rows = [{"type": status, "status": "True"}] if status else []
    server.objects[f"{JOBS}/j"] = job_of("j", 1) | {"status": {"conditions": rows}}
    backend.ledger.drop(server.pods[0])
    found = told(backend)
    assert (found["j"].state if "j" in found else None) == state


def test_more_gpus_than_a_machine_has(server: Server, backend: KubernetesBackend) -> None:
    """Neither a pod that names its node itself nor a node of 5,000 GPUs ends the daemon at its start."""
    server.pods.append(of_job("j", gpus=5000, node="n1"))
    server.nodes.append({"metadata": {"name": "n3"}, "status": {"allocatable": {"nvidia.com/gpu": "5000"}}})
    assert backend.topology().names[0] == ["n1", "n2"]
    assert [(one.name, one.gpus) for one in backend.snapshot().machines] == [("n1", 8), ("n2", 8)]
    assert "/api/v1/nodes: n3: ValueError: 5000 GPUs: at most 1024 a machine" in backend.snapshot().problems


def test_no_answer_at_all_costs_the_turn(server: Server, backend: KubernetesBackend) -> None:
    server.objects[f"{JOBS}/j"] = BackendError("connection refused")
    server.pods.append(of_job("j"))
    with pytest.raises(BackendError, match="connection refused"):
        backend.snapshot()
    server.objects[f"{JOBS}/j"] = job_of("j", 1)
    assert told(backend)["j"].state == base.QUEUED


def test_who_leads_no_more_looks_no_more(
    server: Server, backend: KubernetesBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn writes to the store, which another daemon may share: without the lease there is none."""
    monkeypatch.setattr(leader, "RENEW_S", 0.05)
    monkeypatch.setattr(leader, "SURE_S", 1.0)  # a busy machine may not come to it for a moment
    name = f"{LEASES}/dally-scheduler"
    claim = backend.claim()
    assert told(backend) == {}
    theirs = {"holderIdentity": "other", "renewTime": "now", "leaseDurationSeconds": 60}
    server.objects[name] = {"metadata": {"name": "dally-scheduler"}, "spec": theirs}

    def refused() -> bool:
        try:
            backend.snapshot()
        except BackendError as error:
            return "other leads" in str(error)
        return False

    until(refused)
    with pytest.raises(BackendError, match="does not lead: other leads"):
        backend.topology()
    claim.release()


def test_the_lease_is_kept_whatever_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Lease that somebody made by hand, and answers of no sense: the thread goes on."""
    monkeypatch.setattr(leader, "RENEW_S", 0.01)
    answers: list[Any] = [{"metadata": {}}, {"metadata": {}, "spec": None}, ["junk"], {"spec": 3}]
    written: list[Entry] = []
    api = SimpleNamespace(
        get=lambda _: answers.pop(0) if answers else {"metadata": {}},
        put=lambda _, body: written.append(body),
        close=lambda: None,
    )
    made = Leader(cast(KubeApi, api), "dally", "lease")
    made.acquire()
    until(lambda: not answers and len(written) > 4)
    made.check()
    made.release()
    assert {body["spec"]["holderIdentity"] for body in written} == {made.me}


@pytest.mark.parametrize("data", [b"<html>", b"[]", b"null"])
def test_an_answer_that_is_no_object(
    backend: KubernetesBackend, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.undo()
    answer = SimpleNamespace(status=200, data=data)
    monkeypatch.setattr(backend.api, "_http", SimpleNamespace(request=lambda *_, **__: answer, clear=lambda: None))
    with pytest.raises(BackendError, match="no JSON"):
        backend.api.get("/version")


def scheduled(entry: Entry, at: str) -> Entry:
    """The same, bound at that time."""
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
    return entry | {"status": {"conditions": [bound]}}


def evicted(server: Server) -> set[str]:
    return {path.split("/")[-2] for path in server.orders("POST") if path.endswith("/eviction")}


def bare(name: str, gang: str, size: int, node: str = "") -> Entry:
    """A pod without a controller."""
    entry = pod(name, 8, labels={"dally.io/gang": gang, "dally.io/gang-size": str(size)})
    entry["metadata"] |= {"namespace": "a", "uid": name}
    entry["spec"] |= {"nodeName": node} if node else {}
    return entry


@pytest.mark.parametrize(("older", "later"), [("x", "y"), ("y", "x")])
def test_the_later_gang_of_an_overbooked_node_goes_back(
    server: Server, backend: KubernetesBackend, older: str, later: str
) -> None:
    for name in (older, later):
        server.objects[f"{JOBS}/{name}"] = job_of(name, 1)
    server.pods += [
        scheduled(of_job(older, node="n1"), "2026-11-16T10:00:00Z"),
        scheduled(of_job(later, node="n1"), "2026-11-16T10:00:05Z"),
    ]
    backend.snapshot()
    (problem,) = backend.complete()
    assert problem == f"job a.job.{later} is stopped: pods on n1 have 16 GPUs, and it has 8"
    assert evicted(server) == {f"{later}-0"}
    assert told(backend)[later].state == base.STOPPING
    assert told(backend)[older].state == base.RUNNING
    assert backend.complete() == []


def test_an_overbooking_by_others_is_resolved_after_a_while(
    server: Server, backend: KubernetesBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kubelet refuses a pod that comes too late; if it does not, ours goes back."""
    server.objects[f"{JOBS}/x"] = job_of("x", 1)
    foreign = bare("foreign", "f", 1, "n1")
    foreign["spec"]["schedulerName"] = "default-scheduler"
    server.pods += [
        scheduled(of_job("x", node="n1"), "2026-11-16T10:00:00Z"),
        scheduled(foreign, "2026-11-16T10:00:05Z"),
    ]
    backend.snapshot()
    assert "16 GPUs, and it has 8" in backend.complete()[0]
    assert evicted(server) == set()
    monkeypatch.setattr(overbooking, "KUBELET_WAIT_S", 0.0)
    assert "job a.job.x is stopped" in backend.complete()[0]
    assert evicted(server) == {"x-0"}


def test_a_pod_that_names_its_node_itself_evicts_no_gang_that_runs(
    server: Server, backend: KubernetesBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any user may write `nodeName`. Devices are those of the pods that run, though a kubelet is slow to say so."""
    server.objects[f"{JOBS}/x"] = job_of("x", 1)
    running = scheduled(of_job("x", node="n1"), "2026-11-16T10:00:00Z")
    running["status"]["phase"] = "Running"
    intruder = bare("intruder", "f", 1, "n1")
    intruder["spec"]["schedulerName"] = "none"
    server.pods += [running, scheduled(intruder, "2026-11-16T10:00:05Z")]
    monkeypatch.setattr(overbooking, "KUBELET_WAIT_S", 0.0)
    backend.snapshot()
    for _ in range(2):
        (problem,) = backend.complete()
        assert problem == "pods on n1 have 16 GPUs, and it has 8; none that is left there can be stopped here"
    assert evicted(server) == set()
    assert told(backend)["x"].state == base.RUNNING


def test_bare_pods_are_never_evicted(server: Server, backend: KubernetesBackend) -> None:
    """One binding fails: the other pod stays where it is, and the gang is completed when that can be."""
    server.pods += [bare("b-0", "b", 2), bare("b-1", "b", 2)]
    assert told(backend)["b"].state == base.QUEUED
    server.objects[f"{PODS}/b-1/binding"] = RefusedError("bind", 422, {"message": "no"})
    (answer,) = backend.start([StartOrder("a.gang.b", {"n1": 8, "n2": 8})], backend.term)
    assert "422" in answer
    assert told(backend)["b"].state == base.RUNNING
    (problem,) = backend.complete()
    assert "1 of its 2 pods are bound: left as it is" in problem
    assert evicted(server) == set()
    del server.objects[f"{PODS}/b-1/binding"]
    assert backend.complete() == []
    assert told(backend)["b"].placement == {"n1": 8, "n2": 8}
    assert server.orders("DELETE") == {}


def test_a_gang_that_was_deleted_while_it_starts(server: Server, backend: KubernetesBackend) -> None:
    """Its pods go without having been bound: that is an answer, not a bug."""
    server.objects[f"{JOBS}/x"] = job_of("x", 1)
    server.pods.append(of_job("x"))
    assert told(backend)["x"].state == base.QUEUED
    going = of_job("x")
    going["metadata"]["deletionTimestamp"] = "2026-11-16T10:00:00Z"
    backend.ledger.put(going)
    (answer,) = backend.start([StartOrder("a.job.x", {"n1": 8})], backend.term)
    assert answer == "job a.job.x has no pods any more"


def test_binds_that_are_queued_when_the_lease_is_lost_are_dropped(
    server: Server, backend: KubernetesBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon is stopped in the middle of binding, another leads, and it goes on: it sends nothing more."""
    monkeypatch.setattr(leader, "RENEW_S", 60.0)  # nor does it lead again meanwhile, however slow the machine is
    monkeypatch.setattr(leader, "SURE_S", 50.0)
    claim = backend.claim()
    server.objects[f"{JOBS}/x"] = job_of("x", 16)
    server.pods += [of_job("x", number, gpus=1) for number in range(16)]
    assert told(backend)["x"].state == base.QUEUED
    call, sent = server.call, []

    def slow(method: str, path: str, *args: Any, **options: Any) -> Any:
        if path.endswith("/binding"):
            assert 0.0 < options["timeout_s"] <= leader.SURE_S
            sent.append(path)
            claim._renewed_s -= 60.0  # as if it had been stopped for a minute
        return call(method, path, *args, **options)

    monkeypatch.setattr(backend.api, "call", slow)
    backend._pool._max_workers = 1  # one after the other
    (answer,) = backend.start([StartOrder("a.job.x", {"n1": 8, "n2": 8})], backend.term)
    assert "does not lead" in answer
    assert len(sent) == 1
    assert evicted(server) == set()  # nor does it take back what another daemon completes
    claim.release()


def test_orders_of_an_earlier_term_are_not_sent(server: Server, backend: KubernetesBackend) -> None:
    """Not even if the same daemon leads again."""
    claim = backend.claim()
    fence = backend._fence(backend.term)
    assert fence.left_s() > 0.0
    claim.term += 1
    with pytest.raises(BackendError, match="decided in term 1, and this is term 2"):
        fence.left_s()
    claim.release()


def test_a_pod_that_cannot_be_seen_to_go_does_not_hold_up_its_gang(
    server: Server, backend: KubernetesBackend
) -> None:
    """Its node does not answer; its controller has made another pod, and there is room elsewhere."""
    server.nodes[0]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    server.objects[f"{JOBS}/x"] = job_of("x", 1)
    stuck = of_job("x", 0, node="n1")
    stuck["metadata"]["deletionTimestamp"] = "2026-11-16T10:00:00Z"
    server.pods += [stuck, of_job("x", 1)]
    assert told(backend)["x"].state == base.QUEUED
    (answer,) = backend.start([StartOrder("a.job.x", {"n2": 8})], backend.term)
    assert answer == ""


def test_a_rotated_token_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("first\n")
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "users": [{"name": "u", "user": {"tokenFile": "token"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }  # fmt: skip
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    api = KubeApi(str(tmp_path / "config"))
    sent: list[str] = []

    def request(*_: Any, headers: dict[str, str], **__: Any) -> Any:
        sent.append(headers["authorization"])
        return SimpleNamespace(status=200, data=b"{}")

    monkeypatch.setattr(api, "_http", SimpleNamespace(request=request, clear=lambda: None))
    api.get("/version")
    (tmp_path / "token").write_text("second, longer")
    api.get("/version")
    assert sent == ["Bearer first", "Bearer second, longer"]


def test_a_lost_answer_does_not_end_a_daemon_that_begins(
    server: Server, backend: KubernetesBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither to the first request nor to the one for the key."""
    lost = {"/version", "/api/v1/namespaces/dally/secrets/dally-scheduler-key"}

    def call(method: str, path: str, *parts: Any, **more: Any) -> Any:
        if path in lost:
            lost.remove(path)
            raise BackendError(f"{method} {path}: reset by peer")
        return server.call(method, path, *parts, **more)

    monkeypatch.setattr(backend.api, "call", call)
    assert backend.topology().names[0] == ["n1", "n2"]
    assert not lost


def test_a_daemon_without_rights_says_so(server: Server, backend: KubernetesBackend) -> None:
    """And not that another daemon leads."""
    claim = backend.claim()
    refusal = RefusedError("GET lease", 401, {"message": "Unauthorized"})
    server.objects[f"{LEASES}/dally-scheduler"] = refusal
    claim._problem, claim._renewed_s = claim._try(), -60.0
    with pytest.raises(BackendError, match="does not lead: GET lease: 401: Unauthorized"):
        claim.check()
    claim.release()


EVERYWHERE = {"dally.io/placement": "n1=8,n2=8", "dally.io/rank": "0", "dally.io/tier": "network"}


def test_forged_annotations_take_no_gpus(server: Server, backend: KubernetesBackend) -> None:
    """A tenant writes plans, pins and our name on pods: only what they have counts."""
    bound = bare("forged", "f", 2, "n1")
    bound["metadata"]["annotations"] = {**EVERYWHERE, "dally.io/signature": "0" * 64}
    pinned = bare("pinned", "p", 1)
    pinned["spec"]["schedulerName"] = "default-scheduler"
    pinned["metadata"]["annotations"] = {"dally.io/node": "n2", "dally.io/scheduler": "dally"}
    pinned["metadata"]["labels"] |= pinned["metadata"]["annotations"]
    server.pods += [bound, pinned]
    jobs = told(backend)
    assert jobs["f"].placement == {"n1": 8}
    assert "p" not in jobs
    assert "pinned" not in jobs
    backend.complete()
    assert evicted(server) == set()


def test_what_we_wrote_is_trusted_by_the_next_daemon(server: Server, backend: KubernetesBackend) -> None:
    """Bound in part by one that knows the key; written for another pod, the same is worth nothing."""
    backend._seal.keep()
    (secret,) = [body for path, body in server.orders("POST").items() if path.endswith("/secrets")]
    server.objects["/api/v1/namespaces/dally/secrets/dally-scheduler-key"] = secret
    backend._seal._key = b""  # as in a new process
    notes = dict(EVERYWHERE)
    old = PlanSeal(backend.api, "dally", "dally-scheduler-key")
    old.load()
    notes["dally.io/signature"] = old.sign("g-0", "n1", notes)
    server.objects |= {f"{JOBS}/g": job_of("g", 2), f"{JOBS}/h": job_of("h", 2)}
    for name in ("g", "h"):
        half = of_job(name, 0, gpus=4, node="n1")
        half["metadata"]["annotations"] = notes
        server.pods += [half, of_job(name, 1, gpus=4)]
    jobs = told(backend)
    assert jobs["g"].placement == {"n1": 8, "n2": 8}
    assert (jobs["h"].state, jobs["h"].placement) == (base.STOPPING, {"n1": 4})


def test_what_kube_scheduler_does_not_bind_is_planned_elsewhere(
    server: Server, backend: KubernetesBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let through its gate and pinned, but not bound in its time: it goes back, and gets another node."""
    clock_s = [0.0]
    fake = SimpleNamespace(monotonic=lambda: clock_s[0])
    monkeypatch.setattr(gang_repair, "time", fake)
    monkeypatch.setattr(gang_ledger, "time", fake)
    server.objects |= {"/version": {"major": "1", "minor": "30"}, f"{JOBS}/j": job_of("j", 1)}
    entry = of_job("j")
    entry["spec"] |= {"schedulerName": "default-scheduler", "schedulingGates": [{"name": "dally.io/gate"}]}
    server.pods.append(entry)
    backend.topology()
    assert told(backend)["j"].state == base.QUEUED
    backend.start_job("a.job.j", {"n1": 8})
    opened = copy.deepcopy(entry)
    opened["spec"].pop("schedulingGates")
    for step in server.orders("PATCH")[f"{PODS}/j-0"]:
        if step["path"].startswith("/metadata/annotations/"):
            name = step["path"].removeprefix("/metadata/annotations/").replace("~1", "/")
            opened["metadata"]["annotations"][name] = step["value"]
    backend.ledger.put(opened)
    assert told(backend)["j"].state == base.STARTING
    assert backend.complete() == []
    clock_s[0] += gang_repair.PLACE_WITHIN_S - 1.0
    assert backend.complete() == []
    clock_s[0] += 2.0
    assert backend.complete() == ["job a.job.j is stopped: kube-scheduler has not bound pod j-0 to n1"]
    assert evicted(server) == {"j-0"}
    backend.ledger.drop(opened)
    again = copy.deepcopy(entry)
    again["metadata"] |= {"name": "j-1", "uid": "j-1"}
    backend.ledger.put(again)
    assert told(backend)["j"].state == base.QUEUED
    assert told(backend)["j"].allowed == frozenset({"n2"})
    clock_s[0] += gang_repair.AVOID_S
    assert told(backend)["j"].allowed is None


LEASE = "/apis/coordination.k8s.io/v1/namespaces/dally/leases/dally-scheduler"


def test_bindings_are_announced_before_they_are_sent(server: Server, backend: KubernetesBackend) -> None:
    """On the lease; and if that cannot be written, nothing is sent."""
    server.pods += [of_job("one"), of_job("two")]
    server.objects |= {f"/apis/batch/v1/namespaces/a/jobs/{name}": job_of(name, 1) for name in ("one", "two")}
    claim = backend.claim()
    try:
        backend.snapshot()
        server.objects[LEASE] = {"metadata": {}, "spec": {"holderIdentity": backend.leader.me}}
        backend.start_job("a.job.one", {"n1": 8})
        sent = [(how, path.rsplit("/", 1)[1], body) for how, path, body in server.asked if how in ("PUT", "POST")]
        at = next(number for number, (_, what, _) in enumerate(sent) if what == "binding")
        how, _, body = sent[at - 1]
        assert how == "PUT"
        (row,) = decode(body["metadata"]["annotations"]["dally.io/orders"])
        assert (row.uid, row.node, row.placement) == ("one-0", "n1", "n1=8")
        server.objects[LEASE] = {"metadata": {}, "spec": {"holderIdentity": "other", "renewTime": "now"}}
        with pytest.raises(BackendError, match="other leads"):
            backend.start_job("a.job.two", {"n2": 8})
    finally:
        claim.release()
    assert [path for path in server.orders("POST") if path.endswith("/binding")] == [
        "/api/v1/namespaces/a/pods/one-0/binding"
    ]


def test_a_new_leader_completes_what_was_announced(server: Server, backend: KubernetesBackend) -> None:
    """Before it looks at the pods: a late binding of the one before finds its pod bound."""
    rows = [AnnouncedBinding("a", f"p{rank}", f"u{rank}", "n1", str(rank), "n1=8", "machine") for rank in range(2)]
    notes = {"dally.io/orders": encode(rows)}
    server.objects[LEASE] = {"metadata": {"annotations": notes}, "spec": {}}
    server.objects["/api/v1/namespaces/a/pods/p0/binding"] = RefusedError("bound already", 409, {})
    claim = backend.claim()
    try:
        backend.snapshot()
    finally:
        claim.release()
    paths = [path for _, path, _ in server.asked]
    bound = server.orders("POST")["/api/v1/namespaces/a/pods/p1/binding"]
    assert paths.index("/api/v1/namespaces/a/pods/p1/binding") < paths.index("/api/v1/pods")
    assert (bound["metadata"]["uid"], bound["target"]["name"]) == ("u1", "n1")
    assert bound["metadata"]["annotations"]["dally.io/rank"] == "1"
    assert backend.leader.announced == ""  # which the next renewal writes
