"""`dally collective` and `dally predict`, and how they read sizes and placements."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dally import Cluster, collective_time
from dally.cli.cluster.network import read_placement, read_size
from dally.cli.main import app
from dally.cluster.links import Links, connect
from dally.cluster.presets import find_preset
from dally.cluster.topology import grid
from dally.errors import InputError


def run(*words: str) -> str:
    result = CliRunner().invoke(app, list(words))
    if result.exception is not None:
        raise result.exception
    return result.output


def test_collective_agrees_with_python() -> None:
    found = json.loads(
        run(
            "collective", "all-reduce", "--bytes", "100MB", "--cluster", "2x4x8", "--network", "normal",
            "--placement", "8+8", "--algorithm", "ring", "--json",
        )
    )  # fmt: skip
    topology = grid(2, 4, 8)
    cluster = Cluster(topology, connect(topology, find_preset("normal")))
    assert found["time_s"] == collective_time(cluster, "all-reduce", 1e8, {0: 8, 1: 8}, "ring")
    assert found["tier"] == "rack"
    assert set(found["link_s"]) == {"machine rack0-m0", "machine rack0-m1"}


def test_batch(tmp_path: Path) -> None:
    queries = tmp_path / "queries.csv"
    queries.write_text("collective,bytes,placement,tier\nall-reduce,1MB,8+8,\nall-to-all,64MiB,0:4+5:4,\n")
    words = ["collective", "--batch", str(queries), "--cluster", "2x4x8", "--network", "slow"]
    rows = json.loads(run(*words, "--json"))
    assert [row["tier"] for row in rows] == ["rack", "network"]
    assert "all-to-all" in run(*words)
    queries.write_text("collective,bytes,placement\nall-reduce,1MB,8+8\nall-reduce,lots,8+8\n")
    with pytest.raises(InputError, match=r"queries.csv:3: --bytes lots"):
        run(*words)
    queries.write_text("collective,bytes\nall-reduce,1MB\n")
    with pytest.raises(InputError, match=r"queries.csv:1: placement"):
        run(*words)


def test_predict_against_the_closest_placement() -> None:
    words = [
        "predict", "--compute-s", "0.1", "--bytes", "1.3GB", "--cluster", "2x4x8", "--network", "slow",
        "--json",
    ]  # fmt: skip
    near = json.loads(run(*words, "--placement", "8"))
    rack = json.loads(run(*words, "--placement", "4+4"))
    busy = json.loads(run(*words, "--placement", "4+4", "--tier", "network", "--congestion", "0.5"))
    assert near["slowdown"] == pytest.approx(1.0)
    assert 1.0 < rack["slowdown"] < busy["slowdown"]
    assert rack["iteration_s"] == pytest.approx(0.1 + rack["exposed_s"])
    assert "slowdown" in run(*words[:-1], "--placement", "8")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["collective", "all-reduce", "--placement", "8+8", "--network", "slow"], "--bytes is missing"),
        (["collective", "all-reduce", "--bytes", "1MB", "--placement", "8+8"], "--network is missing"),
        (["collective", "all-reduce", "--bytes", "1MB", "--placement", "8+x", "--network", "slow"], r"8\+x"),
        (
            ["collective", "all-reduce", "--bytes", "1MB", "--placement", "9", "--network", "slow"],
            "no such machines",
        ),
        (["predict", "--placement", "8+8", "--network", "slow"], "--model is missing"),
        (
            ["predict", "--placement", "8", "--network", "slow", "--compute-s", "1", "--bytes", "-1"],
            "--bytes -1",
        ),
    ],
)
def test_bad_input_names_field_and_value(words: list[str], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        run(*words, "--cluster", "2x4x8")


@pytest.mark.parametrize(
    ("text", "nbytes"), [("100MB", 1e8), ("64MiB", 2**26), ("1.5 gb", 1.5e9), ("12", 12), ("1e6", 1e6)]
)
def test_sizes(text: str, nbytes: float) -> None:
    assert read_size(text) == nbytes


@pytest.mark.parametrize(
    ("text", "tier", "placement"),
    [
        ("8", "", {0: 8}),
        ("8+8", "", {0: 8, 1: 8}),
        ("8+8", "network", {0: 8, 4: 8}),
        ("4+4+4", "network", {0: 4, 4: 4, 1: 4}),
        ("8+8+8+8+8", "", {0: 8, 1: 8, 2: 8, 3: 8, 4: 8}),
        ("3:1+7:8", "", {3: 1, 7: 8}),
    ],
)
def test_placements(text: str, tier: str, placement: dict[int, int]) -> None:
    assert read_placement(text, connect(grid(2, 4, 8), Links()), tier) == placement
