"""A server that refuses to bind for good: admission, namespaces that end, more pods than a Lease takes."""

from __future__ import annotations

import base64
import json
import random
import ssl
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from dally.live.backends import base
from dally.live.backends.base import StartOrder
from dally.live.backends.kubernetes import KubernetesBackend, binding
from dally.live.backends.kubernetes.kube_api import RefusedError
from dally.live.backends.kubernetes.order_journal import AnnouncedBinding, decode, encode
from dally.live.config import Setup
from tests.live.kube_bench import KubeBench
from tests.live.kube_cluster import KubeCluster
from tests.live.kube_memory import JOBS, LEASES, PODS, Server, job_of, of_job, told

HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
LEASE = f"{LEASES}/dally-scheduler"
RIGHTS = 'pods "p" is forbidden: User "dally" cannot create resource "pods/binding" in API group ""'
ENDS = 'pods "p" is forbidden: unable to create new content in namespace a because it is being terminated'
HOOK = 'admission webhook "guard.example.com" denied the request: no'
MOST_BYTES = 262_144  # of the annotations of one object


@contextmanager
def hook(kube: KubeCluster, refused: str) -> Iterator[None]:
    """An admission webhook that lets no pod be bound whose name begins so."""

    class Guard(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
            answer = {"uid": review["uid"], "allowed": not review["name"].startswith(refused)}
            head = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
            body = json.dumps({**head, "response": answer}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    certificate, key = (kube.folder / "certs" / f"apiserver.{end}" for end in ("crt", "key"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    http = ThreadingHTTPServer(("127.0.0.1", 0), Guard)
    http.daemon_threads = True
    http.socket = context.wrap_socket(http.socket, server_side=True)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/binding"]}
    made = {
        "name": "guard.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "rules": [rule],
        "clientConfig": {
            "url": f"https://127.0.0.1:{http.server_address[1]}/",
            "caBundle": base64.b64encode(certificate.read_bytes()).decode(),
        },
    }  # fmt: skip
    kube.admin.post(HOOKS, {"metadata": {"name": "guard"}, "webhooks": [made]})
    try:
        yield
    finally:
        kube.admin.delete(f"{HOOKS}/guard")
        http.shutdown()
        http.server_close()


def test_what_a_webhook_refuses_holds_up_nobody(kube: KubeCluster, tmp_path: Path) -> None:
    """A gang of the whole cluster that may not be bound waits with the reason, and gives way to the next one."""
    bench = KubeBench(kube, tmp_path, Setup("fifo"))
    with hook(kube, "bad"):
        bad = bench.submit("bad", 16, 8, 1.0)
        bench.go_on(lambda: bench.states().get(bad) == base.BLOCKED)
        (reason,) = [job.reason for job in bench.scheduler.roster.snapshot.jobs if job.job_id == bad]
        assert "guard.example.com" in reason
        good = bench.submit("good", 4, 8, 0.5)
        bench.go_on(lambda: bench.states().get(good) == base.FINISHED)
    bench.go_on(bench.ended)  # the rule is gone
    bench.close()


def test_what_a_rule_refuses_is_blocked_for_a_while(
    server: Server, backend: KubernetesBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock_s = [1000.0]
    server.objects[f"{JOBS}/j"] = job_of("j", 1)
    server.pods.append(of_job("j"))
    server.objects[f"{PODS}/j-0/binding"] = RefusedError("bind", 400, {"message": HOOK})
    backend.snapshot()
    monkeypatch.setattr("time.monotonic", lambda: clock_s[0])
    (answer,) = backend.start([StartOrder("a.job.j", {"n1": 8})], backend.term)
    assert "guard.example.com" in answer
    assert (told(backend)["j"].state, told(backend)["j"].reason) == (base.BLOCKED, answer)
    clock_s[0] += binding.REFUSED_FOR_S
    assert told(backend)["j"].state == base.QUEUED


@pytest.mark.parametrize(
    ("code", "message", "final"),
    [
        (403, RIGHTS, False), (403, "", False), (403, ENDS, True), (403, HOOK, True), (400, HOOK, True),
        (422, "is too long", True), (409, "is already assigned", True), (404, "not found", True),
        (401, "Unauthorized", False), (429, "too many requests", False), (503, "apiserver is shutting down", False),
    ],
)  # fmt: skip
def test_which_refusals_are_final(code: int, message: str, final: bool) -> None:
    """Those are not tried again for seconds, while all other gangs wait for a thread."""
    assert RefusedError("bind", code, {"message": message}).is_final == final


@pytest.mark.parametrize(("code", "message"), [(403, ENDS), (400, HOOK), (404, "not found"), (409, "is assigned")])
def test_announced_orders_that_a_rule_refuses(
    server: Server, backend: KubernetesBackend, code: int, message: str
) -> None:
    """They keep no new leader from its term: it would be in vain for a late request, too."""
    rows = [AnnouncedBinding("a", "p", "u", "n1", "0", "n1=8", "machine")]
    server.objects[LEASE] = {"metadata": {"annotations": {"dally.io/orders": encode(rows)}}, "spec": {}}
    server.objects[f"{PODS}/p/binding"] = RefusedError("bind", code, {"message": message})
    claim = backend.claim()
    try:
        assert backend.snapshot().jobs == ()
    finally:
        claim.release()


def test_more_pods_than_a_lease_takes(
    server: Server, backend: KubernetesBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10,000 pods are bound in one cycle, each announced before it is sent: the server takes 256 KiB."""
    sizes, chance = {"g": 9000, "h": 1000}, random.Random(1)
    places = {"g": {f"n{at}": 1000 for at in range(1, 10)}, "h": {"n10": 1000}}
    room = {"nvidia.com/gpu": "1000", "cpu": "1000", "memory": "6Ti"}
    server.nodes[:] = [{"metadata": {"name": f"n{at}"}, "status": {"allocatable": room}} for at in range(1, 11)]
    server.objects |= {f"{JOBS}/{name}": job_of(name, size) for name, size in sizes.items()}
    for name, size in sizes.items():
        for number in range(size):
            server.pods.append(of_job(name, number, gpus=1))
            server.pods[-1]["metadata"]["uid"] = str(uuid.UUID(int=chance.getrandbits(128)))
    plain, announced, late = server.call, set[str](), list[str]()

    def call(method: str, path: str, body: Any = None, *args: Any, **options: Any) -> Any:
        orders = ((body or {}).get("metadata", {}).get("annotations") or {}).get("dally.io/orders", "")
        if path == LEASE and method == "PUT":
            if len(orders) > MOST_BYTES:
                raise RefusedError(path, 422, {"message": f"Too long: must have at most {MOST_BYTES} bytes"})
            announced.update(row.uid for row in decode(orders))
        elif path.endswith("/binding") and body["metadata"]["uid"] not in announced:
            late.append(path)
        return plain(method, path, body, *args, **options)

    monkeypatch.setattr(backend.api, "call", call)
    server.objects[LEASE] = {"metadata": {}, "spec": {}}
    claim = backend.claim()
    try:
        backend.snapshot()
        server.objects[LEASE] = {"metadata": {}, "spec": {"holderIdentity": backend.leader.me}}
        orders = [StartOrder(f"a.job.{name}", place) for name, place in places.items()]
        assert backend.start(orders, backend.term) == ["", ""]
    finally:
        claim.release()
    assert (len(announced), late) == (10_000, [])
