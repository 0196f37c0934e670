"""Figures for papers: every chart as SVG and PNG, with the page's titles."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from dally.errors import InputError
from dally.report.figures import write_figures
from dally.report.html.build import build_page


@pytest.mark.parametrize("kind", ["run", "comparison", "sweep"])
def test_every_chart_becomes_a_figure(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    charts = build_page(request.getfixturevalue(f"{kind}_folder")).charts
    charts = [chart for place, chart in enumerate(charts) if kind != "sweep" or place < 6]
    written = write_figures(charts, tmp_path / "figures")
    assert len(written) == len(set(written)) == 2 * len(charts)
    assert sorted(tmp_path.joinpath("figures").iterdir()) == sorted(written)  # nothing temporary is left
    for chart, path in zip(charts, written[::2], strict=True):
        words = "".join(ElementTree.parse(path).getroot().itertext())
        for axis in (chart.x, chart.y):
            assert axis.full_title() in words, path
        assert chart.title in words
        assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be written"):
        write_figures([], tmp_path / "file" / "figures")
