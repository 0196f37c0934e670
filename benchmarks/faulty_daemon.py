"""A daemon for benchmarks of faults: it dies in each transition of the table, and its clock can jump.

usage: python -m benchmarks.faulty_daemon FOLDER CONF HOST [slurm|kubernetes|suspend] [forks]

CONF is a slurm.conf, or a kubeconfig whose context `dally` is the daemon's; with `suspend` it takes suspended Jobs.

FOLDER/killed has the transitions in which a daemon died before, and FOLDER/clock the seconds by which the clock is
wrong. FOLDER/acts has what an operator asks for: an empty file hold-JOB or release-JOB each. Where there is
FOLDER/impatient, a start or a stop is given up after 6 s instead of 120. FOLDER/policy names a policy and its share
instead of benchmarks/restless.py. With `forks`, a daemon that died is followed by another at once, without reading
the library anew: signals are then for the group of processes.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Final

from dally.live import lock
from dally.live.acts import ActRefused, Acts, Busy
from dally.live.assembly import Service
from dally.live.backends.base import Backend
from dally.live.backends.kubernetes import KubeOptions, KubernetesBackend
from dally.live.backends.slurm import SlurmBackend, lease
from dally.live.config import Config, Setup
from dally.live.cycle import CycleResult, Scheduler
from dally.live.logs import prepare
from dally.live.reconcile import orders, reconciler, transitions
from dally.live.reconcile.reconciler import JobCase

MOMENTS: Final = ("before", "after")  # the orders of the cycle are sent; some of them are under way then
POLICY: Final = f"{Path(__file__).with_name('restless.py')}:Restless"


class DeathWatch:
    """Which rows of the table this cycle used, and in which of them no daemon has died yet."""

    def __init__(self, killed: Path) -> None:
        self._killed = killed
        self._used: set[str] = set()
        self._chance = random.Random(os.getpid())
        self._row, self._send = JobCase.row, Scheduler._send
        setattr(JobCase, "row", lambda case, rows: self.row(case, rows))  # noqa: B010
        setattr(Scheduler, "_send", lambda scheduler, result: self.send(scheduler, result))  # noqa: B010

    def row(self, case: JobCase, rows: transitions.Index) -> transitions.Row | None:
        """As ever, noted."""
        row = self._row(case, rows)
        if row is not None:
            self._used.add(row.id)
        return row

    def send(self, scheduler: Scheduler, result: CycleResult) -> list[str]:
        """As ever, if this daemon does not die before."""
        before, after = (self._due(moment) for moment in MOMENTS)
        if before:
            self._die(before)
        answer = self._send(scheduler, result)
        if after:
            time.sleep(self._chance.uniform(0.0, 2.0))
            self._die(after)
        self._used.clear()
        return answer

    def _due(self, moment: str) -> str:
        if self._killed.with_suffix(".off").exists():
            return ""
        done = self._killed.read_text().splitlines() if self._killed.exists() else []
        return next((f"{row} {moment}" for row in sorted(self._used) if f"{row} {moment}" not in done), "")

    def _die(self, what: str) -> None:
        with self._killed.open("a") as file:
            file.write(f"{what}\n")
        os.kill(os.getpid(), signal.SIGKILL)


def wrong_clock(path: Path) -> None:
    """`time.time` is as wrong as that file says."""
    right = time.time

    def now() -> float:
        try:
            return right() + float(path.read_text())
        except (OSError, ValueError):
            return right()

    time.time = now


def impatient() -> None:
    """What takes minutes takes seconds."""
    reconciler.START_WITHIN_S, reconciler.RETRY_S = 6.0, 2.0  # type: ignore[misc]
    orders.SEND_AGAIN_S = 2.0  # type: ignore[misc]


def carry_out_acts(folder: Path, service: Service) -> None:
    """What operators ask for, as `dally hold` and `dally release` do it."""
    acts = Acts(service)
    verbs = {"hold": acts.hold, "release": acts.release}
    while folder.exists():
        for path in sorted(folder.iterdir()):
            what, _, job_id = path.name.partition("-")
            try:
                verbs[what](job_id, "operator", "")
            except Busy:
                continue
            except ActRefused:
                pass
            path.unlink(missing_ok=True)
        time.sleep(0.1)


def fork_again() -> None:
    """Returns in a child; a child that was killed is followed by another."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is for the child
    while (child := os.fork()) > 0:
        if not os.WIFSIGNALED(os.waitpid(child, 0)[1]):
            sys.exit()


def main() -> None:
    folder, conf, host = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    name = sys.argv[4] if len(sys.argv) > 4 else "slurm"
    suspend = name == "suspend"
    if suspend:
        name = "kubernetes"
    if sys.argv[5:] == ["forks"]:
        fork_again()
    wrong_clock(folder / "clock")
    own = folder / host
    if name == "kubernetes":  # under Slurm it has a host of its own: own_host.py
        socket.gethostname = lambda: host
        lock._places = lambda: [own / "run"]
    lease.EXPIRES_S, lease.RENEW_EVERY_S, lease.POLL_S = 8.0, 2.0, 0.5  # type: ignore[misc]
    prepare(as_json=True)
    DeathWatch(folder / "killed")
    own_policy = folder / "policy"
    stated = json.loads(own_policy.read_text()) if own_policy.exists() else {"policy": POLICY, "share": "0.1"}
    setup = Setup(stated["policy"], {"share": stated["share"]}, restart_per_gpu_s=0.0)
    if (folder / "impatient").exists():
        impatient()
    backend: Backend = SlurmBackend(partitions=("gpu",) if name == "slurm" else (), conf=conf)
    if name == "kubernetes":
        setup.preempt["usual"] = "yes"
        if not own_policy.exists():
            setup.settings["share"] = "0.02"  # its passes are many, and a gang begins anew each time
        backend = KubernetesBackend(KubeOptions(kubeconfig=conf, context="dally", suspend=suspend))
    service = Service(Config(folder=own, backend=name, setup=setup), backend)
    threading.Thread(target=carry_out_acts, args=(folder / "acts", service), daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: service.daemon.stop())
    service.daemon.run()
    service.close()


if __name__ == "__main__":
    main()
