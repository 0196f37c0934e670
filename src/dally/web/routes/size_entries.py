"""The sizes that an elastic job has had, as the API has them."""

from __future__ import annotations

from collections.abc import Callable

from dally.report.explanation.size_spans import SizeSpan, is_elastic
from dally.web.routes.bodies import SizeEntry


def size_entries(stated: str, spans: list[SizeSpan], wall_s: Callable[[float], float]) -> list[SizeEntry]:
    """Those of an elastic job on the wall clock; `stated`: its sizes."""
    if not is_elastic(stated, spans):
        return []
    return [SizeEntry(from_s=wall_s(span.from_s), until_s=wall_s(span.until_s), gpus=span.gpus) for span in spans]
