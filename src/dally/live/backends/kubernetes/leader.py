"""One daemon leads, others stand by: a Lease, as Kubernetes' own controllers hold it."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import structlog

from dally.errors import one_line
from dally.live.backends.base import BackendError
from dally.live.backends.kubernetes import names
from dally.live.backends.kubernetes.kube_api import LONGEST_COMPLAINT, Entry, KubeApi, RefusedError
from dally.live.backends.kubernetes.quantity import whole_number

LASTS_S: Final = 6  # a lease that was not renewed for so long is free
RENEW_S: Final = 1.5
ANNOUNCE_PAUSES_S: Final = (0.05, 0.1, 0.2, 0.4)
SURE_S: Final = 4.0  # after its last renewal a leader acts no more: another may be about to take over

log = structlog.get_logger("dally")


class Leader:
    """Holds the lease from `acquire` to `release`. `term` counts how often it was won."""

    def __init__(self, api: KubeApi, namespace: str, name: str) -> None:
        self.me = f"{_house()}_{os.getpid()}_{_born(os.getpid())}"
        self.term = 0
        self._api = api
        self._folder = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._name = name
        self._renewed_s = -float("inf")
        self._problem = ""  # why the latest attempt to renew failed
        self._seen: tuple[object, ...] = ()  # the lease as others last wrote it,
        self._seen_s = 0.0  # and when that was first read: their clocks are not ours
        self._lock = threading.Lock()  # one write at a time: the thread that renews, and whoever announces orders
        self.announced = ""  # orders under way, as the lease has them; first those of its last holder
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)

    def acquire(self) -> None:
        """Wait until we lead, then keep it so."""
        waiting = ""
        while not self._stop.is_set():
            problem = self._try()
            if not problem:
                break
            if problem != waiting:
                log.info("standing_by", why=problem)
                waiting = problem
            self._stop.wait(0.5)
        self._thread.start()

    def release(self) -> None:
        """Let another one lead at once."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(RENEW_S + 2.0)
        if self.left_s() > 0.0:
            try:
                lease = self._api.get(f"{self._folder}/{self._name}")
                if _spec_of(lease).get("holderIdentity") == self.me:
                    self._write(lease, "", 1)
            except BackendError:
                pass  # it runs out by itself
        self._renewed_s = -float("inf")
        self._api.close()

    def check(self) -> None:
        """A BackendError unless we lead for sure."""
        if self.left_s() <= 0.0:
            why = self._problem or "it was not renewed in time"
            raise BackendError(f"lease {self._name}: this daemon does not lead: {why}")

    def left_s(self) -> float:
        """For how long we lead for sure, if the lease is not renewed; not above 0: we do not."""
        return SURE_S - (_now_s() - self._renewed_s)

    def announce(self, orders: str) -> None:
        """Write on the lease which orders are about to be sent: whoever leads next finds them there, late or lost.

        A BackendError: it could not be written, or is no longer ours, and nothing may be sent.
        """
        with self._lock:
            before, self.announced = self.announced, orders
            for pause_s in ANNOUNCE_PAUSES_S:
                problem = self._renew()
                if not problem:
                    return
                if self._stop.wait(pause_s) or self.left_s() <= pause_s:
                    break
            self.announced = before
        raise BackendError(f"lease {self._name} could not be written: {problem}")

    def _keep(self) -> None:
        while not self._stop.wait(RENEW_S):
            led = self.left_s() > 0.0
            self._problem = self._try()
            if self._problem and led and self.left_s() <= 0.0:
                log.warning("problem", what=f"lease {self._name} was not renewed: {self._problem}")

    def _try(self) -> str:
        """Take or renew the lease; why not."""
        with self._lock:
            return self._renew()

    def _renew(self) -> str:
        requested_s = _now_s()
        anew = requested_s - self._renewed_s > SURE_S
        try:
            lease = self._lease()
            if anew:
                self.announced = _orders_of(lease or {})
            if lease is None:
                body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": self._name}}
                self._api.post(self._folder, {**body, "spec": self._spec({}, self.me, LASTS_S)})
            else:
                holder = _spec_of(lease).get("holderIdentity") or ""
                if holder not in ("", self.me) and not self._has_run_out(lease):
                    return f"{holder} leads"
                self._write(lease, self.me, LASTS_S)
        except RefusedError as refused:
            return "another daemon was faster" if refused.code == 409 else str(refused)
        except BackendError as error:
            return str(error)
        except Exception as error:  # an answer of no sense, which must not end the thread that keeps the lease
            return one_line(f"lease {self._name}: {type(error).__name__}: {error}", LONGEST_COMPLAINT)
        if anew:
            self.term += 1
            log.info("leads", lease=self._name, term=self.term)
        self._renewed_s = requested_s
        return ""

    def _lease(self) -> Entry | None:
        try:
            return self._api.get(f"{self._folder}/{self._name}")
        except RefusedError as refused:
            if refused.code == 404:
                return None
            raise

    def _has_run_out(self, lease: Entry) -> bool:
        """Whether its holder is known to be dead, or it has stood unchanged for its length, by our own clock."""
        spec = _spec_of(lease)
        if _is_dead(str(spec.get("holderIdentity"))):
            return True
        now = (spec.get("holderIdentity"), spec.get("renewTime"))
        if now != self._seen:
            self._seen, self._seen_s = now, _now_s()
        return _now_s() - self._seen_s > float(spec.get("leaseDurationSeconds") or LASTS_S)

    def _write(self, lease: Entry, holder: str, lasts_s: int) -> None:
        """With its version: whoever was faster wins."""
        about = lease.get("metadata") or {}
        about = {**about, "annotations": {**(about.get("annotations") or {}), names.ORDERS: self.announced}}
        spec = self._spec(_spec_of(lease), holder, lasts_s)
        self._api.put(f"{self._folder}/{self._name}", {**lease, "metadata": about, "spec": spec})

    def _spec(self, before: Entry, holder: str, lasts_s: int) -> Entry:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        changed = before.get("holderIdentity") != holder
        return {
            "holderIdentity": holder,
            "leaseDurationSeconds": lasts_s,
            "renewTime": now,
            "acquireTime": now if changed else before.get("acquireTime", now),
            "leaseTransitions": int(before.get("leaseTransitions") or 0) + changed,
        }


def _now_s() -> float:
    """A clock that goes on while the machine sleeps: the lease runs out meanwhile."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _spec_of(lease: Entry) -> Entry:
    """Of a lease that somebody made by hand there may be none."""
    result: Entry = lease.get("spec") or {}
    return result


def _orders_of(lease: Entry) -> str:
    notes = (lease.get("metadata") or {}).get("annotations") or {}
    return str(notes.get(names.ORDERS) or "")


def _house() -> str:
    """What processes share that see each other: the host, its kernel since that was started, the pid namespace."""
    try:
        kernel = Path("/proc/sys/kernel/random/boot_id").read_text() + str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        kernel = os.urandom(8).hex()
    return f"{socket.gethostname()}_{hashlib.sha256(kernel.encode()).hexdigest()[:12]}"


def _born(pid: int) -> str:
    """When the process was started, in ticks of its kernel; nothing if it is no more."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return ""
    return "" if state == "Z" else fields[18]


def _is_dead(holder: str) -> bool:
    """Whether a holder of our own house is no more: then nobody need wait until its lease has run out."""
    house, pid, born = ([*holder.rsplit("_", 2), "", ""])[:3]
    number = whole_number(pid)
    return house == _house() and number is not None and _born(number) != born
