"""How the cluster fared over the last weeks."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, HTTPException, Query
from fastapi.concurrency import run_in_threadpool

from dally.live.store.database import StoreError
from dally.metrics.trends import TOPICS, Trends
from dally.web.routes.bodies import MOST_S, TrendPage, TrendSeries
from dally.web.routes.dependencies import BEARER, AnyCaller, AnySite, answers
from dally.web.site import Site

DAY_S: Final = 86400.0
MOST_POINTS: Final = 600

Moment = Annotated[float, Query(ge=0.0, le=MOST_S, allow_inf_nan=False)]

router = APIRouter(prefix="/api/v1", tags=["cluster"], dependencies=[BEARER])


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
    except StoreError:
        raise HTTPException(503, "the store cannot be read just now; ask again") from None
    return trend_page(result)


def trend_page(result: Trends) -> TrendPage:
    """The trends as the API tells them."""
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
    )  # fmt: skip
