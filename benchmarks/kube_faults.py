"""Faults on a real Kubernetes API server: no GPU twice, no gang lost, bare pods never touched, all whole in 30 s.

usage: python -m benchmarks.kube_faults [--seed 1] [--minutes 30] [--nodes 16] [--suspend 0]

Needs the bundle ../shared/kubernetes. Two daemons (hosts, stores and locks of their own; the Lease is what they
share) schedule one cluster through a proxy under a policy that moves running gangs all the time. The proxy answers
409, 410, 429 and 5xx before and after the effect, loses answers, is slow or silent, and resets connections. Daemons
die in the transitions of docs/reconcile.md, are killed, and are stopped for longer than their lease lasts; the API
server is killed, and nodes become NotReady. A watcher that shares no code with the daemons' books looks at every
event, past the proxy; what falls between the death of a server and its next list it sees as a state, not as events.
With `--suspend 1` Jobs wait suspended, until the daemon admits them.
The exit status is 1 if one of the four statements does not hold.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.live.kube_cluster import BUNDLE, JOBS, NODES, PODS, KubeCluster, condition, job, kube_cluster, pod, until
from tests.live.kube_proxy import FaultyProxy
from tests.live.kube_recorder import GANG, SIZE, Recorder
from tests.live.kube_suspend import SuspendProxy, is_suspended, suspended_job

from benchmarks.command_line import options
from dally.live.backends.base import BackendError
from dally.live.backends.kubernetes.kube_api import Entry

HOSTS: Final = ("alpha", "beta")
PAUSE_S: Final = 6.0  # between two faults
RATE: Final = 0.08  # of requests that go wrong
WHOLE_WITHIN_S: Final = 30.0  # after the last fault
WAITING: Final = 12  # gangs, at least, as long as faults come
DRAIN_S: Final = 480.0  # for what is left to end after the last fault: a Job controller backs off for up to 6 min


class BareWatcher(Recorder):
    """Also sees that pods without a controller are never told to go."""

    def _see(self, entry: Entry, gone: bool) -> None:
        super()._see(entry, gone)
        about = entry["metadata"]
        if not about.get("ownerReferences") and (gone or "deletionTimestamp" in about):
            self.problems.append(f"bare pod {about['name']} was touched")

    def half_gangs(self) -> list[str]:
        """Gangs that are bound in part this moment."""
        return sorted(self._since)


class FaultyKube:
    """The cluster, its two daemons, the load, and what can be done to them."""

    def __init__(self, kube: KubeCluster, folder: Path, seed: int, suspend: bool = False) -> None:
        self._kube, self._folder = kube, folder
        self._chance = random.Random(seed)
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._suspend = suspend
        self.proxy = (SuspendProxy if suspend else FaultyProxy)(kube.config, seed)
        self.counts: Counter[str] = Counter()
        self.gangs: dict[str, int] = {}  # pods by name
        for host in HOSTS:
            (folder / host).mkdir(mode=0o700)
        self.faults: tuple[Callable[[], None], ...] = (
            self.kill_daemon, self.stop_leader, self.node_not_ready, self.kill_server, self.delete_a_pod,
            self.kill_both,
        )  # fmt: skip

    # The load.

    def submit(self) -> None:
        """A gang of a Job; every fifth of bare pods."""
        number = len(self.gangs)
        pods, gpus = self._chance.choice(((1, 8), (2, 8), (4, 4), (8, 2), (8, 8), (3, 8), (16, 1), (5, 4)))
        seconds = self._chance.uniform(1.0, 6.0)
        name = f"g{number}"
        self.gangs[name] = pods
        if number % 5 == 4:
            labels = {"dally.io/gang": name, "dally.io/gang-size": str(pods), GANG: name, SIZE: str(pods)}
            for rank in range(pods):
                self._kube.admin.post(PODS, pod(f"{name}-{rank}", gpus, seconds, labels=labels))
        else:
            body = (suspended_job if self._suspend else job)(name, pods, gpus, seconds, expected="30s")
            body["spec"]["backoffLimit"] = 10_000
            self._kube.admin.post(JOBS, body)

    def feed(self) -> None:
        """Keep the queue at its length; a server that was killed takes nothing."""
        try:
            waiting = {_gang(one) for one in self._kube.pods() if not one["spec"].get("nodeName")}
            jobs = self._kube.admin.get(JOBS)["items"] if self._suspend else ()
            waiting |= {one["metadata"]["name"] for one in jobs if is_suspended(one)}
            for _ in range(min(3, WAITING - len(waiting))):
                self.submit()
        except BackendError:
            pass

    def unfinished(self) -> list[str]:
        """Gangs that have not come to a good end: their Job says so, or enough of their pods."""
        done: Counter[str] = Counter()
        for one in self._kube.pods():
            if (one.get("status") or {}).get("phase") == "Succeeded":
                done[_gang(one)] += 1
        complete = {one["metadata"]["name"] for one in self._kube.admin.get(JOBS)["items"] if _is_complete(one)}
        return [name for name, pods in self.gangs.items() if done[name] < pods and name not in complete]

    # The daemons.

    def keep_alive(self) -> None:
        """Start daemons that have died, as Kubernetes would."""
        for host in HOSTS:
            daemon = self._daemons.get(host)
            if daemon is not None and daemon.poll() is None:
                continue
            self.counts["daemon died" if daemon is not None else "daemon started"] += 1
            words = [sys.executable, "-m", "benchmarks.faulty_daemon", str(self._folder), str(self.proxy.config)]
            backend = "suspend" if self._suspend else "kubernetes"
            with (self._folder / f"{host}.log").open("ab") as log:
                self._daemons[host] = subprocess.Popen([*words, host, backend], stdout=log, stderr=log)

    def state_of(self, gang: str) -> list[str]:
        """What its Job says of itself, and its pods, a line each."""
        jobs = [one for one in self._kube.admin.get(JOBS)["items"] if one["metadata"]["name"] == gang]
        rows = [_line(one) for one in self._kube.pods() if _gang(one) == gang]
        return [*(f"Job {one.get('status')}" for one in jobs), *rows] or ["it has no pods"]

    def stop(self) -> None:
        """Both daemons, and the proxy."""
        for daemon in self._daemons.values():
            daemon.kill()
            daemon.wait()
        self.proxy.close()

    def no_more_deaths(self) -> None:
        """The faults are over: daemons live on."""
        (self._folder / "killed.off").touch()

    def _leader(self) -> str:
        """The host that the lease names."""
        lease = self._kube.admin.get("/apis/coordination.k8s.io/v1/namespaces/dally/leases/dally-scheduler")
        return next((host for host in HOSTS if str(lease["spec"]["holderIdentity"]).startswith(host)), HOSTS[0])

    # The faults.

    def kill_daemon(self) -> None:
        self._daemons[self._leader()].kill()

    def kill_both(self) -> None:
        for daemon in self._daemons.values():
            daemon.kill()

    def stop_leader(self) -> None:
        """For longer than its lease lasts, so that the other one takes over; then it wakes up in mid-sentence."""
        daemon = self._daemons[self._leader()]
        daemon.send_signal(signal.SIGSTOP)
        time.sleep(self._chance.uniform(8.0, 14.0))
        daemon.send_signal(signal.SIGCONT)

    def node_not_ready(self) -> None:
        node = self._chance.choice(self._kube.nodes)
        for ready, seconds in (("False", 5.0), ("True", 0.0)):
            self._kube.admin.patch(f"{NODES}/{node}/status", {"status": {"conditions": [condition(ready)]}})
            time.sleep(seconds)

    def kill_server(self) -> None:
        self._kube.kill_server()
        time.sleep(self._chance.uniform(0.0, 2.0))
        self._kube.start_server()
        until(self._kube.answers, 60.0)

    def delete_a_pod(self) -> None:
        """A user's, of a gang that runs and has a controller."""
        bound = [one for one in self._kube.pods() if _runs(one) and one["metadata"].get("ownerReferences")]
        if bound:
            self._kube.admin.delete(f"{PODS}/{self._chance.choice(bound)['metadata']['name']}")


def _gang(entry: Entry) -> str:
    return str((entry["metadata"].get("labels") or {}).get(GANG, ""))


def _is_complete(job: Entry) -> bool:
    rows = (job.get("status") or {}).get("conditions") or ()
    return any((row["type"], row["status"]) == ("Complete", "True") for row in rows)


def _line(entry: Entry) -> str:
    about, status = entry["metadata"], entry.get("status") or {}
    rows = [row for row in status.get("conditions") or () if row["status"] == "False"]
    where = entry["spec"].get("nodeName") or "no node"
    said = "; ".join(str(row.get("message")) for row in rows)
    return f"{about['name']} {status.get('phase')} on {where}, deleted {about.get('deletionTimestamp')}: {said}"


def _runs(entry: Entry) -> bool:
    return bool(entry["spec"].get("nodeName")) and (entry.get("status") or {}).get("phase") == "Running"


def run(kube: KubeCluster, folder: Path, seconds: float, seed: int, suspend: bool = False) -> dict[str, Any]:
    """Faults for so many seconds, then none until every gang has ended; what the watcher saw."""
    watcher = BareWatcher(kube)
    cluster = FaultyKube(kube, folder, seed, suspend)
    began_s, number = time.monotonic(), 0
    cluster.proxy.rate = RATE
    while (now_s := time.monotonic() - began_s) < seconds:
        cluster.keep_alive()
        cluster.feed()
        if now_s > (number + 1) * PAUSE_S:
            fault = cluster.faults[number % len(cluster.faults)]
            _try(fault)
            cluster.counts[fault.__name__.replace("_", " ")] += 1
            number += 1
        time.sleep(0.3)
    cluster.proxy.rate = 0.0
    cluster.no_more_deaths()
    last_s = time.monotonic()
    whole_s, ended_s = _settle(cluster, watcher, last_s)
    left = {gang: cluster.state_of(gang) for gang in cluster.unfinished()}
    cluster.stop()
    result = watcher.stop()
    counts = dict(cluster.counts + cluster.proxy.counts)
    again = sum(max(0, len(runs) - 1) for runs in watcher.runs.values())
    return {**result, "whole_s": whole_s, "ended_s": ended_s, "lost": left, "gangs": len(cluster.gangs),
            "again": again, "counts": counts}  # fmt: skip


def _try(fault: Callable[[], None]) -> None:
    """A fault may find the server down by an earlier one."""
    try:
        fault()
    except BackendError:
        time.sleep(0.5)


def _settle(cluster: FaultyKube, watcher: BareWatcher, last_s: float) -> tuple[float, float]:
    """Seconds after the last fault until no gang was half bound since before it, and until all gangs had ended.

    A gang that a policy starts or stops later is half bound for a moment too: what counts is each gang's own time.
    """
    whole_s, pending = 0.0, set(watcher.half_gangs())
    while time.monotonic() - last_s < DRAIN_S:
        cluster.keep_alive()
        now_s = time.monotonic() - last_s
        pending &= set(watcher.half_gangs())
        if pending:
            whole_s = now_s
        elif not cluster.unfinished():
            return whole_s, now_s
        time.sleep(0.5)
    return whole_s, time.monotonic() - last_s


def report(result: dict[str, Any]) -> list[str]:
    """What does not hold, a line each."""
    wrong = list(result["problems"])
    if result["lost"]:
        wrong.append(f"{len(result['lost'])} gangs did not end")
        wrong += [f"{gang}: {line}" for gang, lines in result["lost"].items() for line in lines]
    if result["whole_s"] > WHOLE_WITHIN_S:
        wrong.append(f"a gang was half bound {result['whole_s']:.1f} s after the last fault")
    return wrong


def main() -> None:
    given = options(__doc__, seed=1, minutes=30.0, nodes=16, suspend=0)
    if not BUNDLE.exists():
        raise SystemExit(f"{BUNDLE} is not here: no Kubernetes to run on")
    with (
        tempfile.TemporaryDirectory(prefix="dally-kube-faults-", ignore_cleanup_errors=True) as text,
        kube_cluster(Path(text), given.nodes) as kube,
    ):
        folder = Path(text)
        result = run(kube, folder, given.minutes * 60.0, given.seed, bool(given.suspend))
        if os.environ.get("KEEP_LOG"):
            for host in HOSTS:
                shutil.copy(folder / f"{host}.log", f"{os.environ['KEEP_LOG']}.{host}")
    print(", ".join(f"{name} {count}" for name, count in sorted(result["counts"].items())))
    print(f"{result['gangs']} gangs, {result['binds']} pods bound, {result['again']} runs after a gang's first; "
          f"half bound at most {result['half_s']:.1f} s")  # fmt: skip
    print(f"after the last fault: all gangs whole {result['whole_s']:.1f} s, all ended {result['ended_s']:.1f} s")
    wrong = report(result)
    print("\n".join(wrong[:20]) or "no GPU twice, no gang lost, bare pods never touched")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
