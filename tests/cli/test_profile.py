"""`dally profile`: what it refuses, and with torch (`make test-profile`) that what it measures can be used."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dally.cli.main import app
from dally.errors import InputError
from dally.perf.profiles import find_profile, load_profiles
from dally.profiling.measuring import short_name
from tests.cli.conftest import printed

MODULE = """
import torch
def build(batch):
    model = torch.nn.Linear(8, 4)
    return model, torch.randn(batch, 8), lambda model, x: model(x).sum()
def wrong(batch):
    return torch.nn.Linear(8, 4)
"""


run = partial(printed, "profile")


def test_built_in_models_are_listed() -> None:
    text = run("--list")
    assert "resnet50" in text
    assert "sequences of 2048 tokens" in text
    assert {"name": "gpt2-xl"}.items() <= json.loads(run("--list", "--json"))[14].items()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "give --model or --module"),
        (("--model", "resnet50", "--module", "a:b"), "give --model or --module"),
        (("--model", "resnet5O"), "did you mean 'resnet50'"),
        (("--model", "resnet50", "--precision", "fp8"), "--precision fp8: must be one of fp32, amp, bf16"),
        (("--model", "resnet50", "--batch", "0"), "--batch: give at least one"),
        (("--module", "a:b"), "--batch: give at least one"),
        (("--module", "a:b", "--batch", "1", "--kind", "audio"), "--kind audio: must be one of vision"),
        (("--module", "a:b", "--batch", "1", "--optimizer", "lion"), "--optimizer lion"),
    ],
)
def test_what_is_refused(words: tuple[str, ...], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        run(*words)


def test_without_torch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dally.extras.find_spec", lambda name: None)
    with pytest.raises(
        InputError, match=r"dally profile: torch is missing; pip install 'dally\[profile\]' brings it"
    ):
        run("--model", "tiny-mlp")


DIES = """
import json, os, sys
for question in map(json.loads, sys.stdin):
    if question["step"]["precision"] == "amp":
        os.abort()
    print(json.dumps({"measured": {"model": "tiny-mlp", "batch": 4, "precision": "fp32"}}), flush=True)
"""


def test_a_measurement_that_dies_is_an_error_and_the_others_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dally.extras.find_spec", lambda name: name)
    monkeypatch.setattr("dally.profiling.measuring.CHILD", (sys.executable, "-c", DIES))
    raw = tmp_path / "raw.jsonl"
    result = CliRunner().invoke(app, ["profile", "--model", "tiny-mlp", "--batch", "4", "--raw", str(raw)])
    assert result.exit_code == 1
    assert "dally: tiny-mlp: batch 4, amp: the process that measures was killed by SIGABRT\n" in result.stderr
    assert [json.loads(line)["precision"] for line in raw.read_text().splitlines()] == ["fp32"]


@pytest.mark.torch
def test_a_measured_model_is_ready_for_use(tmp_path: Path) -> None:
    mine, raw = tmp_path / "mine.toml", tmp_path / "raw.jsonl"
    words = ("--device", "cpu", "--steps", "3", "--out", str(mine), "--raw", str(raw))
    assert "tiny-mlp" in run("--model", "tiny-mlp", "--batch", "4", "--processes", "2", *words)
    profile = find_profile("tiny-mlp", "cpu", catalogue=load_profiles(mine))
    assert (profile.basis, profile.gradient_bytes, profile.batch) == ("measured", 12_636_200, 4)
    assert profile.timeline[-1][3] > profile.timeline[0][2] >= 0
    assert "# All-reduce among" in mine.read_text()
    assert [json.loads(line)["precision"] for line in raw.read_text().splitlines()] == ["fp32", "amp"]


@pytest.mark.parametrize("name", ["tiny-decoder", "tiny-mixture", "tiny-dlrm"])
@pytest.mark.torch
def test_every_kind_of_model_can_be_measured(name: str) -> None:
    told = json.loads(run("--model", name, "--device", "cpu", "--steps", "2", "--json"))["steps"]
    assert len(told) == 4
    for one in told:
        assert sum(nbytes for nbytes, _ in one["buckets"]) == pytest.approx(one["gradient_bytes"])
        assert one["gradient_bytes"] <= 4 * one["params"]
        assert one["flops"] > 0


@pytest.mark.torch
def test_models_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_model.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    words = ("--batch", "4", "--precision", "fp32", "--device", "cpu", "--steps", "2")
    told = json.loads(run("--module", "own_model:build", "--json", *words))["steps"][0]
    assert (told["model"], told["gradient_bytes"]) == ("own_model", 144)
    with pytest.raises(InputError, match=r"must return \(model, batch, loss\)"):
        run("--module", "own_model:wrong", *words)
    with pytest.raises(InputError, match="has no function 'nothing'"):
        run("--module", "own_model:nothing", *words)
    with pytest.raises(InputError, match="there is no module 'nowhere'"):
        run("--module", "nowhere:build", *words)


@pytest.mark.parametrize(
    ("told", "short"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("Tesla V100-SXM2-16GB", "v100"),
        ("NVIDIA GeForce RTX 3090", "rtx3090"),
        ("AMD Instinct MI300X", "mi300x"),
        ("Some Chip", "some-chip"),
    ],
)
def test_gpus_are_called_as_in_the_catalogue(told: str, short: str) -> None:
    assert short_name(told) == short
