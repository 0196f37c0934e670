"""A cluster that nobody runs: boards of any size, made up, to see how pages show them."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from fastapi import FastAPI

from dally.cluster.topology import Machine, Topology, default_tiers
from dally.job_spec import JobSpec
from dally.live.job_status import JobStatus
from dally.live.status import ClusterStatus, NodeStatus
from dally.web.app import handle_problems
from dally.web.auth.middleware import AuthMiddleware, Rate
from dally.web.auth.tokens import Caller
from dally.web.dashboard import team_page
from dally.web.dashboard.pages import add_pages
from dally.web.replay.replay_app import OpenAccess
from dally.web.routes.bodies import AlertBody
from dally.web.server import LocalServer

SIZES = (1, 2, 4, 8, 16, 32, 64)
MODELS = ("resnet50", "bert-large", "gpt-13b", "vit-h", "llama-70b")
USERS = ("alice", "bob", "carol", "dan", "eve", "frank")


def made_up_topology(*counts: int) -> Topology:
    """Pods of racks of machines of GPUs, as many as stated, from the top down."""
    paths: list[tuple[str, ...]] = [()]
    kinds = ("pod", "rack", "m")[-(len(counts) - 1) :]
    for kind, count in zip(kinds, counts[:-1], strict=True):
        paths = [(*path, f"{''.join(path[-1:])}{kind}{n}") for path in paths for n in range(count)]
    machines = [Machine(path[:-1], path[-1], counts[-1]) for path in paths]
    return Topology(default_tiers(len(counts)), machines)


def ragged_topology(*racks: int) -> Topology:
    """Racks of so many machines each, with 4, 8 or 16 GPUs."""
    machines = [
        Machine((f"rack{at}",), f"rack{at}m{n}", (8, 4, 8, 16)[n % 4])
        for at, count in enumerate(racks)
        for n in range(count)
    ]
    return Topology(default_tiers(3), machines)


@dataclass
class MadeUp:
    """A Scene, as far as the map asks for one."""

    topology: Topology
    seed: int = 1
    fill: float = 0.9

    is_live = True
    boot = "made-up"
    title = "cluster of the lab"
    policy = "dally"
    speed = 1.0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.watchers: list[Callable[[set[str]], None]] = []
        names = self.topology.names[0]
        self.numbers = {name: number for number, name in enumerate(names)}
        self.states = dict.fromkeys(names, ("up", ""))
        for name in self.random.sample(names, len(names) // 25):
            self.states[name] = self.random.choice((("draining", "a fan is changed"), ("down", "no answer")))
        self.now = self._filled()

    def _filled(self) -> ClusterStatus:
        free = deque((name, int(gpus)) for name, gpus in zip(self.numbers, self.topology.gpus[0], strict=True))
        free = deque(row for row in free if self.states[row[0]][0] != "down")
        jobs: list[JobStatus] = []
        left = int(self.fill * sum(gpus for _, gpus in free))
        while left:
            gpus = min(self.random.choice(SIZES), left)
            jobs.append(self._line(str(len(jobs) + 1), gpus, self._seats(gpus, free)))
            left -= gpus
        return self._status(1, jobs)

    def _seats(self, gpus: int, free: deque[tuple[str, int]]) -> dict[str, int]:
        placement: dict[str, int] = {}
        while gpus:
            name, left = free.popleft()
            here = placement[name] = min(left, gpus)
            gpus -= here
            if left > here:
                free.appendleft((name, left - here))
        return placement

    def _line(self, job_id: str, gpus: int, placement: dict[str, int]) -> JobStatus:
        numbers = [self.numbers[name] for name in placement]
        tier = 0
        while len({self.topology.domain_of(tier, number) for number in numbers}) > 1:
            tier += 1
        pick = self.random.choice
        return JobStatus(
            job_id=job_id, spec=JobSpec(gpus, name=f"train-{job_id}", user=pick(USERS), model=pick(MODELS)),
            state="running", managed=True, submit_s=1.79e9 - 9000, since_s=1.79e9 - 60 * gpus,
            place=None, placement=placement, tier=self.topology.tiers[tier], work_s=0.0,
            slowdown=1 + 0.3 * tier * self.random.random(), preemptions=0, migrations=0, why="", reason="",
            next_s=None,
        )  # fmt: skip

    def _status(self, number: int, jobs: list[JobStatus]) -> ClusterStatus:
        nodes = tuple(NodeStatus(name, (), 0, 0, *self.states[name], ()) for name in self.topology.names[0])
        gpus = self.topology.total_gpus()
        return ClusterStatus(
            at_s=float(number), wall_s=1.79e9 + number, cycle=number, jobs=tuple(jobs), nodes=nodes,
            tiers=tuple(self.topology.tiers), gpus=gpus, free_gpus=gpus - sum(line.spec.gpus for line in jobs),
            by_id={line.job_id: line for line in jobs},
        )  # fmt: skip

    def swap(self, ended: str, started: str) -> None:
        """One cycle: a job ends, and another one takes its place."""
        jobs = [line for line in self.now.jobs if line.job_id != ended]
        old = self.now.by_id[ended]
        new = self._line(started, old.spec.gpus, old.placement)
        jobs.append(new._replace(spec=replace(new.spec, user="grace")))
        self.now = self._status(self.now.cycle + 1, jobs)
        for told in self.watchers:
            told({ended, started})

    def status(self, at_s: float | None) -> ClusterStatus:
        """As it is."""
        return self.now

    def evidence(self, shown: Collection[str]) -> dict[str, str]:
        """None."""
        return {}

    def loads(self, at_s: float | None) -> dict[str, float]:
        """Of the links above machines, each another one."""
        tiers, names = self.topology.tiers, self.topology.names
        rows = [f"{tiers[tier]} {name}" for tier in range(1, len(tiers) - 1) for name in names[tier]]
        return {name: round((37 * at % 101) / 100, 2) for at, name in enumerate(rows)}

    def span(self) -> tuple[float, float]:
        """There is but one moment."""
        return 0.0, 1.0

    def moment(self, wall_s: float) -> str:
        """Nobody reads it."""
        return ""

    def alerts(self, caller: Caller) -> list[AlertBody]:
        """Nothing is wrong with it."""
        return []

    def watch(self, told: Callable[[set[str]], None]) -> None:
        """Who wants to know of cycles."""
        self.watchers.append(told)


def made_up_server(scene: MadeUp) -> LocalServer:
    """The dashboard over it."""
    app = FastAPI(openapi_url=None)
    shown: Any = scene
    add_pages(app, shown)
    app.include_router(team_page.router)  # pages of a live cluster ask for their alerts again
    app.add_middleware(AuthMiddleware, access=OpenAccess(), rate=Rate(500.0))
    handle_problems(app)
    return LocalServer(app, "127.0.0.1:0")
