"""The cluster: its machines, what could start now, who holds out for what, and the scheduler itself."""

from __future__ import annotations

from collections import Counter
from math import isinf
from typing import Annotated

from fastapi import APIRouter, Query, Response

from dally import __version__
from dally.live.status import ClusterStatus
from dally.web.auth.tokens import Caller
from dally.web.routes.bodies import MOST_GPUS, Holding, Node, Nodes, Slots, Status, Timer, Timers
from dally.web.routes.dependencies import (
    BEARER,
    AnyCaller,
    AnySite,
    answers,
    is_operator,
    json_of,
    scope_of,
    visible,
)

router = APIRouter(prefix="/api/v1", tags=["cluster"], dependencies=[BEARER])


@router.get("/nodes", response_model=Nodes, responses=answers())
async def nodes(site: AnySite, caller: AnyCaller) -> Response:
    """All machines, and who runs there."""
    status = site.status
    return json_of(site.page(status, ("nodes", *scope_of(caller)), lambda: _nodes(status, caller)))


def _nodes(status: ClusterStatus, caller: Caller) -> Nodes:
    shown = {line.job_id for line in visible(status.jobs, caller)}
    result = [
        Node(
            name=node.name,
            domains=list(node.domains),
            gpus=node.gpus,
            free=node.free,
            state=node.state,  # type: ignore[arg-type]
            reason=node.reason,
            jobs=[job_id for job_id in node.jobs if job_id in shown],
        )
        for node in status.nodes
    ]
    return Nodes(at_s=status.wall_s, nodes=result)


@router.get("/slots", response_model=Slots, responses=answers())
async def slots(site: AnySite, caller: AnyCaller, gpus: Annotated[int, Query(ge=1, le=MOST_GPUS)] = 8) -> Slots:
    """How many gangs of that size could start now, each inside one domain of a tier."""
    status = site.status
    counts = {tier: sum(free // gpus for free in row) for tier, row in zip(status.tiers, status.free, strict=True)}
    return Slots(at_s=status.wall_s, gpus=gpus, slots=counts)


@router.get("/timers", response_model=Timers, responses=answers())
async def timers(site: AnySite, caller: AnyCaller) -> Response:
    """What each demand, or job, is offered, and until when it holds out for closer."""
    status = site.status
    return json_of(site.page(status, ("timers", *scope_of(caller)), lambda: _timers(status, caller)))


def _timers(status: ClusterStatus, caller: Caller) -> Timers:
    lines = visible(status.jobs, caller)
    shown = {line.job_id for line in lines} | {""}
    return Timers(
        at_s=status.wall_s,
        offers=[
            Timer(
                job_id=offer.job_id,
                gpus=offer.gpus,
                group=offer.group,
                offered=offer.tier,
                holds_out_s=_by_tier(status, offer.timers_s),
            )
            for offer in status.offers
            if offer.job_id in shown
        ],
        holding=[
            Holding(job_id=line.job_id, gpus=line.spec.gpus, why=line.why, next_s=line.next_s)
            for line in lines
            if line.next_s is not None
        ],
        tuned={gpus: _by_tier(status, row) for gpus, row in status.timers_s.items()},
    )


def _by_tier(status: ClusterStatus, timers_s: tuple[float, ...]) -> dict[str, float | None]:
    pairs = zip(status.tiers[1:], timers_s, strict=False)
    return {tier: None if isinf(timer_s) else timer_s for tier, timer_s in pairs}


@router.get("/status", response_model=Status, responses=answers())
async def status(site: AnySite, caller: AnyCaller) -> Status:
    """The scheduler: what it schedules, how, and whether it does."""
    status, service = site.status, site.service
    return Status(
        version=__version__,
        backend=service.config.backend,
        policy=service.config.setup.policy,
        dry_run=service.config.dry_run,
        speed=service.config.speed,
        machines=service.topology.machine_count(),
        gpus=service.topology.total_gpus(),
        free_gpus=status.free_gpus,
        jobs=dict(sorted(Counter(line.state for line in visible(status.jobs, caller)).items())),
        cycle=status.cycle,
        at_s=status.wall_s,
        failing=service.daemon.failing if is_operator(caller) else "",
        problems=list(status.problems) if is_operator(caller) else [],
    )
