"""`dally report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dally.cli.commands import examples
from dally.errors import InputError

if TYPE_CHECKING:
    from dally.report.figures import Look

FORMATS = "pdf,svg,png"


@examples(
    "dally report runs/one",
    "dally report comparison --baseline fifo --figures figures --format pdf --size 84x55 --font Times --no-title",
    "dally report runs/one --perfetto run.json.gz",
    "dally report sweep --out sweep.html",
)
def report(
    folder: Path = typer.Argument(..., metavar="DIR", help="What `dally simulate`, `compare` or `sweep` left."),
    out: Path = typer.Option(None, metavar="FILE", help="Where to write the page.  [default: DIR/report.html]"),
    baseline: str = typer.Option(
        "", metavar="NAME", help="The policy to compare with.  [default: as compared, or fifo-backfill]"
    ),
    figures: Path = typer.Option(None, metavar="DIR", help="Also write every chart there, for papers."),
    formats: str = typer.Option(
        None, "--format", metavar="NAME,…", help=f"Of figures: some of {FORMATS}.  [default: all]"
    ),
    size: str = typer.Option(
        None, metavar="WxH", help="Of figures, over all, in mm, such as 84x55.  [default: what a chart needs]"
    ),
    font: str = typer.Option(None, metavar="NAME", help="Of figures: a font of this machine."),
    font_size: float = typer.Option(None, metavar="PT", help="Of figures: of all letters, in points."),
    no_title: bool = typer.Option(False, "--no-title", help="Figures without a title: a paper has captions."),
    perfetto: Path = typer.Option(
        None, metavar="FILE",
        help="Also write a run as a trace for ui.perfetto.dev and chrome://tracing; packed if FILE ends in .gz.",
    ),
    runs: bool = typer.Option(False, "--runs", help="Also write the report of every run of a comparison."),
    as_json: bool = typer.Option(False, "--json", help="Print what was written as JSON."),
) -> None:  # fmt: skip
    """Write one HTML file about a run, a comparison or a sweep: it opens anywhere, also offline."""
    from dally.report.html.build import COMPARISON, RUN, build_page, kind_of, run_reports, write_page

    look = figure_look(figures, formats, size, font, font_size, no_title)
    kind = kind_of(folder)
    if runs and kind != COMPARISON:
        raise InputError(f"--runs: {folder} holds a {kind}, not a comparison")
    if perfetto and kind != RUN:
        raise InputError(f"--perfetto: {folder} holds a {kind}, not a run; give one of its runs")
    written = run_reports(folder) if runs else []
    page = build_page(folder, baseline)
    target = out or folder / "report.html"
    write_page(page, target)
    drawn: list[Path] = []
    if figures:
        from dally.report.figures import write_figures

        drawn = write_figures(page.charts, figures, look)
    if perfetto:
        from dally.report.perfetto import write_perfetto
        from dally.runs.folder import FolderRecord

        write_perfetto(FolderRecord(folder), perfetto)
    print_results(kind, target, folder, len(written), figures, drawn, perfetto, as_json)


def figure_look(
    figures: Path | None,
    formats: str | None,
    size: str | None,
    font: str | None,
    font_size: float | None,
    no_title: bool,
) -> Look | None:
    """The look of figures; InputError for a look without figures."""
    if figures:
        from dally.report.figures import look_of

        return look_of(
            FORMATS if formats is None else formats, size or "", font or "", font_size or 0.0, not no_title
        )
    options = {
        "--format": formats,
        "--size": size,
        "--font": font,
        "--font-size": font_size,
        "--no-title": no_title,
    }
    for option, value in options.items():
        if value not in (None, False):
            raise InputError(f"{option}: is of figures; say where with --figures DIR")
    return None


def print_results(
    kind: str,
    target: Path,
    folder: Path,
    runs: int,
    figures: Path | None,
    drawn: list[Path],
    perfetto: Path | None,
    as_json: bool,
) -> None:
    """Print what was written."""
    import json

    if as_json:
        record = {"kind": kind, "report": str(target), "runs": runs, "figures": [str(path) for path in drawn]}
        typer.echo(json.dumps({**record, "perfetto": str(perfetto) if perfetto else None}, indent=2))
        return
    typer.echo(f"Report of a {kind} written to {target}")
    if runs:
        typer.echo(f"Reports of {runs} runs written to {folder / 'runs'}")
    if figures:
        typer.echo(f"{len(drawn)} figures written to {figures}")
    if perfetto:
        typer.echo(f"Trace for ui.perfetto.dev written to {perfetto}")
