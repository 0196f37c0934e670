"""`--policies`, and what tables call them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dally.errors import InputError
from dally.policies.registry import POLICIES
from dally.sweep import policy_list
from dally.sweep.policy_list import both_forms, read_policies

OURS = [name for name, row in POLICIES.items() if row.in_all]


@pytest.mark.parametrize(
    ("texts", "labels"),
    [
        (["las"], ["las"]),
        (["las,fifo"], ["las", "fifo"]),
        (["las", "fifo, las"], ["las", "fifo"]),
        (["las:lease_s=1800,fifo"], ["las:lease_s=1800", "fifo"]),
        (["dally-paper:floors=6,12,tuner=off,las"], ["dally-paper:floors=6,12,tuner=off", "las"]),
        (["dally-paper:tuner=off,lease_s=600"], ["dally-paper:lease_s=600,tuner=off"]),
        (["las,las:lease_s=5,las:lease_s=6"], ["las", "las:lease_s=5", "las:lease_s=6"]),
        (["all"], OURS),
        (["fifo,all"], ["fifo", *(name for name in OURS if name != "fifo")]),
    ],
)
def test_policies_may_carry_settings(texts: list[str], labels: list[str]) -> None:
    assert [chosen.label() for chosen in read_policies(texts)] == labels


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("mine.py:Patient", ["mine.py:Patient"]),
        ("las,mine.py:Patient,fifo", ["las", "mine.py:Patient", "fifo"]),
        ("mine.py:Patient:patience_s=5,las", ["mine.py:Patient:patience_s=5", "las"]),
        ("dally-paper:floors=6,12,./mine.py:Patient,las", ["dally-paper:floors=6,12", "./mine.py:Patient", "las"]),
    ],
)
def test_files_of_users_stand_among_names(
    text: str, labels: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(Path(__file__).parents[2] / "examples" / "my_policy.py", tmp_path / "mine.py")
    monkeypatch.chdir(tmp_path)
    assert [chosen.label() for chosen in read_policies([text])] == labels


def test_settings_keep_their_commas() -> None:
    assert read_policies(["dally-paper:floors=6,12,tuner=off"])[0].settings == {"floors": "6,12", "tuner": "off"}


@pytest.mark.parametrize(
    "text",
    ["lass", "las:leas_s=1", "las:lease_s", "las:lease_s=x", "fifo:a=1", "", "las,lass", "no.py:Patient", "no.py"],
)
def test_bad_policies_are_refused_before_anything_runs(text: str) -> None:
    with pytest.raises(InputError):
        read_policies([text])


def test_all_means_both_forms_of_those_that_have_two() -> None:
    found = both_forms(["kueue-required,all,srsf:tier=closest"])
    labels = [chosen.label() for chosen in found]
    assert labels[:3] == ["kueue-required", "fifo", "fifo:tier=closest"]
    assert len(set(labels)) == len(labels)
    assert {name for name in POLICIES if f"{name}:tier=closest" not in labels} >= {"kueue-required", "dally"}
    assert {chosen.form_of for chosen in found if chosen.name == "srsf"} == {"srsf"}
    assert [chosen.form_of for chosen in both_forms(["srsf,srsf:tier=closest"])] == ["", ""]
    with pytest.raises(InputError):
        both_forms([""])


def test_one_of_all_can_be_left_out() -> None:
    labels = [chosen.label() for chosen in both_forms(["all,-gandiva:tier=any,-las:tier=closest"])]
    every = [chosen.label() for chosen in both_forms(["all"])]
    assert [label for label in every if label not in labels] == ["las:tier=closest", "gandiva:tier=any"]
    assert [label for label in labels if label not in every] == []
    with pytest.raises(InputError, match="--policies -las: there is no 'las' before it to leave out"):
        read_policies(["fifo,-las,las"])


def test_all_names_what_needs_a_missing_package(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("dally.extras.find_spec", lambda name: None)
    policy_list._warn_missing.cache_clear()
    assert {*OURS} - {chosen.name for chosen in read_policies(["all"])} == {"a-srpt"}
    told = (
        "dally: all: without a-srpt: predictor forest: sklearn is missing; pip install 'dally[policies]' brings it"
    )
    assert caplog.messages == [told]
    with pytest.raises(InputError, match="sklearn is missing"):
        read_policies(["a-srpt"])
