"""A cycle on Kubernetes looks at what changed: the same comes of it as if it looked at everything."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.kube_cycle import CREATED, Entry, RecordedCluster, node, pods_of

from dally.live.backends.kubernetes.pod_record import moment_s
from dally.live.config import Setup
from dally.live.cycle import Scheduler
from dally.live.daemon import Daemon
from dally.live.reconcile.reconciler import JobCase
from dally.live.reconcile.transitions import Index, Row
from dally.live.store import open_store
from dally.live.wall_clock import WallClock

NODES, GANGS, CYCLES = 16, 40, 24


class StepClock(WallClock):
    """Stands still between cycles."""

    at_s = 100.0

    def now(self) -> float:
        return self.at_s


class Recorded:
    """A daemon on records of a cluster that has twice as many gangs as it has room for."""

    def __init__(self, folder: Path) -> None:
        self.backend = RecordedCluster()
        for number in range(NODES):
            self.backend.nodes.put(node(number))
        self.pods: dict[str, list[Entry]] = {}
        for gang in range(GANGS):
            self.submit(gang, 1 + gang % 3)
        self.clock = StepClock(moment_s(CREATED))
        self.store = open_store(f"sqlite:///{folder}/dally.db")
        self.daemon = Daemon(self.backend, self._begin)
        self.happened: list[list[Any]] = []
        self.daemon.watchers.append(
            lambda result, _: self.happened.append(
                [(row["kind"], row["job_id"], row["placement"]) for row in result.log]
            )
        )

    def _begin(self) -> Scheduler:
        return Scheduler(self.backend, self.backend.topology(), Setup("dally"), self.store, self.clock)

    def submit(self, gang: int, size: int) -> None:
        """A gang of so many pods of 8 GPUs."""
        entries = self.pods[f"default.gang.g{gang}"] = pods_of(gang, size)
        for entry in entries:
            self.backend.ledger.put(entry)

    def end(self, job_id: str) -> None:
        """All of its pods come to a good end."""
        for entry in self.pods[job_id]:
            bound = next(
                pod.node for pod in self.backend._gangs.pods(job_id) if pod.uid == entry["metadata"]["uid"]
            )
            over = {**entry, "spec": {**entry["spec"], "nodeName": bound}, "status": {"phase": "Succeeded"}}
            self.backend.ledger.put(over)

    def ready(self, number: int, is_ready: bool) -> None:
        """What the node says of itself from now on."""
        entry = node(number)
        entry["status"]["conditions"][0]["status"] = str(is_ready)
        self.backend.nodes.put(entry)

    def running(self) -> list[str]:
        """Jobs, by name."""
        return sorted(line.job_id for line in self.daemon.status.jobs if line.state == "running")

    def cycle(self) -> list[Any]:
        """One more, 5 s later; what happened, and how things stand then."""
        self.clock.at_s += 5.0
        self.daemon.run_cycle()
        status = self.daemon.status
        return [self.happened[-1], list(status.jobs), list(status.nodes), status.problems]

    def forget(self) -> None:
        """All that was kept from earlier cycles to spare a look."""
        scheduler = self.daemon.scheduler
        assert scheduler is not None
        scheduler.roster._settled.clear()
        scheduler.constraints._jobs.clear()
        scheduler.constraints._all_machines = ()
        scheduler.constraints._reasons.clear()
        scheduler.progress._known = None
        self.backend._machines._of = -1, [], ()
        self.backend._machines._made.clear()
        self.backend._gang_repair._overbooking._clean = (), -1, -1
        self.backend.ledger.touch_all()
        for gang in self.backend._gangs.ours():
            gang.sound = False
        self.daemon.status = replace(self.daemon.status, by_id={}, nodes=())

    def close(self) -> None:
        """Let go of everything."""
        self.backend.close()
        self.store.close()


def course(folder: Path, forgets: bool) -> list[Any]:
    """Gangs end, come and lose pods, nodes go and come back."""
    folder.mkdir()
    site = Recorded(folder)
    result = [site.cycle(), site.cycle()]
    for number in range(CYCLES):
        running = site.running()
        if number % 3 < 2 and running:
            site.end(running[number % len(running)])
        if number % 4 == 1:
            site.submit(GANGS + number, 1 + number % 4)
        if number % 8 == 3:
            site.ready(number % NODES, False)
        if number % 8 == 6:
            site.backend.nodes.drop(node(number % NODES))
        if number % 8 in (4, 7):
            site.ready((number - 1) % NODES, True)
        if number % 9 == 5:
            waiting = [line.job_id for line in site.daemon.status.jobs if line.state == "waiting"]
            site.backend.ledger.drop(site.pods[waiting[0]][0])
        if forgets:
            site.forget()
        result.append(site.cycle())
    site.close()
    return result


def test_the_same_comes_of_it(tmp_path: Path) -> None:
    kept, fresh = course(tmp_path / "kept", False), course(tmp_path / "fresh", True)
    for number, (one, other) in enumerate(zip(kept, fresh, strict=True)):
        assert one == other, number
    kinds = [row[0] for happened, *_ in kept for row in happened]
    assert kinds.count("start") > 2 * NODES / 3
    assert {"finish", "fail", "repair", "hold"} <= set(kinds), set(kinds)


def test_what_did_not_change_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Recorded(tmp_path)
    for _ in range(3):
        site.cycle()
    before, snapshot = site.daemon.status, site.backend.snapshot()
    looked_at: list[str] = []
    row_of = JobCase.row

    def row(case: JobCase, rows: Index) -> Row | None:
        looked_at.append(case.known.job_id)
        return row_of(case, rows)

    monkeypatch.setattr(JobCase, "row", row)
    site.cycle()
    assert not looked_at
    after = site.backend.snapshot()
    assert after.jobs is snapshot.jobs
    assert after.machines is snapshot.machines
    assert all(one is other for one, other in zip(before.nodes, site.daemon.status.nodes, strict=True))
    waiting = [line for line in site.daemon.status.jobs if line.state == "waiting"]
    assert waiting
    assert all(line is before.by_id[line.job_id] for line in waiting)
    site.end(site.running()[0])
    site.cycle()
    assert 0 < len(set(looked_at)) <= 4, looked_at
    changed = [
        one for one, other in zip(after.machines, site.backend.snapshot().machines, strict=True) if one is not other
    ]
    assert len(changed) <= 3
    site.close()
