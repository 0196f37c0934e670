"""The log of a pod, read through the API in slices: what came since the last look, and never much of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import ceil
from typing import Final

from dally.live.backends.base import BackendError
from dally.live.backends.kubernetes.kube_api import KubeApi, RefusedError
from dally.progress.line_progress import LineProgress
from dally.progress.log_tail import HEAD_LINES, SLICE_BYTES, Parser, latest_progress, whole_lines

TAIL_LINES: Final = 20  # that a later look asks for
FEWER_LINES: Final = (HEAD_LINES, 50, 10, 1)  # that its end is asked for
TIMEOUT_S: Final = 5.0
REFUSED_AGAIN_S: Final = 300.0  # a right that is missing is not asked for every few seconds


class PodLog:
    """One container's log. The server has no offsets: the last few lines of a certain age are asked for."""

    def __init__(
        self,
        api: KubeApi,
        path: str,
        pod: str,
        container: str,
        parse: Parser,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`path` tells this log from that of a later pod of the same name; `pod`: the pod's path."""
        self.path = path
        self._pod = pod
        self._api = api
        self._container = container
        self._parse = parse
        self._clock = clock
        self._latest_s: float | None = None
        self._due_s = clock()

    def look(self) -> list[LineProgress]:
        """What its latest lines say of progress, in their order."""
        now = self._clock()
        if now < self._due_s:
            return []
        query: dict[str, object] = {"tailLines": HEAD_LINES}
        if self._latest_s is not None:
            query = {"tailLines": TAIL_LINES, "sinceSeconds": ceil(now - self._latest_s) + 1}
        try:
            content = self._text(query)
        except RefusedError as refused:
            self._due_s = now + (REFUSED_AGAIN_S if refused.code in (401, 403) else 0.0)
            return []
        except BackendError:
            return []
        first, self._latest_s = self._latest_s is None, now
        lines = [line for line in content.splitlines() if line.strip()]
        if first:
            parsed = (self._parse(line.decode("utf-8", "replace")) for line in lines)
            return [progress for progress in parsed if progress is not None]
        return list(latest_progress(lines, self._parse))[::-1]

    def last_lines(self) -> list[str]:
        """Its end. The server cuts long answers off at their end, so that fewer lines are asked for then."""
        for count in FEWER_LINES:
            try:
                content = self._text({"tailLines": count})
            except BackendError:
                return []
            if len(content) < SLICE_BYTES:
                break
        return whole_lines(content, False)

    def _text(self, query: dict[str, object]) -> bytes:
        query = {"limitBytes": SLICE_BYTES, **query}
        if self._container:
            query["container"] = self._container
        return self._api.text(f"{self._pod}/log", SLICE_BYTES, TIMEOUT_S, **query)
