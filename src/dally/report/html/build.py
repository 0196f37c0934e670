"""`dally report`: finds out what a folder holds, and writes the page about it."""

from __future__ import annotations

from pathlib import Path

from dally.errors import InputError
from dally.report.html.comparison_page import comparison_page, read_results
from dally.report.html.page import Page
from dally.report.html.run_page import run_page
from dally.report.html.sweep_page import sweep_page
from dally.report.html.whatif_page import ANSWER, COMPARED, read_answer, whatif_page
from dally.runs.folder import FolderRecord
from dally.whole_file import write_whole

RUN, COMPARISON, SWEEP, WHATIF = "run", "comparison", "sweep", "what-if"


def kind_of(folder: Path) -> str:
    """Whether the folder holds a run, a comparison, a sweep or a what-if."""
    if not folder.is_dir():
        raise InputError(f"{folder}: is not a folder")
    if (folder / "summary.json").exists():
        return RUN
    if not (folder / "results.parquet").exists():
        raise InputError(
            f"{folder}: holds neither summary.json (of `dally simulate --out`) nor results.parquet "
            "(of `dally compare` or `dally sweep`)"
        )
    if (folder / ANSWER).exists():
        return WHATIF
    columns = read_results(folder / "results.parquet").columns
    return COMPARISON if "folder" in columns and "workload" in columns else SWEEP


def build_page(folder: Path, baseline: str = "") -> Page:
    """The page about whatever the folder holds."""
    kind = kind_of(folder)
    if kind == RUN:
        if baseline:
            raise InputError(f"--baseline {baseline}: {folder} holds a single run, with nothing to compare it to")
        return run_page(FolderRecord(folder))
    rows = read_results(folder / "results.parquet").to_dicts()
    if kind == WHATIF:
        if baseline:
            raise InputError(f"--baseline {baseline}: {folder} holds a what-if, whose current side is the baseline")
        return whatif_page(folder, read_answer(folder), rows)
    return comparison_page(folder, rows, baseline) if kind == COMPARISON else sweep_page(folder, rows, baseline)


def write_whatif(folder: Path) -> None:
    """The page about a what-if, and beside it the one that compares its two sides."""
    rows = read_results(folder / "results.parquet").to_dicts()
    values = read_answer(folder)
    write_page(comparison_page(folder, rows, values["current"]), folder / COMPARED)
    write_page(whatif_page(folder, values, rows), folder / "report.html")


def write_page(page: Page, path: Path) -> None:
    """Write the file whole or not at all."""
    write_whole(path, page.to_html().encode())


def run_reports(folder: Path) -> list[Path]:
    """Write the report of every run of a comparison next to its files."""
    rows = read_results(folder / "results.parquet")
    written = []
    for name in dict.fromkeys(rows.filter(rows["jct_mean_s"].is_not_null())["folder"].to_list()):
        path = folder / name / "report.html"
        write_page(run_page(FolderRecord(folder / name)), path)
        written.append(path)
    return written
