"""The measured fabric: what is read, inferred and predicted of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.measured_fabric import crossings, report

from dally.perf.llm.accelerators import gpu_types
from dally.perf.llm.layout import Layout
from dally.perf.llm.step import LayoutModel
from dally.perf.llm.transformer import Transformer

SHAPE = Transformer(layers=8, hidden=1024, heads=8, kv_heads=8, ffn=4096, vocab=32000)


def test_crossings_are_the_whole_numbers_nearest_to_the_sum() -> None:
    assert crossings([(8, 100.0), (5, 7.0)], 2 * 100.0 + 3 * 7.0 + 1.0) == [2, 3]
    assert crossings([(1, 50.0)], 500.0) == [1]  # no more than its servers
    assert crossings([], 3.0) == []


def test_gradients_reduced_each_time_are_sent_each_time() -> None:
    model = LayoutModel(SHAPE, gpu_types()["A100"].at("bf16"), "bf16")
    added_up = Layout(gpus=16, seq=2048, global_batch=64)
    eager = added_up._replace(eager=True)
    rates = model.rates(added_up)
    assert added_up.micro_batches == 4
    assert model.traffic(eager, rates)["data"] == 4 * model.traffic(added_up, rates)["data"]
    assert model.step(eager).data_s > model.step(added_up).data_s


def test_the_hour_is_reproduced_as_far_as_it_says(shared: Path) -> None:
    if not (shared / "fabric").exists():
        pytest.skip("shared/fabric is not here")
    result = report(shared / "fabric")
    assert "2024 GPUs" in result["topology"]
    assert "4 rails, 120 uplinks" in result["topology"]
    known = [row for row in result["periodic"] if "unknown" not in row]
    assert [row["gang"] for row in known] == ["6", "8", "log"]
    assert all(abs(row["period_error"]) < 0.2 for row in known)
    assert all(abs(row["predicted_step_gb"] / row["step_gb"] - 1) < 0.2 for row in known if "step_gb" in row)
    assert len(result["shares"]) == 20
    assert all(abs(row["inferred"] - row["stays"]) < 0.05 for row in result["shares"])
    assert result["stays"] == pytest.approx(0.69, abs=0.01)
