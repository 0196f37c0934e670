"""What jobs run is known from each backend, without secrets, and is no part of what others may read."""

from __future__ import annotations

from pathlib import Path

import pytest

from dally.cluster.topology import grid
from dally.job_spec import JobSpec
from dally.live.backends.base import Submission
from dally.live.backends.kubernetes.pod_record import pod_record
from dally.live.backends.local import LocalBackend
from dally.live.backends.stated_facts import LONGEST_COMMAND, command_line_of
from dally.web.routes.bodies import JobBody, JobRequest
from tests.live.test_slurm_records import job_of


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("python train.py --model bert", "python train.py --model bert"),
        ("train --hf-token hf_abc --lr 1", "train --hf-token --lr 1"),
        ("WANDB_API_KEY=123abc python a.py", "WANDB_API_KEY python a.py"),
        ("a --password=x y", "a --password y"),
        ("curl -H Authorization: Bearer abc123 --lr 1", "curl -H Authorization --lr 1"),
        ("git clone https://ann:pw@host/x", "git clone https://host/x"),
        ("sh -c a\0b", "sh -c ab"),  # PostgreSQL takes none
        ("x" * 1000, "x" * LONGEST_COMMAND),
        ("x" * 1_000_000, "x" * LONGEST_COMMAND),  # looked at in full, it would take hours
    ],
)
def test_secrets_are_left_out(text: str, kept: str) -> None:
    assert command_line_of(text) == kept


def test_backends_know_it(tmp_path: Path) -> None:
    backend = LocalBackend(tmp_path, grid(1, 1, 4))
    backend.submit(Submission(JobSpec(1), ("python", "train.py", "--arch", "vit")))
    (local,) = backend.snapshot().jobs
    backend.close()
    assert local.spec.command_line == "python train.py --arch vit"

    assert job_of(command="/home/ann/bert/train.sh").spec.command_line == "/home/ann/bert/train.sh"

    limits = {"resources": {"limits": {"nvidia.com/gpu": "8"}}}
    helper = {"name": "sidecar", "command": ["sleep"]}
    training = {"name": "main", "command": ["torchrun"], "args": ["train.py", 3], **limits}
    about = {"uid": "1", "namespace": "lab", "name": "a"}
    entry = {"metadata": about, "spec": {"containers": [helper, training]}, "status": {}}
    assert pod_record(entry, lambda *_: True).command_line == "torchrun train.py 3"
    entry["spec"] = {"containers": [{"name": "main", "image": "lab/llama:3", **limits}]}
    assert pod_record(entry, lambda *_: True).command_line == "lab/llama:3"


def test_others_do_not_read_it() -> None:
    assert "command_line" not in JobBody.model_fields
    assert "command_line" not in JobRequest.model_fields
