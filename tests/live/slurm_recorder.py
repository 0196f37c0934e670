"""Watches a Slurm by its own tools alone: what is taken on each node, and which jobs wait while there is room."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import defaultdict
from collections.abc import Container
from typing import Any

from dally.cluster.formats.hostlist import expand_list
from tests.live.slurm_cluster import SlurmCluster

EVERY_S = 1.0


class SlurmRecorder:
    """Looks from its start to `stop`. It knows nothing of the scheduler."""

    def __init__(self, slurm: SlurmCluster) -> None:
        self.problems: list[str] = []
        self.looks: list[tuple[float, int]] = []  # moments since 1970, and GPUs that jobs have
        self.room_s: dict[
            str, float
        ] = {}  # by job: the longest that it waited while its nodes had room in every look
        self.idle_s: dict[
            str, float
        ] = {}  # and while the very same GPUs stood idle: nothing else had them meanwhile
        self._since_s: dict[str, float] = {}
        self._free_since_s: dict[tuple[str, int], float] = {}  # by GPU that nothing has
        self._slurm = slurm
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.asks: dict[
            str, tuple[int, int]
        ] = {}  # jobs that should not wait while there is room: nodes, GPUs each
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()
        self._thread.join(60.0)

    def gpu_s(self, from_s: float, to_s: float) -> float:
        """GPU seconds that jobs had between two moments."""
        total = 0.0
        for (at_s, gpus), (next_s, _) in zip(self.looks, self.looks[1:], strict=False):
            total += gpus * max(0.0, min(next_s, to_s) - max(at_s, from_s))
        return total

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            try:
                jobs = json.loads(self._slurm.run("squeue", "--json"))["jobs"]
                nodes = json.loads(self._slurm.run("sinfo", "--json"))["nodes"]
            except (AssertionError, json.JSONDecodeError, KeyError):
                continue  # slurmctld is busy
            self._look(jobs, nodes)

    def _look(self, jobs: list[dict[str, Any]], nodes: list[dict[str, Any]]) -> None:
        taken: dict[tuple[str, int], int] = {}
        cores: dict[str, int] = defaultdict(int)
        for row in jobs:
            if row["job_state"] not in ("RUNNING", "COMPLETING", "STOPPED", "SUSPENDED"):
                continue
            for gpu in _gpus(row):
                other = taken.setdefault(gpu, row["job_id"])
                if other != row["job_id"]:
                    self.problems.append(f"GPU {gpu} is of jobs {other} and {row['job_id']}")
            if row["job_state"] == "RUNNING":
                for node in (row.get("job_resources") or {}).get("allocated_nodes") or ():
                    sockets = node["sockets"].values()
                    cores[node["nodename"]] += sum(len(socket["cores"]) for socket in sockets)
        self._check(nodes, cores)
        self.looks.append((time.time(), len(taken)))
        self._see_waiting(jobs, nodes, {gpu for gpu, _ in taken.items()})

    def _check(self, nodes: list[dict[str, Any]], cores: dict[str, int]) -> None:
        for node in nodes:
            name, cpus = node["name"], node["cpus"]
            for what, used, most in (
                ("CPUs", max(cores[name], node.get("alloc_cpus") or 0), cpus),
                ("MB", node.get("alloc_memory") or 0, node["real_memory"]),
            ):
                if used > most:
                    self.problems.append(f"{name}: {used} of {most} {what} are taken")

    def _see_waiting(
        self, jobs: list[dict[str, Any]], nodes: list[dict[str, Any]], taken: set[tuple[str, int]]
    ) -> None:
        """Jobs of `asks`, plain ones that nothing but GPUs keeps: for how long there was room without a break.

        Where many short jobs come and go, some GPUs are free in every look, and others have them a moment later: a
        job that waits behind those is not starved. One is whose GPUs stand idle.
        """
        now_s = time.monotonic()
        idle_s = {node["name"]: self._idle_s(node, taken, now_s) for node in nodes}
        memory = {node["name"]: node["real_memory"] - (node.get("alloc_memory") or 0) for node in nodes}
        features = {node["name"]: set((node.get("features") or "").split(",")) for node in nodes}
        waiting = {str(row["job_id"]): row for row in jobs if row["job_state"] == "PENDING"}
        for job_id, (count, each) in list(self.asks.items()):
            row = waiting.get(job_id)
            rooms_s: list[float] = [] if row is None else sorted(
                idle_s[name][each - 1]
                for name in _allowed(row, idle_s)
                if len(idle_s[name]) >= each
                and memory[name] >= (row.get("memory_per_node") or 0)
                and _has_features(row.get("features") or "", features[name])
            )  # fmt: skip
            if len(rooms_s) < count:
                self._since_s.pop(job_id, None)
                continue
            waited_s = now_s - self._since_s.setdefault(job_id, now_s)
            self.room_s[job_id] = max(self.room_s.get(job_id, 0.0), waited_s)
            self.idle_s[job_id] = max(self.idle_s.get(job_id, 0.0), min(waited_s, rooms_s[-count]))

    def _idle_s(self, node: dict[str, Any], taken: set[tuple[str, int]], now_s: float) -> list[float]:
        """For how long each free GPU of the node has been free, the longest first; none where no job may start."""
        up = node["state"] in ("idle", "mixed", "allocated") and not node.get("state_flags")
        found = re.search(r"gpu:(?:\w+:)?(\d+)", node.get("gres") or "")
        result = []
        for number in range(int(found.group(1)) if found else 0):
            gpu = (node["name"], number)
            if gpu in taken or not up:
                self._free_since_s.pop(gpu, None)
            else:
                result.append(now_s - self._free_since_s.setdefault(gpu, now_s))
        few_cpus = (node.get("alloc_cpus") or 0) > node["cpus"] - 8
        return [] if few_cpus else sorted(result, reverse=True)


NODES = {
    "gpu": range(1, 11),
    "short": [*range(1, 11), *range(13, 17)],
    "old": range(13, 17),
}  # less the reserved ones


def _allowed(row: dict[str, Any], room: Container[str]) -> list[str]:
    """Nodes of its first partition that it does not exclude and that are nobody else's."""
    names = [f"n{number:02d}" for number in NODES[row["partition"].split(",")[0]]]
    excluded = set(expand_list(row["excluded_nodes"])) if row.get("excluded_nodes") else set()
    return [name for name in names if name in room and name not in excluded]


def _has_features(asked: str, has: set[str]) -> bool:
    """Alternatives, which is all that plain jobs of tests/live/slurm_day_site.py ask for."""
    return not asked or bool(has.intersection(asked.split("|")))


def _gpus(row: dict[str, Any]) -> set[tuple[str, int]]:
    result = set()
    for node, text in zip(expand_list(row["nodes"]) if row["nodes"] else [], row["gres_detail"], strict=False):
        for numbers in re.findall(r"IDX:([0-9,-]+)", text):
            result |= {(node, int(number)) for number in expand_list(f"[{numbers}]")}
    return result
