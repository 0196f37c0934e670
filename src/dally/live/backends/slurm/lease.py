"""Who leads, kept in Slurm itself: a reservation far in the future, which keeps no node from any job.

Its name has the term, and Slurm lets only one daemon create it; how long it lasts tells when it was last renewed.
So two daemons on two hosts agree without a shared disk or database.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from dally.live.backends.base import BackendError
from dally.live.backends.slurm.shown_limits import LEASE, lines_of, moment_s
from dally.live.backends.slurm.tools import Tools

FAR_S: Final = 3786912000  # 2090: when the reservations begin
EPOCH_S: Final = 1700000000  # what their length counts from
RENEW_EVERY_S: Final = 10.0
EXPIRES_S: Final = 45.0  # without being renewed
POLL_S: Final = 2.0
CHECK_EVERY_S: Final = 1.0  # a term that was checked so recently counts as ours

log = structlog.get_logger("dally")


@dataclass(frozen=True)
class HeldLease:
    """A lease as Slurm shows it."""

    term: int
    renewed_s: float  # since 1970, by the clock of the daemon that renewed it


def leases(tools: Tools) -> list[HeldLease]:
    """All that there are, the latest last."""
    rows = lines_of(tools.run("scontrol", "-o", "show", "reservation", utc=True))
    result = []
    for row in rows:
        name = row.get("ReservationName", "")
        if name.startswith(LEASE) and name.removeprefix(LEASE).isdigit():
            renewed_s = moment_s(row.get("EndTime", "")) - FAR_S + EPOCH_S
            result.append(HeldLease(int(name.removeprefix(LEASE)), renewed_s))
    return sorted(result, key=lambda one: one.term)


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def _now_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _end() -> str:
    return _date(FAR_S + time.time() - EPOCH_S)


class Lease:
    """The right to schedule this cluster, renewed by a thread until it is released or another daemon has it."""

    def __init__(self, tools: Tools, node: str, alive: Callable[[], bool], memory: Path) -> None:
        """Waits until no other daemon renews its own. `node`: any of the cluster. `alive`: whether to renew.

        `memory`: where daemons of this host, of which only one runs, note their term. The next one need not wait
        until the lease of one that died expires.
        """
        self._tools = tools
        self._node = node
        self._alive = alive
        self._stop = threading.Event()
        self._memory = memory
        self._checked_s = -CHECK_EVERY_S  # by a clock that also counts while the machine sleeps
        self._lost = ""
        self.term = self._take()
        memory.write_text(f"{socket.gethostname()} {self.term}\n", encoding="utf-8")
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)
        self._thread.start()

    def check_known(self) -> None:
        """A BackendError if another daemon is known to lead."""
        if self._lost:
            raise BackendError(self._lost)

    def check(self) -> None:
        """A BackendError if another daemon leads by now, or if Slurm does not say."""
        self.check_known()
        if _now_s() - self._checked_s < CHECK_EVERY_S:
            return
        latest = max((one.term for one in leases(self._tools)), default=0)
        if latest != self.term:
            self._lost = f"term {self.term} is over: another daemon leads since term {latest}"
            raise BackendError(self._lost)
        self._checked_s = _now_s()

    def release(self) -> None:
        """Let another daemon lead at once."""
        self._stop.set()
        self._thread.join(RENEW_EVERY_S)
        self._delete(self.term)

    def _take(self) -> int:
        """The next term, once the latest lease is no longer renewed, by our own clock."""
        seen, since_s, announced = None, time.monotonic(), False
        while True:
            every = leases(self._tools)
            latest = every[-1] if every else None
            expired = latest == seen and time.monotonic() - since_s > EXPIRES_S
            if latest is None or expired or self._was_ours(latest.term):
                term = (latest.term if latest else 0) + 1
                if self._create(term):
                    for old in every:
                        self._delete(old.term)
                    return term
            elif latest != seen:
                seen, since_s = latest, time.monotonic()
            if not announced and latest is not None:
                log.info("waiting", why=f"another daemon leads, term {latest.term}")
                announced = True
            time.sleep(POLL_S)

    def _was_ours(self, term: int) -> bool:
        """Whether a daemon of this host had that term: it is dead, or its lock would keep us from getting here."""
        try:
            return self._memory.read_text(encoding="utf-8").split() == [socket.gethostname(), str(term)]
        except OSError:
            return False

    def _create(self, term: int) -> bool:
        settings = (
            f"ReservationName={LEASE}{term}", f"StartTime={_date(FAR_S)}", f"EndTime={_end()}",
            f"Nodes={self._node}", "Users=root", "Flags=OVERLAP,IGNORE_JOBS",
        )  # fmt: skip
        try:
            self._tools.run("scontrol", "create", "reservation", *settings, utc=True)
        except BackendError as error:
            if any(one.term >= term for one in leases(self._tools)):
                return False  # another daemon was faster
            raise BackendError(
                f"the lease on the cluster cannot be had: {error}; the daemon's user must be an operator or "
                "administrator of Slurm's. If no other host runs a daemon, start this one with --i-am-alone"
            ) from None
        return True

    def _renew(self) -> None:
        while not self._stop.wait(RENEW_EVERY_S):
            if not self._alive():
                continue
            try:
                self._tools.run(
                    "scontrol", "update", f"ReservationName={LEASE}{self.term}", f"EndTime={_end()}", utc=True
                )
            except Exception as error:  # whatever it is: a lease that is no longer renewed ends the term
                log.warning("lease", why=str(error))

    def _delete(self, term: int) -> None:
        try:
            self._tools.run("scontrol", "delete", f"ReservationName={LEASE}{term}")
        except BackendError as error:
            log.warning("lease", why=str(error))
