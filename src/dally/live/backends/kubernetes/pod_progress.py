"""Where gangs say how far they are: the log of the first pod, if it may be read, and what its annotation says."""

from __future__ import annotations

from dally.live.backends.base import ProgressSource
from dally.live.backends.kubernetes import names
from dally.live.backends.kubernetes.gang_ledger import GangLedger
from dally.live.backends.kubernetes.kube_api import KubeApi
from dally.live.backends.kubernetes.pod_gang import PodGang
from dally.live.backends.kubernetes.pod_log import PodLog
from dally.progress.log_tail import Parser


class PodProgress:
    """Makes the source of a gang again once the gang was looked at anew."""

    def __init__(self, api: KubeApi, gangs: GangLedger, logs: bool) -> None:
        """`logs`: whether they may be read."""
        self._api = api
        self._gangs = gangs
        self._logs = logs
        self._of: tuple[PodGang, ...] = ()
        self._made: dict[int, tuple[PodGang, ProgressSource]] = {}  # by the gang's id: one that changes is another
        self._sources: tuple[ProgressSource, ...] = ()

    def sources(self) -> tuple[ProgressSource, ...]:
        """Of all gangs of ours with pods on nodes; the same tuple until one of them changes."""
        gangs = self._gangs.ours()
        if gangs is not self._of:
            made: dict[int, tuple[PodGang, ProgressSource]] = {}
            for gang in gangs:
                if gang.bound:
                    before = self._made.get(id(gang))
                    made[id(gang)] = (gang, self._source(gang)) if before is None else before
            self._of, self._made = gangs, made
            self._sources = tuple(source for _, source in made.values())
        return self._sources

    def _source(self, gang: PodGang) -> ProgressSource:
        first = gang.bound[0]
        path = f"{first.path}:{first.uid}" if self._logs and first.phase == "Running" else ""

        def tail(parse: Parser) -> PodLog:
            return PodLog(self._api, path, first.path, first.container, parse)

        stated = first.stated.get(names.PROGRESS, "")
        return ProgressSource(gang.key.job_id, path, "", 0, self._gangs.pattern(gang.key), stated, tail)
