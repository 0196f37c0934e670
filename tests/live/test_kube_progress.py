"""What a pod prints, through a real API server and a kubelet that serves its log: how far it is, on its status.

And what its steps teach of its sensitivity to the network.
"""

from __future__ import annotations

import os
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from dally.live.config import Setup
from dally.live.cycle import Scheduler
from dally.live.job_progress import ProgressReader
from dally.model import make_allocation
from tests.live import training_loop
from tests.live.kube_cluster import JOBS, NODES, KubeCluster, job
from tests.live.test_kube_users import Site

ID = "default.job.train"


class Kubelet(ThreadingHTTPServer):
    """Serves a file for each Job as the log of any container of its pods, as the query asks."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), LogHandler)
        self.folder = folder
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
        parts = urlsplit(self.path)
        query, pod = parse_qs(parts.query), parts.path.split("/")[3]
        printed = self.server.folder / pod.rpartition("-")[0]
        content = printed.read_bytes() if printed.exists() else b""
        lines = content.splitlines(keepends=True)[-int(query["tailLines"][0]) :]
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


class Trains:
    """A daemon, and a training loop for each Job that it starts."""

    def __init__(self, kube: KubeCluster, folder: Path, setup: Setup) -> None:
        self.kube = kube
        self.folder = folder
        self.site = Site(kube, folder / "state", setup=setup, logs="true")
        self.loops: list[subprocess.Popen[bytes]] = []
        self.site.cycle()
        self.scheduler.progress = ProgressReader(every_s=0.5)

    @property
    def scheduler(self) -> Scheduler:
        scheduler = self.site.daemon.scheduler
        assert scheduler is not None
        return scheduler

    def post(self) -> str:
        """Two pods of eight GPUs, of the same name each time: so their steps compare."""
        (self.folder / "train").write_bytes(b"")
        self.kube.admin.post(JOBS, job("train", 2, 8, None))
        self.site.go_on(lambda: ID in self.scheduler.roster.jobs)
        return ID

    def train(self, together_s: float, apart_s: float) -> str:
        """The same; once it runs, its loop prints at the pace of its place."""
        job_id = self.post()
        now = self.site.service.clock.now()
        self.scheduler.state.override(self.scheduler.roster.jobs[job_id], False, now, now)  # it takes any place
        self.site.go_on(lambda: self.site.runs(job_id))
        pace_s = together_s if len(self.racks(job_id)) == 1 else apart_s
        with (self.folder / "train").open("ab") as printed:
            environment = {**os.environ, "TRAINING_PRINTS": "lines"}
            loop = training_loop.command(pace_s, pace_s)
            self.loops.append(subprocess.Popen(loop, stdout=printed, env=environment))
        return job_id

    def block(self, pods: int, leaves: list[str]) -> None:
        """A job on all nodes but these."""
        body = job("blocker", pods, 8, None, expected="600")
        others = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": leaves}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [others]}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        body["spec"]["template"]["spec"]["affinity"] = affinity
        self.kube.admin.post(JOBS, body)
        self.site.go_on(lambda: self.site.runs("default.job.blocker"))

    def racks(self, job_id: str) -> set[int]:
        nodes = self.site.daemon.status.by_id[job_id].placement
        return {(int(name.removeprefix("n")) - 1) // 4 for name in nodes}

    def measured(self, job_id: str) -> bool:
        followed = self.scheduler.progress._followed.get(job_id)
        return followed is not None and followed.measured_s > 0.0

    def slowdown_apart(self, job_id: str) -> float:
        """What the scheduler believes of the job across racks, against the best place."""
        speed, one = self.scheduler.state.speed, self.scheduler.roster.jobs[job_id]
        return speed.slowdown(one, make_allocation(2, [(3, 8), (4, 8)]))[0] / speed.best(one)

    def end(self, job_id: str) -> None:
        for loop in self.loops:
            loop.kill()
        self.kube.admin.call("DELETE", f"{JOBS}/train", {"propagationPolicy": "Background"})
        self.site.go_on(lambda: job_id not in self.scheduler.roster.jobs and not self.site.pods("train"))

    def close(self) -> None:
        for loop in self.loops:
            loop.kill()
            loop.wait()
        self.site.service.close()


@pytest.fixture
def trains(kube: KubeCluster, kubelet: Kubelet, tmp_path: Path) -> Iterator[Trains]:
    setup = Setup("dally", network="slow", network_settings={"oversubscription": "8"}, preempt={"usual": "no"})
    made = Trains(kube, tmp_path, setup)
    yield made
    made.close()


def test_steps_that_a_pod_prints_are_on_its_status(trains: Trains) -> None:
    job_id = trains.train(0.05, 0.05)
    began_s = time.monotonic()
    trains.site.go_on(lambda: trains.site.daemon.status.by_id[job_id].step, 40.0)
    print(f"its first step was known {time.monotonic() - began_s:.1f} s after its loop began")
    trains.site.go_on(lambda: trains.site.daemon.status.by_id[job_id].end_s, 60.0)
    line = trains.site.daemon.status.by_id[job_id]
    assert line.step is not None
    assert 0 < line.step < 4000
    assert line.total_steps == 4000


def test_printed_steps_teach_to_keep_a_job_together(kube: KubeCluster, trains: Trains) -> None:
    first = trains.train(0.05, 0.15)
    before = trains.slowdown_apart(first)
    assert len(trains.racks(first)) == 1
    trains.site.go_on(lambda: trains.measured(first), 60.0)
    trains.end(first)
    trains.block(len(kube.nodes) - 2, ["n04", "n05"])  # one of each of two racks is left
    second = trains.train(0.05, 0.15)
    assert len(trains.racks(second)) == 2
    trains.site.go_on(lambda: trains.measured(second), 60.0)
    trains.end(second)
    third = trains.post()
    assert trains.slowdown_apart(third) > before + 0.2
    for _ in range(5):
        trains.site.cycle()
    assert not trains.site.runs(third)  # though two nodes are free
