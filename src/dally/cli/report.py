"""`dally report`."""

from __future__ import annotations

from pathlib import Path

import typer

from dally.errors import InputError

EXAMPLES = """Examples:

  dally report runs/one

  dally report comparison --baseline fifo --figures figures

  dally report sweep --out sweep.html
"""


def report(
    folder: Path = typer.Argument(..., metavar="DIR", help="What `dally simulate`, `compare` or `sweep` left."),
    out: Path = typer.Option(None, metavar="FILE", help="Where to write the page.  [default: DIR/report.html]"),
    baseline: str = typer.Option(
        "", metavar="NAME", help="The policy to compare with.  [default: as compared, or fifo-backfill]"
    ),
    figures: Path = typer.Option(None, metavar="DIR", help="Also write every chart there, as SVG and PNG."),
    runs: bool = typer.Option(False, "--runs", help="Also write the report of every run of a comparison."),
    as_json: bool = typer.Option(False, "--json", help="Print what was written as JSON."),
) -> None:
    """Write one HTML file about a run, a comparison or a sweep: it opens anywhere, also offline."""
    import json

    from dally.report.html.build import COMPARISON, build_page, kind_of, run_reports, write_page

    kind = kind_of(folder)
    if runs and kind != COMPARISON:
        raise InputError(f"--runs: {folder} holds a {kind}, not a comparison")
    written = run_reports(folder) if runs else []
    page = build_page(folder, baseline)
    target = out or folder / "report.html"
    write_page(page, target)
    drawn: list[Path] = []
    if figures:
        from dally.report.figures import write_figures

        drawn = write_figures(page.charts, figures)
    if as_json:
        told = {"kind": kind, "report": str(target), "runs": len(written), "figures": [str(path) for path in drawn]}
        typer.echo(json.dumps(told, indent=2))
        return
    typer.echo(f"Report of a {kind} written to {target}")
    if written:
        typer.echo(f"Reports of {len(written)} runs written to {folder / 'runs'}")
    if drawn:
        typer.echo(f"{len(drawn)} figures written to {figures}")
