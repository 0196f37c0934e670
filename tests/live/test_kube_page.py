"""docs/kubernetes.md and deploy/kubernetes are what a server and the daemon take."""

from __future__ import annotations

import re
import subprocess
from dataclasses import fields
from pathlib import Path

import yaml

from dally.live.backends.kubernetes import KubeOptions, names, read_options
from dally.live.config import read_config
from tests.live.kube_cluster import ROOT, KubeCluster

PAGE = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
DEPLOY = ROOT / "deploy" / "kubernetes"


def test_a_server_takes_the_manifests(kube: KubeCluster) -> None:
    (line,) = re.findall(r"^kubectl (apply .*)$", PAGE, re.MULTILINE)
    command = [str(kube.folder / "bin" / "kubectl"), "--kubeconfig", kube.config, *line.split(), "--dry-run=server"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "deployment.apps/dally created" in done.stdout


def test_configurations_can_be_read(tmp_path: Path) -> None:
    shown = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    entries = yaml.safe_load_all((DEPLOY / "dally.yaml").read_text())
    mounted = [entry["data"]["dally.toml"] for entry in entries if entry["kind"] == "ConfigMap"]
    assert (len(shown), len(mounted)) == (2, 1)
    for text in (*shown, *mounted):
        path = tmp_path / "dally.toml"
        path.write_text(text)
        read_options(read_config(path).kubernetes)


def test_every_option_and_annotation_is_explained() -> None:
    rows = " ".join(re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE))
    assert [item.name for item in fields(KubeOptions) if f"`{item.name}`" not in rows] == []
    assert [fact for fact in names.FACTS if f"`dally.io/{fact}: " not in rows] == []
