"""The page about a what-if, from the folder that it left."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from dally.errors import InputError
from dally.report.html.build import WHATIF, build_page, kind_of
from dally.report.html.whatif_page import whatif_page


@pytest.fixture(scope="module")
def text(whatif_folder: Path) -> str:
    return build_page(whatif_folder).to_html()


def test_the_verdict_comes_first_then_trust_change_people_and_assumptions(whatif_folder: Path, text: str) -> None:
    assert kind_of(whatif_folder) == WHATIF
    told = [
        "The replay of your own scheduler is within", "would save", "Can it be trusted?", "last quarter, held out",
        "What changes", "GPU-hours waited for", "Who gains, who loses", "By user", "By GPUs of the job",
        "The largest losers", "Assumptions", "Assumed: models of 32 jobs",
    ]  # fmt: skip
    places = [text.index(words, text.index("<body")) for words in told[:2]] + [
        text.rindex(words) for words in told[2:]
    ]
    assert places == sorted(places)


def test_losers_have_a_story(whatif_folder: Path, text: str) -> None:
    losers = json.loads((whatif_folder / "whatif.json").read_text())["losing_jobs"]
    assert text.count('<details class="job">') == min(10, len(losers)) > 3
    assert f"<summary><b>{losers[0]['job_id']}</b>" in text
    assert " instead of " in text


def test_what_is_far_off_is_not_to_be_quoted(whatif_folder: Path) -> None:
    values = json.loads((whatif_folder / "whatif.json").read_text())
    values["verdict"] = {"level": "do not quote", "text": "4.0 times off.", "reasons": ["a <b> is"], "off": 3.0}
    page = whatif_page(whatif_folder, values, []).to_html()
    assert '<div class="verdict worse">' in page
    assert "<li>a &lt;b&gt; is.</li>" in page
    assert "Only a simulation: dally would" in page


@pytest.mark.parametrize("content", ["{", "[]", '{"verdict": 1}'])
def test_a_damaged_answer_is_one_line(whatif_folder: Path, tmp_path: Path, content: str) -> None:
    shutil.copy(whatif_folder / "results.parquet", tmp_path)
    (tmp_path / "whatif.json").write_text(content)
    with pytest.raises(InputError, match=r"whatif.json: is not what"):
        build_page(tmp_path)


def test_a_baseline_makes_no_sense(whatif_folder: Path) -> None:
    with pytest.raises(InputError, match=r"--baseline fifo: .* holds a what-if"):
        build_page(whatif_folder, "fifo")
