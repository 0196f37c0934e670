"""Columns of whole numbers as text for a page: differences, byte by byte, compressed, base64."""

from __future__ import annotations

import base64
import gzip
import json
from array import array
from collections.abc import Mapping, Sequence
from itertools import pairwise

LARGEST = 2**32 - 1


def pack(
    columns: Mapping[str, Sequence[int]],
    ascending: Sequence[str] = (),
    texts: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """All columns in one text; those named as ascending are kept as differences.

    Layout, before gzip: the length of a JSON header as 4 bytes, the header, then each column's lowest bytes, its
    next bytes and so on: neighbours are alike, which is what makes it small. Texts come last, a line each.
    """
    header: dict[str, list[object]] = {"columns": [], "texts": []}
    body: list[bytes] = []
    for name, values in columns.items():
        kept = [after - before for before, after in pairwise([0, *values])] if name in ascending else values
        _check(name, kept)
        width = _width(max(kept, default=0))
        raw = array("I", kept).tobytes()
        body += [raw[plane::4] for plane in range(width)]
        header["columns"].append([name, len(kept), width, name in ascending])
    for name, lines in (texts or {}).items():
        encoded = "\n".join(line.replace("\n", " ") for line in lines).encode()
        header["texts"].append([name, len(encoded)])
        body.append(encoded)
    head = json.dumps(header).encode()
    whole = len(head).to_bytes(4, "little") + head + b"".join(body)
    return base64.b64encode(gzip.compress(whole, compresslevel=6, mtime=0)).decode()


def _width(largest: int) -> int:
    """Bytes that hold it."""
    return max(1, (largest.bit_length() + 7) // 8)


def _check(name: str, values: Sequence[int]) -> None:
    if values and not 0 <= min(values) <= max(values) <= LARGEST:
        raise ValueError(f"{name}: does not fit into 4 bytes, or does not ascend")
