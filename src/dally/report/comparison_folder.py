"""What a comparison leaves beside its runs: the same tables for people, spreadsheets, papers and scripts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from dally.errors import InputError
from dally.metrics.comparison import Contest
from dally.report.comparison_tables import to_csv, to_latex, to_markdown, to_values
from dally.whole_file import write_whole

VALUES = "comparison.json"


def write_comparison(folder: Path, contests: Sequence[Contest], baseline: str) -> None:
    """Write table.md, table.csv, table.tex and comparison.json."""
    texts = {
        "table.md": to_markdown(contests),
        "table.csv": to_csv(contests),
        "table.tex": to_latex(contests),
        VALUES: json.dumps(to_values(contests, baseline), indent=2) + "\n",
    }
    for name, text in texts.items():
        write_whole(folder / name, text.encode())


def recorded_baseline(folder: Path) -> str:
    """The baseline with which the folder's comparison was made; "" if it does not say."""
    path = folder / VALUES
    if not path.exists():
        return ""
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["baseline"])
    except (ValueError, KeyError, TypeError, OSError):
        raise InputError(f"{path}: cannot be read; `dally compare` writes it again") from None
