"""Policies whose decisions are choices among rows, and the files that they come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dally.errors import InputError
from dally.policies.choices.choosing_policy import ChoosingPolicy
from dally.policies.choices.model_file import make_choices, model_text, read_model, untrained
from dally.policies.registry import build
from dally.testing.conformance import check_policy

OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("order", {"visible": 4}),
    ("order", {"visible": 4, "preempt": True}),
    ("place", {"visible": 3, "per_tier": 2}),
    ("inspect", {"base": ["fifo-backfill", {}]}),
    ("inspect", {"base": ["dally", {}], "most_times": 3}),
    ("tune", {"candidates": [["fifo-backfill", {}], ["las", {"lease_s": "600"}], ["dally", {}]], "hours": 0.1}),
    ("tune", {"candidates": [["fifo", {}], ["srtf", {}]], "hours": 0.1, "seed": 3}),
]


def drawn(kind: str, options: dict[str, Any]) -> str:
    """The file of a policy with a hidden layer, its weights neither equal nor round."""
    width = int(make_choices(kind, options).width)
    first = [[((7 * row + 3 * place) % 11 - 5) / 7 for place in range(width)] for row in range(3)]
    return model_text(kind, options, [(first, [0.1, -0.2, 0.3]), ([[0.7, -1.1, 0.4]], [0.0])], {"seed": 1})


@pytest.mark.parametrize(("kind", "options"), OPTIONS)
def test_a_learned_policy_keeps_the_rules_of_all_policies(
    kind: str, options: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "policy.json"
    path.write_text(drawn(kind, options))
    check_policy(lambda: read_model(path), 15)
    check_policy(lambda: untrained(make_choices(kind, options), options), 10)


def test_it_is_an_ordinary_policy(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_text(drawn("order", {}))
    assert isinstance(build("learned", {"model": str(path)}), ChoosingPolicy)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("format", "other", "format: must be 'dally-choices-1'"),
        ("decisions", "orders", "decisions 'orders': must be one of order, place"),
        ("options", {"visible": 1}, "visible 1: must be 2 or more"),
        ("options", [], "options: must be a table"),
        ("columns", ["waited"], "columns: are not those of this version"),
        ("layers", [], "layers: must be a list of one or more"),
        ("layers", [{"weights": [[1.0]], "biases": [0.0]}], r"layers\[0\]: weights: must be rows of 16 finite"),
        ("layers", [{"weights": [[0.0] * 16] * 2, "biases": [0.0, 0.0]}], "last must have one output, not 2"),
        ("layers", [{"weights": [[float("nan")] * 16], "biases": [0.0]}], "finite numbers"),
        ("layers", [3], r"layers\[0\]: must have biases"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(field: str, value: Any, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(json.loads(drawn("order", {})) | {field: value}))
    with pytest.raises(InputError, match=f"policy.json: {reason}|policy.json: .*{reason}"):
        read_model(path)
    path.write_text("{")
    with pytest.raises(InputError, match=r"policy.json:1: broken JSON"):
        read_model(path)
