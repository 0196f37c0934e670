"""The measured catalogue: it is what the command makes of the raw measurements, and profiles come from it."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from benchmarks import gloo, measured
from benchmarks.measured import key_of, read_records

import dally
from dally.errors import InputError
from dally.perf.catalogue import read_catalogue
from dally.perf.profiles import MEASURED, find_profile, load_profiles, shipped
from dally.profiling.builtin import BUILTINS
from dally.profiling.catalogue_text import About, catalogue_text, passes_s
from dally.profiling.measuring import append_record
from dally.runs.scenario import Scenario, read_scenario

NAMED = load_profiles(Path("measured"))


def test_the_catalogue_is_made_from_the_raw_measurements() -> None:
    assert MEASURED.read_text(encoding="utf-8") == measured.catalogue() + "\n"


def test_the_page_is_made_from_them() -> None:
    page = Path(measured.__file__).parents[1] / "docs" / "profiles.md"
    assert page.read_text(encoding="utf-8") == measured.page() + "\n", "python -m benchmarks.measured page"


def test_real_steps_over_limited_links_are_predicted() -> None:
    rows = read_rows("gloo.jsonl")
    assert {(row["processes"], row["mbit"]) for row in rows} == {
        (n, r) for n in gloo.WORLDS for r in gloo.RATES_MBIT
    }
    for row in rows:  # with the model as it is now, not as it was then
        step_s, _ = gloo.predicted_s(row["workers"], row["mbit"])
        assert step_s == pytest.approx(row["measured_s"], rel=0.2)


def read_rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (measured.RAW / name).read_text(encoding="utf-8").splitlines()]


def test_all_that_was_asked_for_is_measured_at_two_batches_and_both_precisions() -> None:
    done = {key_of(one) for one in measured.raw()}
    wanted = {
        (one.name, batch, precision)
        for one in BUILTINS.values()
        if not one.tiny
        for batch in one.batches
        for precision in one.precisions
    }
    assert done == wanted
    assert len(wanted) == 82


def test_a_second_measurement_agrees() -> None:
    first = {key_of(one): one for one in measured.raw()}
    again = read_records([measured.RAW / "h200-again.jsonl"])
    assert len({one["model"] for one in again}) == 5
    parts = ("forward_s", "backward_s")
    changes = [abs(sum(one[p] for p in parts) / sum(first[key_of(one)][p] for p in parts) - 1) for one in again]
    assert median(changes) <= 0.05


def test_nothing_is_faster_than_its_arithmetic() -> None:
    for one in measured.raw():
        step_s = one["forward_s"] + one["backward_s"]
        assert step_s >= one["flops"] / measured.PEAK_FLOPS[one["precision"]], key_of(one)
        assert step_s >= one["weight_bytes"] / measured.PEAK_BYTES, key_of(one)


@pytest.mark.parametrize("name", list(read_catalogue(MEASURED).models))
def test_profiles_of_it(name: str) -> None:
    on_h200, on_a100 = find_profile(name, "h200", catalogue=NAMED), find_profile(name, "a100", catalogue=NAMED)
    assert (on_h200.basis, on_a100.basis) == ("measured", "derived")
    assert on_a100.sources["compute"].startswith("estimate: h200 × ")
    ratio = on_a100.forward_s / on_h200.forward_s
    assert ratio > 1.5
    assert on_a100.optimizer_s == pytest.approx(on_h200.optimizer_s * ratio)
    step = on_h200.step(16)
    assert step.compute_s() == pytest.approx(on_h200.compute_s)
    assert sum(size for _, size, _, _ in step.stages) == pytest.approx(step.nbytes)
    assert on_h200.step(1).stages == ()


def test_published_profiles_stay_as_they_were() -> None:
    assert {find_profile(name, "h200").timeline for name in shipped().models} == {()}
    assert find_profile("resnet50").basis == "published"
    assert find_profile("mobilenet-v2", catalogue=NAMED) == find_profile("mobilenet-v2")
    assert find_profile("resnet", "h200", catalogue=NAMED).name == "resnet50"  # aliases stay


def record(**values: object) -> dict[str, object]:
    return next(one for one in measured.raw() if one["model"] == "resnet18") | values


def test_where_launching_takes_long_a_graph_counts() -> None:
    late = record(forward_s=2.0, backward_s=4.0, forward_spread=0.2, graph_s=3.0)
    assert passes_s(late) == (1.0, 2.0, True)
    assert passes_s(late | {"forward_spread": 0.02}) == (2.0, 4.0, False)
    assert passes_s(late | {"graph_s": None}) == (2.0, 4.0, False)


def test_the_usual_batch_is_one_at_which_the_host_was_not_late() -> None:
    assert find_profile("t5-base", "h200", catalogue=NAMED).batch == 64  # steps of 32 vary by 22 %
    assert find_profile("resnet50", "h200", catalogue=NAMED).batch == shipped().models["resnet50"].batch


def test_a_catalogue_of_ones_own(tmp_path: Path) -> None:
    raw = tmp_path / "raw.jsonl"
    append_record(raw, record(model="ours", gpu="cpu", graph_s=None))
    append_record(raw, {"model": "ours", "batch": 1, "precision": "amp", "error": "out of memory"})
    mine = tmp_path / "mine.toml"
    mine.write_text(catalogue_text(read_records([raw]), lambda _: About("vision", "images")), encoding="utf-8")
    profile = find_profile("ours", "cpu", catalogue=load_profiles(mine))
    assert (profile.basis, profile.gpu, len(profile.timeline) > 0) == ("measured", "cpu", True)


def test_raw_lines_that_are_wrong_are_named(tmp_path: Path) -> None:
    raw = tmp_path / "raw.jsonl"
    raw.write_text(json.dumps({"model": "x", "batch": 1}) + "\n")
    with pytest.raises(InputError, match=r"raw\.jsonl:1: precision: is missing"):
        read_records([raw])
    raw.write_text("{\n")
    with pytest.raises(InputError, match=r"raw\.jsonl:1: is no JSON"):
        read_records([raw])


@pytest.mark.parametrize(
    ("stages", "words"),
    [
        ("[[1, 0.5, 0.1, 0.2]]", "add up to 1"),
        ("[[1, 1.0, 0.3, 0.2]]", "in order from 0 to 1"),
        ("[[1, 1.0, 0.3]]", "each stage is"),
        ("3", "each stage is"),
    ],
)
def test_timelines_that_cannot_be(tmp_path: Path, stages: str, words: str) -> None:
    lines = measured.catalogue().splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("timeline"))
    lines[first] = f"timeline = {stages}"
    bad = tmp_path / "bad.toml"
    bad.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(InputError, match=rf"alexnet: compute\[0\]: timeline: .*{words}"):
        read_catalogue(bad)


def test_a_run_with_it_can_be_repeated(tmp_path: Path) -> None:
    examples = Path(measured.__file__).parents[1] / "examples"
    scenario = Scenario(
        trace=str(examples / "jobs.csv"),
        cluster="2x2x8",
        policy="fifo",
        network="slow",
        gpu="h200",
        profiles="measured",
    )
    assert scenario.file_fields().keys() == {"trace"}
    kept = tmp_path / "scenario.toml"
    kept.write_text(scenario.to_toml(), encoding="utf-8")
    assert read_scenario(kept).profiles == "measured"
    comm_s = [
        dally.simulate(scenario.trace, "2x2x8", "fifo", network="slow", gpu="h200", profiles=profiles).summary[
            "comm_s"
        ]
        for profiles in ("measured", str(MEASURED), "")
    ]
    assert comm_s[0] == comm_s[1] != comm_s[2]
