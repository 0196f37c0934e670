"""`dally models`."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from dally.errors import InputError
from dally.perf.profiles import find_profile, shipped
from tests.cli.conftest import printed

run = partial(printed, "models")


def test_the_table_lists_every_model() -> None:
    text = run()
    for name in shipped().models:
        assert f" {name} " in text
    row = next(line for line in text.splitlines() if line.split()[:1] == ["resnet50"])
    shown = "resnet50 vision 25.6 M 102.2 MB 102.2 MB 9.7 MB 0.092 256 34.5 ms 69.1 ms 1 1 published"
    assert " ".join(row.split()) == shown
    assert "~89.5 ms" in text


def test_json_holds_the_same_as_the_profiles() -> None:
    records = json.loads(run("--json", "--gpu", "v100"))
    assert [record["name"] for record in records] == list(shipped().models)
    for record in records:
        profile = find_profile(record["name"], "v100")
        assert record["forward_s"] == profile.forward_s
        assert record["all_reduce_bytes"] == profile.all_reduce_bytes
        assert record["sources"] == profile.sources
        assert record["gpu"] == "v100"


def test_sources_names_every_figure() -> None:
    text = run("--sources")
    for figure in ("params", "gradient_bytes", "last_bucket_bytes", "skew", "batch", "compute", "parallelism"):
        assert f" {figure} " in text
    assert "Krizhevsky" in text


def test_models_without_times_on_a_gpu_are_named() -> None:
    text = run("--gpu", "rtx3090")
    assert "No times on rtx3090: alexnet, bert-base," in text
    assert " vgg16 " in text


def test_unknown_gpus_are_refused() -> None:
    with pytest.raises(InputError, match="unknown GPU type 'a10'; did you mean 'a100'"):
        run("--gpu", "a10")


def test_ones_own_catalogue_is_listed_too(tmp_path: Path) -> None:
    docs = Path(__file__).parents[2] / "docs" / "models.md"
    path = tmp_path / "mine.toml"
    path.write_text(docs.read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0], encoding="utf-8")
    names = [record["name"] for record in json.loads(run("--json", "--profiles", str(path)))]
    assert names == [*shipped().models, "our-ranker"]
