"""What a comparison leaves beside its runs: the same tables for people, spreadsheets, papers and scripts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from dally.errors import at
from dally.input_file import read_text, shown
from dally.metrics.comparison import Contest
from dally.parsed_text import parse_json
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
    found = parse_json(path, read_text(path)).get("baseline")
    if not isinstance(found, str):
        raise at(path, None, "baseline", f"{shown(found)}: must be a name; `dally compare` writes it again")
    return found
