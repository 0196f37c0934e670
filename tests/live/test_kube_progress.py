"""What a pod prints, through a real API server and a kubelet that serves its log: how far it is, on its status."""

from __future__ import annotations

import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from dally.live.job_progress import ProgressReader
from tests.live.kube_cluster import JOBS, NODES, KubeCluster, job
from tests.live.test_kube_users import Site

LOOP = """
import sys, time
import numpy as np
weights, steps = np.eye(64), 4000
for step in range(1, steps + 1):
    weights = weights @ weights / np.linalg.norm(weights)
    time.sleep(0.05)
    print(f"step {step}/{steps} | loss 2.31", flush=True)
"""


class Kubelet(ThreadingHTTPServer):
    """Serves one file as the log of any container, as its query asks."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), LogHandler)
        self.printed = folder / "printed"
        self.printed.touch()
        key, certificate = folder / "key.pem", folder / "certificate.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1",
             "-keyout", str(key), "-out", str(certificate)],
            check=True, capture_output=True,
        )  # fmt: skip
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.socket = context.wrap_socket(self.socket, server_side=True)


class LogHandler(BaseHTTPRequestHandler):
    """GET /containerLogs/NAMESPACE/POD/CONTAINER."""

    def do_GET(self) -> None:
        assert isinstance(self.server, Kubelet)
        query = parse_qs(urlsplit(self.path).query)
        lines = self.server.printed.read_bytes().splitlines(keepends=True)[-int(query["tailLines"][0]) :]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"".join(lines)[: int(query["limitBytes"][0])])

    def log_message(self, *_: object) -> None:
        """It has no log of its own."""


@pytest.fixture
def kubelet(kube: KubeCluster, tmp_path: Path) -> Iterator[Kubelet]:
    """Of all nodes."""
    made = Kubelet(tmp_path)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    endpoint = {"kubeletEndpoint": {"Port": made.server_address[1]}}
    status = {"daemonEndpoints": endpoint, "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}
    for node in kube.admin.get(NODES)["items"]:
        kube.admin.patch(f"{NODES}/{node['metadata']['name']}/status", {"status": status})
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def test_steps_that_a_pod_prints_are_on_its_status(kube: KubeCluster, kubelet: Kubelet, tmp_path: Path) -> None:
    site = Site(kube, tmp_path / "state", logs="true")
    loop = None
    try:
        site.daemon.run_cycle()
        assert site.daemon.scheduler is not None
        site.daemon.scheduler.progress = ProgressReader(every_s=0.5)
        kube.admin.post(JOBS, job("train", 2, 8, None))
        site.go_on(lambda: site.runs("default.job.train"))
        with kubelet.printed.open("ab") as printed:
            loop = subprocess.Popen([sys.executable, "-c", LOOP], stdout=printed)
        site.go_on(lambda: site.daemon.status.by_id["default.job.train"].step, 40.0)
        site.go_on(lambda: site.daemon.status.by_id["default.job.train"].end_s, 60.0)
        line = site.daemon.status.by_id["default.job.train"]
        assert line.step is not None
        assert 0 < line.step < 4000
        assert line.total_steps == 4000
    finally:
        if loop is not None:
            loop.kill()
            loop.wait()
        site.service.close()
