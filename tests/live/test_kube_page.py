"""docs/kubernetes.md and deploy/kubernetes are what a server and the daemon take."""

from __future__ import annotations

import re
import shlex
import subprocess
from dataclasses import fields
from pathlib import Path

import yaml

from dally.live.backends.kubernetes import KubeOptions, names, read_options
from dally.live.config import read_config
from tests.live.kube_cluster import PODS, ROOT, KubeCluster, pod, until
from tests.live.kube_filters import kube_scheduler

PAGE = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
DEPLOY = ROOT / "deploy" / "kubernetes"


def test_a_server_takes_the_manifests(kube: KubeCluster) -> None:
    (line,) = re.findall(r"^kubectl (apply .*)$", PAGE, re.MULTILINE)
    command = [str(kube.folder / "bin" / "kubectl"), "--kubeconfig", kube.config, *line.split(), "--dry-run=server"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "deployment.apps/dally created" in done.stdout


def test_pods_that_wait_are_rolled_back(kube: KubeCluster, tmp_path: Path) -> None:
    """kube-scheduler takes them with the configuration of the page, and kubectl the command that opens gates."""
    (shown,) = re.findall(r"^  ```yaml\n(.*?)^  ```$", PAGE, re.DOTALL | re.MULTILINE)
    config = yaml.safe_load(shown)
    assert config.pop("apiVersion") == "kubescheduler.config.k8s.io/v1"  # the tests' server has a beta of it
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    kube.admin.post(PODS, pod("left", 8, tolerations=tolerations))
    with kube_scheduler(kube, tmp_path, **config):
        until(lambda: all(one["spec"].get("nodeName") for one in kube.pods()))
    (listing,) = re.findall(r"^  kubectl (get pods -A .*) \|$", PAGE, re.MULTILINE)
    command = [str(kube.folder / "bin" / "kubectl"), "--kubeconfig", kube.config, *shlex.split(listing)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_configurations_can_be_read(tmp_path: Path) -> None:
    shown = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    entries = yaml.safe_load_all((DEPLOY / "dally.yaml").read_text())
    mounted = [entry["data"]["dally.toml"] for entry in entries if entry["kind"] == "ConfigMap"]
    assert (len(shown), len(mounted)) == (3, 1)
    for text in (*shown, *mounted):
        path = tmp_path / "dally.toml"
        path.write_text(text)
        read_options(read_config(path).kubernetes)


def test_every_option_and_annotation_is_explained() -> None:
    rows = " ".join(re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE))
    assert [item.name for item in fields(KubeOptions) if f"`{item.name}`" not in rows] == []
    assert [fact for fact in names.FACTS if f"`dally.io/{fact}: " not in rows] == []


def test_the_deployment_keeps_the_restricted_standard() -> None:
    """What its namespace enforces, of which the tests' server knows nothing yet."""
    entries = {entry["kind"]: entry for entry in yaml.safe_load_all((DEPLOY / "dally.yaml").read_text())}
    assert entries["Namespace"]["metadata"]["labels"] == {"pod-security.kubernetes.io/enforce": "restricted"}
    pod = entries["Deployment"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    allowed = {"configMap", "emptyDir", "persistentVolumeClaim"}
    assert all(allowed & volume.keys() for volume in pod["volumes"])
    for container in pod["containers"]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        probes = [container[f"{kind}Probe"]["httpGet"] for kind in ("liveness", "readiness")]
        assert probes == [{"path": "/healthz", "port": "api"}, {"path": "/readyz", "port": "api"}]


def test_all_manifests_are_in_the_kustomization() -> None:
    listed = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())["resources"]
    examples = {"pytorchjob.yaml", "kustomization.yaml"}
    assert sorted(listed) == sorted({path.name for path in DEPLOY.glob("*.yaml")} - examples)
