"""What an operator's own monitoring says against machines: queries to Prometheus, and signs that the backend has.

A sign speaks against a machine once it was there twice in a row. A signal that speaks against more machines
than may be kept out is taken to be wrong, and speaks against none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import structlog

from dally.errors import InputError
from dally.live.prometheus import Prometheus, PrometheusError, machine_named

MOST_NAME: Final = 40  # letters of a signal's name

log = structlog.get_logger("dally")


def read_signals(table: Mapping[str, str], url: str) -> dict[str, str]:
    """The table `health_signals` of dally.toml: queries by name; InputError for what cannot be."""
    if table and not url:
        raise InputError("health_signals: give url in the table prometheus too, which is asked")
    for name, query in table.items():
        if not 0 < len(name) <= MOST_NAME or not name.replace("-", "_").isidentifier():
            raise InputError(f"health_signals: {name!r}: a name must be of letters, digits, - and _")
        if not query.strip():
            raise InputError(f"health_signals: {name}: {query!r}: must be a query, as DCGM_FI_DEV_XID_ERRORS > 0")
    return dict(table)


class MachineSignals:
    """Asks in a thread of its own: a Prometheus that hangs holds no cycle up."""

    def __init__(self, queries: Mapping[str, str], url: str) -> None:
        self.present: dict[str, tuple[str, ...]] = {}  # by machine: the names of signs that hold
        self._queries = dict(queries)
        self._prometheus = Prometheus(url)
        self._thread = ThreadPoolExecutor(1, "health-signals") if queries else None
        self._answer: Future[dict[str, set[str]]] | None = None
        self._signalled: dict[str, set[str]] = {}  # machines by signal, as of the latest answer,
        self._sure: dict[str, set[str]] = {}  # and those that the one before had too
        self._before: dict[str, set[str]] = {}  # by sign of the backend: machines of the look before

    def look(self, machines: Collection[str], signs: Mapping[str, Iterable[str]], most: int) -> None:
        """Take note of what is said now; `signs`: the backend's, by machine; `most`: machines that may be out."""
        if self._thread is not None:
            self._ask(self._thread, set(machines), most)
        now: dict[str, set[str]] = {}
        for machine, names in signs.items():
            for name in names:
                now.setdefault(name, set()).add(machine)
        present: dict[str, list[str]] = {}
        for name, sure in sorted([*self._sure.items(), *_in_both(self._before, now, most).items()]):
            for machine in sorted(sure):
                present.setdefault(machine, []).append(name)
        self.present = {machine: tuple(names) for machine, names in present.items()}
        self._before = now

    def _ask(self, thread: ThreadPoolExecutor, machines: set[str], most: int) -> None:
        """Take note of an answer that has come, and ask again; one that does not come is no second one."""
        if self._answer is not None and self._answer.done():
            before, self._signalled = self._signalled, self._answer.result()
            self._sure = _in_both(before, self._signalled, most)
            self._answer = None
        if self._answer is None:
            self._answer = thread.submit(ask_all, self._queries, self._prometheus.ask, machines)

    def close(self) -> None:
        """Wait for no answer."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)


def _in_both(before: Mapping[str, set[str]], now: Mapping[str, set[str]], most: int) -> dict[str, set[str]]:
    """The machines that each sign is against twice in a row; none of one that is against too many."""
    result: dict[str, set[str]] = {}
    for name, machines in now.items():
        if len(machines) > most:
            log.warning("health", signal=name, wrong=f"it speaks against {len(machines)} machines at once")
        else:
            result[name] = machines & before.get(name, set())
    return result


def ask_all(
    queries: Mapping[str, str], ask: Callable[[str], list[tuple[dict[str, str], float]]], machines: set[str]
) -> dict[str, set[str]]:
    """The machines that each query has a series for; a query that fails speaks against none."""
    result: dict[str, set[str]] = {}
    for name, query in queries.items():
        try:
            accused = {machine_named(labels, machines) for labels, value in ask(query) if value == value}
        except PrometheusError as error:
            log.warning("health", signal=name, what=str(error))
            continue
        result[name] = accused - {""}
    return result
