"""The cluster: machines, what could start now, which jobs delay, how it fared, and the scheduler itself."""

from __future__ import annotations

from collections import Counter
from math import isinf
from typing import Annotated, Final

from fastapi import APIRouter, HTTPException, Query, Response
from fastapi.concurrency import run_in_threadpool

from dally import __version__
from dally.live.status import ClusterStatus
from dally.live.store.database import StoreError
from dally.metrics.trends import TOPICS
from dally.web.auth.tokens import Caller
from dally.web.routes.bodies import (
    MOST_GPUS,
    MOST_S,
    Holding,
    Node,
    Nodes,
    Slots,
    Status,
    Timer,
    TimersBody,
)
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
from dally.web.routes.trend_bodies import LinkBody, LinksBody, TrendNow, TrendPage, TrendSeries
from dally.web.site import Site

router = APIRouter(prefix="/api/v1", tags=["cluster"], dependencies=[BEARER])


@router.get("/nodes", response_model=Nodes, responses=answers())
async def nodes(site: AnySite, caller: AnyCaller) -> Response:
    """All machines, and who runs there."""
    status = site.status
    return json_of(site.page(status, ("nodes", *scope_of(caller)), lambda: _nodes(site, status, caller)))


def _nodes(site: Site, status: ClusterStatus, caller: Caller) -> Nodes:
    suspects = {suspect.name: suspect for suspect in site.service.health.suspects}
    shown = {line.job_id for line in visible(status.jobs, caller)}
    evidence = site.service.health.evidence(shown)
    result = [
        Node(
            name=node.name,
            domains=list(node.domains),
            gpus=node.gpus,
            free=node.free,
            state=node.state,  # type: ignore[arg-type]
            reason=node.reason,
            suspicion=suspects[node.name].probability if node.name in suspects else 0.0,
            slow_factor=suspects[node.name].factor if node.name in suspects else 1.0,
            evidence=evidence.get(node.name, ""),
            jobs=[job_id for job_id in node.jobs if job_id in shown],
        )
        for node in status.nodes
    ]
    return Nodes(at_s=status.wall_s, nodes=result)


@router.get("/links", response_model=LinksBody, responses=answers())
async def links(site: AnySite, caller: AnyCaller) -> LinksBody:
    """How busy the links between domains are, as the map draws them."""
    rows = [(name.partition(" "), load) for name, load in sorted(site.loads.items())]
    return LinksBody(
        at_s=site.status.wall_s,
        links=[LinkBody(tier=tier, domain=domain, load=load) for (tier, _, domain), load in rows],
    )


@router.get("/slots", response_model=Slots, responses=answers())
async def slots(site: AnySite, caller: AnyCaller, gpus: Annotated[int, Query(ge=1, le=MOST_GPUS)] = 8) -> Slots:
    """How many gangs of that size could start now, each inside one domain of a tier."""
    status = site.status
    counts = {tier: sum(free // gpus for free in row) for tier, row in zip(status.tiers, status.free, strict=True)}
    return Slots(at_s=status.wall_s, gpus=gpus, slots=counts)


@router.get("/timers", response_model=TimersBody, responses=answers())
async def timers(site: AnySite, caller: AnyCaller) -> Response:
    """What each demand, or job, is offered, and until when it delays for closer."""
    status = site.status
    return json_of(site.page(status, ("timers", *scope_of(caller)), lambda: _timers(status, caller)))


def _timers(status: ClusterStatus, caller: Caller) -> TimersBody:
    lines = visible(status.jobs, caller)
    shown = {line.job_id for line in lines} | {""}
    return TimersBody(
        at_s=status.wall_s,
        offers=[
            Timer(
                job_id=offer.job_id,
                gpus=offer.gpus,
                group=offer.group,
                offered=offer.tier,
                delays_s=_by_tier(status, offer.timers_s),
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
        busy_gpus=status.busy_gpus,
        jobs=dict(sorted(Counter(line.state for line in visible(status.jobs, caller)).items())),
        cycle=status.cycle,
        at_s=status.wall_s,
        failing=service.daemon.failing if is_operator(caller) else "",
        problems=list(status.problems) if is_operator(caller) else [],
    )


DAY_S: Final = 86400.0
MOST_POINTS: Final = 600

Moment = Annotated[float, Query(ge=0.0, le=MOST_S, allow_inf_nan=False)]


@router.get("/trends", response_model=TrendPage, responses=answers())
async def trends(
    site: AnySite,
    caller: AnyCaller,
    from_s: Annotated[Moment | None, Query(description="A day before `to_s` if not given.")] = None,
    to_s: Annotated[Moment | None, Query(description="Now if not given.")] = None,
    most: Annotated[int, Query(ge=2, le=10_000, description="Points; more become fewer.")] = MOST_POINTS,
) -> TrendPage:
    """GPUs used and useful, waiting by size, slots, fragmentation, timers, preemptions, CPU time of cycles."""
    until_s = site.status.wall_s if to_s is None else to_s
    return await run_in_threadpool(_between, site, until_s - DAY_S if from_s is None else from_s, until_s, most)


def _between(site: Site, from_s: float, to_s: float, most: int) -> TrendPage:
    service = site.service
    try:
        result = service.trends.trends(service.clock.moment_s(from_s), service.clock.moment_s(to_s), most)
        status, now = site.status, service.trends.now()
    except StoreError:
        raise HTTPException(503, "the store cannot be read just now; ask again") from None
    units = {topic.name: topic.unit for topic in TOPICS}
    return TrendPage(
        every_s=result.every_s,
        times_s=result.wall_s,
        series=[
            TrendSeries(
                name=one.name, topic=one.topic, label=one.label, unit=units[one.topic], values=one.values
            )
            for one in result.series
        ],
        now=TrendNow(
            at_s=status.wall_s,
            values=now.values,
            timers_s={
                gpus: dict(zip(status.tiers[1:], row, strict=False)) for gpus, row in now.timers_s.items()
            },
        ),
    )  # fmt: skip
