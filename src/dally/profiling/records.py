"""Raw measurements, one JSON object a line: each is there as soon as it is made, so a run can be taken up again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dally.errors import at
from dally.input_file import read_text

Record = dict[str, Any]
FIELDS = (
    "model", "batch", "precision", "params", "forward_s", "backward_s", "forward_spread", "backward_spread",
    "gradient_bytes", "largest_bytes", "last_bucket_bytes", "buckets", "optimizer_s", "gpu", "device", "driver",
    "torch", "date", "command",
)  # fmt: skip


def key_of(record: Record) -> tuple[str, int, str]:
    """What makes a measurement the same as another."""
    return record["model"], record["batch"], record["precision"]


def append_record(path: Path, record: Record) -> None:
    """Add a line to the file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def read_records(paths: Iterable[Path]) -> list[Record]:
    """The measurements of the files; an InputError names the line and field that is wrong."""
    result: list[Record] = []
    for path in paths:
        for number, line in enumerate(read_text(path).splitlines(), start=1):
            try:
                record = json.loads(line)
            except ValueError as error:
                raise at(path, number, None, f"is no JSON: {error}") from None
            if not isinstance(record, dict):
                raise at(path, number, None, "must be an object")
            result.append(record)
            if "error" not in record:
                for field in FIELDS:
                    if field not in record:
                        raise at(path, number, field, "is missing")
    return result
