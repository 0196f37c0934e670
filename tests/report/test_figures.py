"""Figures for papers: every chart as PDF, SVG and PNG, with the page's titles, of the size and font asked for."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dally.errors import InputError
from dally.report.figures import look_of, write_figures
from dally.report.html.build import build_page


@pytest.mark.parametrize("kind", ["run", "comparison", "sweep"])
def test_every_chart_becomes_a_figure(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    charts = build_page(request.getfixturevalue(f"{kind}_folder")).charts
    charts = [chart for place, chart in enumerate(charts) if kind != "sweep" or place < 6]
    written = write_figures(charts, tmp_path / "figures")
    assert len(written) == len(set(written)) == 3 * len(charts)
    assert sorted(tmp_path.joinpath("figures").iterdir()) == sorted(written)  # nothing temporary is left
    for chart, path in zip(charts, written[1::3], strict=True):
        words = "".join(ElementTree.parse(path).getroot().itertext())
        for axis in (chart.x, chart.y):
            assert axis.full_title() in words, path
        assert chart.title in words
        assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
        assert path.with_suffix(".pdf").read_bytes().startswith(b"%PDF-")


def test_size_font_and_title_are_as_asked(comparison_folder: Path, tmp_path: Path) -> None:
    charts = build_page(comparison_folder).charts[:1]
    look = look_of("svg, pdf,png", "84x55", "DejaVu Serif", 7.0, title=False)
    svg, pdf, png = write_figures(charts, tmp_path, look)
    text = svg.read_text()
    wide, tall = re.findall(r'<svg [^>]*width="([\d.]+)pt" height="([\d.]+)pt"', text)[0]
    assert (float(wide), float(tall)) == pytest.approx((84 / 25.4 * 72, 55 / 25.4 * 72), abs=1.0)
    assert charts[0].title not in text
    assert "DejaVu Serif" in text
    assert set(re.findall(r'font-size="([\d.]+)px"', text)) == {"7"}
    box = re.findall(rb"/MediaBox ?\[0 0 ([\d.]+) ([\d.]+)\]", pdf.read_bytes())[0]
    assert [float(side) for side in box] == pytest.approx([float(wide), float(tall)], abs=1.0)
    pixels = [int.from_bytes(png.read_bytes()[at : at + 4], "big") for at in (16, 20)]
    assert pixels == pytest.approx([float(wide) * 220 / 72, float(tall) * 220 / 72], abs=4)


@pytest.mark.parametrize(
    ("formats", "size", "font_pt", "problem"),
    [
        ("gif", "", 0.0, "unknown format 'gif'"),
        (" ,", "", 0.0, "--format  ,: name some of pdf, svg, png"),
        ("pdf", "84", 0.0, "--size 84: must be WIDTHxHEIGHT in millimetres, such as 84x55"),
        ("pdf", "84xnan", 0.0, "--size 84xnan: sides must be 20 to 1000 mm"),
        ("pdf", "", 300.0, "--font-size 300: must be 3 to 72 points"),
    ],
)
def test_a_look_that_cannot_be_is_refused(formats: str, size: str, font_pt: float, problem: str) -> None:
    with pytest.raises(InputError, match=re.escape(problem)):
        look_of(formats, size, "", font_pt, title=True)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be written"):
        write_figures([], tmp_path / "file" / "figures")
