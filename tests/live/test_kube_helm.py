"""deploy/helm renders what deploy/kubernetes has, and what a server and the daemon take."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from dally import __version__
from dally.live.backends.kubernetes import read_options
from dally.live.config import read_config
from tests.live.helm_subset import Template, merged, render
from tests.live.kube_cluster import ROOT, KubeCluster, until

CHART = ROOT / "deploy" / "helm" / "dally"
PLAIN = ROOT / "deploy" / "kubernetes"
FEATURES = yaml.safe_load((CHART / "values.yaml").read_text())["features"]
ALL: dict[str, Any] = {"features": dict.fromkeys(FEATURES, True)}
NONE: dict[str, Any] = {"features": dict.fromkeys(FEATURES, False)}
TWO: dict[str, Any] = {"replicas": 2, "storeSecret": "dally-store", "tolerations": [{"operator": "Exists"}]}
OPTIONS: dict[str, Any] = {
    "kubernetes": {"preset": "nvidia", "force": True},
    "config": {"settings.share": "0.1"},
    "features": {"kueue": True},
}


def named(entries: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(entry["kind"], entry["metadata"]["name"]): entry for entry in entries}


def plain() -> dict[tuple[str, str], dict[str, Any]]:
    files = [PLAIN / name for name in yaml.safe_load((PLAIN / "kustomization.yaml").read_text())["resources"]]
    return named([entry for path in files for entry in yaml.safe_load_all(path.read_text())])


def test_it_makes_what_the_kustomization_makes() -> None:
    """Roles are the same word for word; of the Deployment all that the chart does not add."""
    chart, expected = named(render(CHART, ALL)), plain()
    bindings = {key for key in chart if key[0] == "ClusterRoleBinding"}
    assert chart.keys() - bindings == expected.keys() - {
        ("Namespace", "dally"),
        ("ClusterRoleBinding", "dally-scheduler"),
    }
    same = ("ClusterRole", "Role", "RoleBinding", "Service", "ServiceAccount", "PersistentVolumeClaim")
    for key, entry in expected.items():
        if key[0] in same or key == ("ClusterRoleBinding", "dally-scheduler"):
            assert chart[key] == entry
    rendered, deployed = (found["Deployment", "dally"]["spec"] for found in (chart, expected))
    pod = rendered["template"]["spec"]
    assert (pod.pop("nodeSelector"), pod.pop("tolerations")) == ({}, [])
    assert pod["containers"][0].pop("imagePullPolicy") == "IfNotPresent"
    del rendered["template"]["metadata"]["annotations"]
    assert rendered == deployed


def test_features_are_rights() -> None:
    roles = {name for kind, name in named(render(CHART, NONE)) if kind == "ClusterRole"}
    assert roles == {"dally-scheduler"}
    usual = {name for kind, name in named(render(CHART, {})) if kind == "ClusterRoleBinding"}
    assert usual == {"dally-scheduler"} | {f"dally-{name}" for name, on in FEATURES.items() if on}
    elsewhere = render(CHART, ALL, "gpus")
    spaces = {entry["metadata"].get("namespace") for entry in elsewhere}
    spaces |= {one["namespace"] for entry in elsewhere for one in entry.get("subjects", ())}
    assert spaces == {None, "gpus"}


def test_two_replicas_share_a_database() -> None:
    found = named(render(CHART, TWO))
    deployment = found["Deployment", "dally"]["spec"]
    (container,) = deployment["template"]["spec"]["containers"]
    assert (deployment["replicas"], deployment["strategy"]["type"]) == (2, "RollingUpdate")
    assert container["args"][-2:] == ["--store", "$(DALLY_STORE)"]
    secret = {"name": "dally-store", "key": "url"}
    assert {"name": "DALLY_STORE", "valueFrom": {"secretKeyRef": secret}} in container["env"]
    assert {"name": "state", "emptyDir": {}} in deployment["template"]["spec"]["volumes"]
    assert ("PersistentVolumeClaim", "dally") not in found


@pytest.mark.parametrize(
    ("changes", "right"),
    [
        ({}, True),
        (ALL, True),
        (TWO, True),
        (OPTIONS, True),
        ({"replicas": 2}, False),
        ({"features": {"gate": True}}, False),
        ({"kubernetes": {"kueue": "true"}}, False),
        ({"replica": 2}, False),
    ],
)
def test_values_are_checked(changes: dict[str, Any], right: bool) -> None:
    """By the schema, as Helm does before it renders anything."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    values = merged(yaml.safe_load((CHART / "values.yaml").read_text()), changes)
    assert jsonschema.Draft7Validator(schema).is_valid(values) == right


def test_the_daemon_reads_its_configuration(tmp_path: Path) -> None:
    text = named(render(CHART, OPTIONS, "gpus"))["ConfigMap", "dally"]["data"]["dally.toml"]
    path = tmp_path / "dally.toml"
    path.write_text(text)
    config = read_config(path)
    options = read_options(config.kubernetes)
    assert (options.lease_namespace, options.preset, options.force, options.kueue) == ("gpus", "nvidia", True, True)
    assert (config.backend, config.setup.policy, config.setup.settings) == ("kubernetes", "dally", {"share": "0.1"})


def test_a_server_takes_it(kube: KubeCluster) -> None:
    for changes in ({}, ALL, {**TWO, **OPTIONS}):
        text = yaml.safe_dump_all(render(CHART, changes))
        command = [str(kube.folder / "bin" / "kubectl"), "--kubeconfig", kube.config, "apply", "--dry-run=server"]
        done = subprocess.run([*command, "-f", "-"], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "deployment.apps/dally created" in done.stdout


def test_an_upgrade_of_two_replicas_comes_to_its_end(kube: KubeCluster) -> None:
    """Of its daemons only one is ready, and none of the new ones before the old one has given way."""
    deployment = named(render(CHART, TWO))["Deployment", "dally"]
    template = deployment["spec"]["template"]["spec"]
    template.update(schedulerName="none", serviceAccountName="default", priorityClassName="")
    folder, pods = "/apis/apps/v1/namespaces/dally/deployments", "/api/v1/namespaces/dally/pods"
    kube.admin.post(folder, deployment)

    def is_done(image: str) -> bool:
        found = [one for one in kube.admin.get(pods)["items"] if "deletionTimestamp" not in one["metadata"]]
        if found and not any(_is_ready(one) for one in found):  # the lease is free
            first = min(found, key=lambda one: one["metadata"]["creationTimestamp"])
            status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            kube.admin.patch(f"{pods}/{first['metadata']['name']}/status", {"status": status})
        return len(found) == 2 and {one["spec"]["containers"][0]["image"] for one in found} == {image}

    try:
        until(lambda: is_done("dally:latest"))
        (container,) = template["containers"]
        container["image"] = "dally:next"
        changed = {"spec": {"template": {"spec": {"containers": [container]}}}}
        kube.admin.patch(f"{folder}/dally", changed)
        until(lambda: is_done("dally:next"))
    finally:
        kube.admin.delete(f"{folder}/dally", {"propagationPolicy": "Background"})
        until(lambda: not kube.admin.get(pods)["items"])


def _is_ready(pod: dict[str, Any]) -> bool:
    rows = (pod.get("status") or {}).get("conditions") or ()
    return any((row["type"], row["status"]) == ("Ready", "True") for row in rows)


def test_the_chart_is_of_this_version() -> None:
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (about["apiVersion"], about["name"], about["version"], about["appVersion"]) == (
        "v2", "dally", __version__, __version__,
    )  # fmt: skip


def test_the_renderer_refuses_what_it_does_not_know() -> None:
    """So that no template says more than it is tested for."""
    scope = {"Values": {"on": True, "off": "", "map": {"b": 1, "a": "x"}}, "Release": {"Namespace": "n"}}
    text = "{{- if .Values.on }}\nyes {{ .Release.Namespace | quote }}\n{{- else }}\nno\n{{- end }}"
    assert Template(text).render(scope) == '\nyes "n"'
    assert Template("{{ if not .Values.off }}1{{ else }}2{{ end }}").render(scope) == "1"
    assert (
        Template("{{ range $k, $v := .Values.map }}{{ $k }}={{ $v | toJson }} {{ end }}").render(scope)
        == 'a="x" b=1 '
    )
    for strange in ("{{ .Values.map | toYaml }}", '{{ include "x" . }}', "{{ .Values.none }}"):
        with pytest.raises((AssertionError, KeyError)):
            Template(strange).render(scope)
