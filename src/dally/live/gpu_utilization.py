"""How busy the GPUs of a job's machines are, as a Prometheus says that an operator names in dally.toml."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from dally.errors import InputError, unknown
from dally.live.prometheus import TIMEOUT_S, Prometheus, PrometheusError, machine_named

KEYS: Final = ("url", "gpu_utilization")
USUAL_QUERY: Final = 'avg by (Hostname) (DCGM_FI_DEV_GPU_UTIL{Hostname=~"{machines}"})'  # of NVIDIA's dcgm-exporter
MOST_MACHINES: Final = 2000  # that are asked for
LATELY_MINUTES: Final = 60


class UtilizationSource(NamedTuple):
    """The table `prometheus` of dally.toml."""

    url: str = ""  # empty: nobody is asked
    query: str = USUAL_QUERY  # per cent, a value for each machine; {machines} and {job_id} are filled in

    @property
    def of_job(self) -> bool:
        """Whether the GPUs of the job alone count, and not all those of its machines."""
        return "{job_id}" in self.query


def read_utilization(table: Mapping[str, str]) -> UtilizationSource:
    """The table as it is meant; InputError with the key for what cannot be."""
    for key in table:
        if key not in KEYS:
            raise InputError(f"prometheus: {unknown('key', key, KEYS)}")
    url, query = table.get("url", ""), table.get("gpu_utilization", USUAL_QUERY)
    if table and (urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc):
        raise InputError(f"prometheus: url: {url!r}: must be as http://prometheus:9090")
    if "{machines}" not in query and "{job_id}" not in query:
        raise InputError(f"prometheus: gpu_utilization: {query!r}: must have {{machines}} or {{job_id}} in it")
    return UtilizationSource(url.rstrip("/"), query)


class MachineUtilization(NamedTuple):
    """Per cent; None: nothing is known."""

    machine: str
    now: float | None
    lately: float | None  # the mean of the latest minutes


class GpuUtilization:
    """Asks for one job at a time."""

    def __init__(self, source: UtilizationSource) -> None:
        self.source = source
        self._prometheus = Prometheus(source.url)
        self._lock = threading.Lock()

    def of(self, job_id: str, machines: Collection[str], minutes: int) -> list[MachineUtilization]:
        """By machine, now and in the mean of so many minutes; PrometheusError if that cannot be had."""
        if not self._lock.acquire(timeout=TIMEOUT_S):
            raise PrometheusError("others ask for it too")
        try:
            names = sorted(machines)[:MOST_MACHINES]
            query = filled(self.source.query, job_id, names)
            now = self._ask(query, names)
            lately = self._ask(f"avg_over_time(({query})[{minutes}m:1m])", names)
        finally:
            self._lock.release()
        return [MachineUtilization(name, now.get(name), lately.get(name)) for name in names]

    def _ask(self, query: str, machines: list[str]) -> dict[str, float]:
        """The values of an instant query, by machine."""
        return by_machine(self._prometheus.ask(query), machines)


def filled(query: str, job_id: str, machines: Collection[str]) -> str:
    """The query for a job; a name of a host may have its domain behind it."""
    names = "|".join(_escaped(name) for name in machines)
    job = json.dumps(job_id, ensure_ascii=False)[1:-1]
    return query.replace("{machines}", rf"({names})([.].*)?").replace("{job_id}", job)


def _escaped(name: str) -> str:
    """The name as a part of a regular expression of RE2, in a string of PromQL."""
    return "".join(
        letter if letter.isalnum() or letter in "-_" else f"[{letter}]"
        for letter in name
        if letter not in '\\"^[]\n'
    )


def by_machine(series: Iterable[tuple[Mapping[str, str], float]], machines: Collection[str]) -> dict[str, float]:
    """The mean of a machine's values, in per cent."""
    known = set(machines)
    values: dict[str, list[float]] = {}
    for labels, value in series:
        name = machine_named(labels, known)
        if name and 0.0 <= value <= 100.0:  # not NaN
            values.setdefault(name, []).append(value)
    return {name: sum(row) / len(row) for name, row in values.items()}
