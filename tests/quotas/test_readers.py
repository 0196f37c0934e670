"""Kueue's, KAI's and Slurm's own files, told by their content and read as one tree of queues."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable
from math import log
from pathlib import Path
from typing import Any

import pytest

from dally.cli.main import exit_code
from dally.errors import InputError
from dally.job_spec import JobSpec
from dally.model import INFINITY, Job
from dally.quotas.known_formats import FORMATS, detect, read_quotas
from dally.quotas.toml_file import parse_queues, to_toml
from dally.quotas.tree import Budget, QueueTree, Quota
from tests.quotas.test_toml_file import EXAMPLE

A100 = "NVIDIA-A100-SXM4-80GB"
FILE = Path("file")
KUEUE = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata:
  name: a100
spec:
  nodeLabels:
    nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata:
  name: v100
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata:
  name: research
spec:
  parentName: all
  fairSharing:
    weight: "3"
  resourceGroups:
  - coveredResources: ["nvidia.com/gpu"]
    flavors:
    - name: a100
      resources:
      - name: nvidia.com/gpu
        nominalQuota: 8
        lendingLimit: 4
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata:
  name: nlp
spec:
  cohortName: research
  namespaceSelector: {}
  preemption:
    reclaimWithinCohort: Any
  fairSharing:
    weight: 500m
  resourceGroups:
  - coveredResources: ["cpu", "nvidia.com/gpu"]
    flavors:
    - name: a100
      resources:
      - name: cpu
        nominalQuota: "200"
      - name: nvidia.com/gpu
        nominalQuota: 24
        borrowingLimit: 16
        lendingLimit: 8
    - name: v100
      resources:
      - name: cpu
        nominalQuota: "100"
      - name: nvidia.com/gpu
        nominalQuota: 8
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata:
  name: vision
spec:
  cohort: research
  stopPolicy: Hold
  resourceGroups:
  - coveredResources: ["nvidia.com/gpu"]
    flavors:
    - name: a100
      resources:
      - name: nvidia.com/gpu
        nominalQuota: 8
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata:
  name: user-queue
  namespace: team-nlp
spec:
  clusterQueue: nlp
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata:
  name: pictures
  namespace: team-vision
spec:
  clusterQueue: vision
"""
KAI = """\
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata:
  name: research
spec:
  reclaimMinRuntime: 15m
  resources:
    gpu:
      quota: -1
      limit: -1
      overQuotaWeight: 1
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata:
  name: nlp
spec:
  parentQueue: research
  priority: 150
  resources:
    cpu:
      quota: -1
      limit: -1
      overQuotaWeight: 1
    gpu:
      quota: 16
      limit: 24
      overQuotaWeight: 3
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata:
  name: vision
spec:
  parentQueue: research
  reclaimMinRuntime: 1h30m0s
  resources:
    gpu:
      quota: 8
      limit: -1
      overQuotaWeight: 0
"""
# As sacctmgr 22.05 prints them: `show assoc tree -P`, `show assoc -P format=…`, `show qos -P`.
TREE = """\
Cluster|Account|User|Partition|Share|Priority|GrpJobs|GrpTRES|GrpSubmit|GrpWall|GrpTRESMins|MaxJobs|MaxTRES|QOS
lab|root|||1|||||||||normal
lab| root|root||1|||||||||normal
lab| prod|||60||||||||gres/gpu=8|normal
lab|  prod|news||1||||||||gres/gpu=8|normal
lab| research|||40|||||||||normal
lab|  research|bin||1|||||||||normal
lab|  nlp|||3|||cpu=100,gres/gpu=16|||gres/gpu=60000|||normal
lab|   nlp|ada||2|||||||||normal
lab|   nlp|bob||parent|||||||||normal
lab|  vision|||0|||gres/gpu:a100=4,gres/gpu:v100=-1||||||normal
"""
NAMED = """\
Cluster|Account|User|ParentName|Share|GrpTRES|MaxTRES|GrpTRESMins|QOS
lab|root|||1||||normal
lab|prod||root|60||||normal
lab|nlp||research|3||||normal
lab|research||root|40||||normal
"""
QOS = """\
Name|Priority|GraceTime|Preempt|PreemptExemptTime|PreemptMode|GrpTRES|GrpTRESMins|MaxTRES|MaxTRESPU
normal|0|00:00:00|||cluster||||
high|100|00:00:00|normal|01:30:00|requeue|gres/gpu=4|||gres/gpu=2
"""


def read(text: str) -> QueueTree:
    return FORMATS[detect(FILE, text)](FILE, text)


def job(**facts: Any) -> Job:
    return Job(0, "j", 0.0, 1, 10.0, spec=JobSpec(1, **facts))


def test_kueue() -> None:
    tree = read(KUEUE)
    assert [*tree.nodes] == ["all", "all/research", "all/research/nlp", "all/research/vision"]
    nlp, vision = tree.nodes["all/research/nlp"], tree.nodes["all/research/vision"]
    assert nlp.quotas == {A100: Quota(24.0, 40.0, 8.0), "v100": Quota(8.0)}
    assert nlp.weight == 0.5
    assert vision.hold
    assert vision.quotas == {A100: Quota(8.0), "v100": Quota(0.0, 0.0)}  # it lists no V100
    # A cohort's quota comes on top of its queues'; the topmost has nobody to borrow from.
    assert tree.nodes["all/research"].quotas == {A100: Quota(40.0, INFINITY, 4.0)}
    assert tree.nodes["all"].quotas == {A100: Quota(40.0, 40.0), "v100": Quota(8.0, 8.0)}
    assert tree.nodes["all/research"].weight == 3.0
    assert tree.queue_of(job(queue="user-queue")) == "all/research/nlp"
    assert tree.queue_of(job(queue="vision")) == "all/research/vision"
    assert len(tree.notes) == 2


def test_kueue_lists_in_json_are_the_same() -> None:
    import yaml

    documents = list(yaml.safe_load_all(KUEUE))
    whole = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}, indent=4)
    assert to_toml(read(whole)) == to_toml(read(KUEUE))


def test_kueue_without_a_cohort_and_with_queues_of_one_name() -> None:
    def queue(name: str) -> str:
        resources = "[{name: nvidia.com/gpu, nominalQuota: 8}]"
        flavors = f"[{{name: default-flavor, resources: {resources}}}]"
        spec = f"{{resourceGroups: [{{flavors: {flavors}}}], fairSharing: {{weight: {len(name) - 1}}}}}"
        local = f"kind: LocalQueue\nmetadata: {{name: jobs, namespace: ns-{name}}}\nspec: {{clusterQueue: {name}}}"
        return f"kind: ClusterQueue\nmetadata: {{name: {name}}}\nspec: {spec}\n---\n{local}\n---\n"

    tree = read(queue("a") + queue("bb"))
    assert tree.nodes["a"].quotas == tree.nodes["bb"].quotas == {"": Quota(8.0, 8.0)}
    assert (tree.nodes["a"].weight, tree.nodes["a"].priority, tree.nodes["bb"].priority) == (1.0, -1.0, 0.0)
    assert tree.queue_of(job(queue="jobs", account="ns-bb")) == "bb"


def test_kai() -> None:
    tree = read(KAI)
    assert [*tree.nodes] == ["research", "research/nlp", "research/vision"]
    assert tree.nodes["research"].quotas == {}
    assert tree.nodes["research/nlp"].quotas == {"": Quota(16.0, 24.0)}
    assert tree.nodes["research/vision"].quotas == {"": Quota(8.0, 8.0)}
    assert [node.weight for node in tree.nodes.values()] == [1.0, 3.0, 1.0]
    assert [node.priority for node in tree.nodes.values()] == [100.0, 150.0, 100.0]
    assert [node.min_runtime_s for node in tree.nodes.values()] == [900.0, 900.0, 5400.0]
    assert tree.queue_of(job(queue="nlp")) == "research/nlp"


def test_slurm_associations() -> None:
    tree = read(TREE)
    leaves = ["root", "prod/news", "research/bin", "research/nlp/ada", "research/nlp/bob", "research/vision"]
    assert tree.leaves() == leaves
    nlp = tree.nodes["research/nlp"]
    assert (nlp.weight, nlp.quotas) == (3.0, {"": Quota(limit=16.0)})
    assert nlp.budget == Budget(1000.0, 7 * 86400.0 / log(2.0))
    assert tree.nodes["research/nlp/ada"].weight == 2.0
    assert tree.nodes["research/vision"].quotas == {"a100": Quota(limit=4.0)}
    assert tree.nodes["research/vision"].priority == -1.0
    assert tree.queue_of(job(account="nlp", user="bob")) == "research/nlp/bob"
    assert tree.queue_of(job(account="vision", user="bob")) == "research/vision"
    assert tree.queue_of(job(account="prod", user="bob")) == ""
    assert len(tree.notes) == 4


def test_slurm_parents_by_name_and_not_at_all() -> None:
    assert [*read(NAMED).nodes] == ["prod", "research", "research/nlp"]
    flat = read(NAMED.replace("|ParentName|", "|Other|"))
    assert [*flat.nodes] == ["prod", "nlp", "research"]
    assert "show assoc tree -P" in flat.notes[0]


def test_slurm_qos() -> None:
    tree = read(QOS)
    high = tree.nodes["high"]
    assert (high.priority, high.min_runtime_s, high.quotas) == (100.0, 5400.0, {"": Quota(limit=4.0)})
    assert tree.queue_of(job(qos="normal")) == "normal"
    assert len(tree.notes) == 2


@pytest.mark.parametrize("text", [KUEUE, KAI, TREE, NAMED, QOS])
def test_converted_and_read_again(text: str) -> None:
    tree = read(text)
    again = parse_queues(FILE, to_toml(tree))
    assert [{**vars(node), "line": 0} for node in again.nodes.values()] == [
        {**vars(node), "line": 0} for node in tree.nodes.values()
    ]


@pytest.mark.parametrize(
    ("text", "old", "new", "said"),
    [
        (
            KUEUE,
            "ota: 24",
            "ota: many",
            "file:50: nlp: spec.resourceGroups.flavors.resources.nominalQuota: 'many': must",
        ),
        (
            KUEUE,
            "Limit: 16",
            "Limit: -1",
            "file:51: nlp: spec.resourceGroups.flavors.resources.borrowingLimit: '-1': m",
        ),
        (
            KUEUE,
            "parentName: all",
            "parentName: research",
            "file:14: cohort research: belongs to cohort research: a",
        ),
        (KUEUE, "weight: 500m", "weight: -1", "file:41: nlp: spec.fairSharing.weight: '-1': must not be negative"),
        (KUEUE, "  name: a100\n", "  uid: x\n", "file:4: metadata.name: missing: every object has one"),
        (KUEUE, "metadata:\n  name: a100", "metadata: 3", "file:3: metadata: '3': must be a mapping of fields"),
        (
            KAI,
            "quota: 16",
            "quota: -2",
            "file:26: nlp: spec.resources.gpu.quota: '-2': must not be negative, except",
        ),
        (KAI, "limit: 24", "limit: 4", "file:13: nlp: limit: 4: below the quota of 16"),
        (KAI, "Queue: research", "Queue: gone", "file:18: nlp: spec.parentQueue: 'gone': no such queue"),
        (KAI, "1h30m0s", "soon", "file:36: vision: spec.reclaimMinRuntime: 'soon': must be a length of time"),
        (TREE, "gres/gpu=16", "gres/gpu=x", "file:8: GrpTRES: 'gres/gpu=x': must be like gres/gpu=8"),
        (TREE, "|3|", "|three|", "file:8: Share: 'three': must be a whole number"),
        (TREE, "lab| prod|||", "lab|prod|", "file:4: 12 fields where the heading has 14"),
        (TREE, "lab| prod|", "lab2| prod|", "file:2: Cluster: several: lab, lab2"),
        (
            TREE,
            "lab| prod|",
            f"{QOS}lab| prod|",
            "file:4: a second heading: give associations and QOS in a file each",
        ),
        (NAMED, "|research||root", "|research||nlp", "file:4: ParentName: 'nlp' is above itself"),
        (QOS, QOS[QOS.index("normal") :], "", "file: holds a heading only"),
        (QOS, "Name|", "", "file: is not a file of queues: expected queues.toml"),
    ],
)
def test_refused_with_the_place(text: str, old: str, new: str, said: str) -> None:
    assert old in text
    with pytest.raises(InputError) as error:
        read(text.replace(old, new, 1))
    assert str(error.value).startswith(said)


@pytest.fixture
def dally(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(tmp_path)
        code = exit_code(arguments)
        told = capfd.readouterr()
        return subprocess.CompletedProcess(arguments, int(code or 0), told.out, told.err)

    return run


def test_the_command(dally: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path) -> None:
    (tmp_path / "kueue.yaml").write_text(KUEUE)
    shown = dally("queues", "kueue.yaml")
    assert "    nlp" in shown.stdout
    assert "held" in shown.stdout
    assert "preemption: not read" in shown.stderr
    assert dally("queues", "kueue.yaml", "--out", "q.toml").stdout == "q.toml: 4 queues, 2 of them with jobs\n"
    assert dally("queues", "q.toml", "--to", "toml").stdout == (tmp_path / "q.toml").read_text()
    record = json.loads(dally("queues", "q.toml", "--json").stdout)["queues"][2]
    assert record["quotas"][A100] == {"guarantee": 24.0, "limit": 40.0, "lend_limit": 8.0}
    assert record["quotas"]["v100"]["limit"] is None
    assert dally("queues", "q.toml", "--to", "yaml").returncode == 2
    assert dally("queues", "q.toml", "--format", "xml").returncode == 2
    (tmp_path / "q.toml").write_text("[accounts]\nmake = 'user'\nunder = 'people'\n")
    assert "and a queue for each user of the jobs below people" in dally("queues", "q.toml").stdout
    assert read_quotas(tmp_path / "q.toml").makes is not None


BITS = (
    '"',
    "{",
    "]",
    "\n",
    "|",
    "-1",
    "1e400",
    "nan",
    "/",
    "",
    "null",
    "*",
    " ",
    "\t",
    "#",
    ":",
    "9" * 20,
    "\x85",
    "---\n",
)


def test_damaged_files_give_a_tree_or_an_input_error() -> None:
    whole = 0
    for number in range(400):
        rng = random.Random(number)
        text = rng.choice((KUEUE, KAI, TREE, NAMED, QOS, EXAMPLE))
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice(BITS) + text[at + rng.choice((0, 1, 3, 20)) :]
        try:
            tree = read(text)
        except InputError:
            continue
        if tree.nodes:
            again = parse_queues(FILE, to_toml(tree))
            assert [*again.nodes] == [*tree.nodes]
            whole += 1
    assert whole > 20
