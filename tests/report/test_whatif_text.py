"""Sentences of a what-if."""

from __future__ import annotations

import pytest

from dally.report.question_text import saving_sentences
from dally.report.whatif_text import gpu_hours_caution


@pytest.mark.parametrize(
    ("recorded_h", "saved_h", "words"),
    [
        (811.1, 41.5, ["44.4 GPU-hours more than the record"]),
        (900.0, -41.5, ["44.5 GPU-hours fewer than the record"]),
        (811.1, -44.5, []),
        (855.5, 41.5, []),
        (811.1, 0.0, []),
        (None, 41.5, []),
    ],
)
def test_a_change_within_the_error_of_the_replay_is_not_to_be_quoted(
    recorded_h: float | None, saved_h: float, words: list[str]
) -> None:
    total = {"current": {"gpu_h": 855.5}, "saved_gpu_h": saved_h}
    lines = gpu_hours_caution({"recorded_gpu_h": recorded_h, "total": total})
    assert len(lines) == len(words)
    for line, part in zip(lines, words, strict=True):
        assert part in line
        assert line.endswith("do not quote GPU-hours.")


def test_a_smaller_cluster_that_only_chance_allows() -> None:
    saving = {"policy": "las", "today": {"gpus": 48}, "smallest": None, "saved_gpus": 0, "saved_gpus_range": [0, 8]}
    assert list(saving_sentences(saving)) == [
        "No: under las, the mean job waits longer on any smaller cluster (90 % interval of the GPUs that could go: "
        "0 to 8)."
    ]
