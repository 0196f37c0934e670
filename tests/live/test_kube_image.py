"""The image and the manifests on a fresh cluster: the daemon runs, answers probes, and schedules."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.kube_cluster import BUNDLE, PODS, ROOT, KubeCluster, kube_cluster, pod, until
from tests.live.kube_image import Image, missing
from tests.web.test_standby import free_port

ACCOUNT = "/api/v1/namespaces/dally/serviceaccounts/dally/token"
SECRETS = "var/run/secrets/kubernetes.io/serviceaccount"


def wheel() -> Path:
    """The one that `make install` has built; its path may also be in DALLY_WHEEL."""
    named = os.environ.get("DALLY_WHEEL")
    found = [Path(named)] if named else sorted((ROOT / ".venv" / "wheel").glob("*.whl"))
    if not found or missing() or not BUNDLE.exists():
        why = missing() or ("a wheel: make install" if not found else f"{BUNDLE}")
        pytest.skip(f"this needs {why}")
    return found[-1]


class Node:
    """Does what a kubelet does with the Deployment's pod."""

    def __init__(self, kube: KubeCluster, folder: Path, built: Path) -> None:
        self._kube, self._folder = kube, folder
        self.port = free_port()
        deployed = kube.admin.get("/apis/apps/v1/namespaces/dally/deployments/dally")["spec"]["template"]["spec"]
        (self._container,) = deployed["containers"]
        about = deployed["securityContext"]
        dockerfile = (ROOT / "Dockerfile").read_text()
        (extras,) = re.findall(r"--build-arg EXTRAS=(\S+)", dockerfile)
        (user,) = re.findall(r"^USER (\S+)$", dockerfile, re.MULTILINE)
        assert user == f"{about['runAsUser']}:{about['runAsGroup']}"
        assert re.findall(r"^ENTRYPOINT (.*)$", dockerfile, re.MULTILINE) == ['["dally"]']
        self.image = Image(folder, built, set(extras.split(",")), user)
        self._mounts = self._volumes(deployed, about["fsGroup"])
        self._service_account()

    def _volumes(self, deployed: dict[str, Any], group: int) -> dict[str, Path]:
        """The folders of its volumes, by where they are mounted."""
        where = {one["name"]: one["mountPath"] for one in self._container["volumeMounts"]}
        result: dict[str, Path] = {}
        for volume in deployed["volumes"]:
            path = self._folder / f"volume-{volume['name']}"
            path.mkdir()
            if "configMap" in volume:
                space = "/api/v1/namespaces/dally/configmaps"
                for name, text in self._kube.admin.get(f"{space}/{volume['configMap']['name']}")["data"].items():
                    (path / name).write_text(text.replace(":8642", f":{self.port}"))
            else:
                os.chown(path, 0, group)
                path.chmod(0o2775)
            result[where[volume["name"]]] = path
        return result

    def _service_account(self) -> None:
        """Its token and the server's certificate, where the daemon looks for them."""
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
        token = self._kube.admin.post(ACCOUNT, request)["status"]["token"]
        folder = self.image.root / SECRETS
        folder.mkdir(parents=True)
        (folder / "token").write_text(token)
        (folder / "namespace").write_text("dally")
        (folder / "ca.crt").write_bytes((self._kube.folder / "certs" / "apiserver.crt").read_bytes())

    def _environment(self) -> dict[str, str]:
        host, port = self._kube.admin.host.removeprefix("https://").split(":")
        stated = {one["name"]: one["value"] for one in self._container["env"]}
        server = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        return self.image.environment({**stated, **server})

    def start(self) -> subprocess.Popen[bytes]:
        """The container."""
        words = self.image.command(self._container["args"], self._mounts)
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(words, env=self._environment(), stdout=log, stderr=log, cwd="/")

    def log(self) -> str:
        return (self._folder / "log").read_text()

    def execute(self, *words: str) -> str:
        """`kubectl exec … -- dally …`."""
        command = self.image.command(list(words), self._mounts)
        done = subprocess.run(
            command, env=self._environment(), capture_output=True, text=True, check=False, cwd="/"
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def probe(self, path: str) -> int:
        """The answer's code; 0: there is none."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5.0) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    built = wheel()
    (tmp_path / "cluster").mkdir()
    with kube_cluster(tmp_path / "cluster", 4, controllers=False) as kube:
        (line,) = re.findall(r"^kubectl (apply .*)$", (ROOT / "docs/kubernetes.md").read_text(), re.MULTILINE)
        command = [str(kube.folder / "bin" / "kubectl"), "--kubeconfig", kube.config, *line.split()]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        (tmp_path / "node").mkdir(mode=0o755)
        yield Node(kube, tmp_path / "node", built)


@pytest.mark.once
def test_the_image_schedules_a_fresh_cluster(node: Node) -> None:
    """As its user, on a read-only root, with the service account's rights; SIGTERM ends it in time."""
    kube = node._kube
    daemon = node.start()
    try:
        until(lambda: node.probe("/readyz") == 200 or daemon.poll() is not None, 120.0)
        assert daemon.poll() is None, node.log()
        assert node.probe("/healthz") == 200
        labels = {"dally.io/gang": "first", "dally.io/gang-size": "2"}
        for number in range(2):
            kube.admin.post(PODS, pod(f"first-{number}", 8, labels=labels))
        until(lambda: all(one["spec"].get("nodeName") for one in kube.pods()), 60.0)
        until(lambda: "running" in node.execute("queue"), 60.0)
        assert (node._mounts["/var/lib/dally"] / "operator.token").exists()
        owners = {path.stat().st_uid for path in node._mounts["/var/lib/dally"].iterdir()}
        assert owners == {int(node.image._user.split(":")[0])}
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(60.0) == 0, node.log()
        for line in node.log().splitlines():
            json.loads(line)
    finally:
        daemon.kill()
        daemon.wait()
