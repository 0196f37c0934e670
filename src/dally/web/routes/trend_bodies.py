"""Bodies of how the cluster fared, how it fares now, and how busy its links are."""

from __future__ import annotations

from pydantic import Field

from dally.web.routes.bodies import Body, Text


class TrendSeries(Body):
    """One thing that was measured, at the times of all."""

    name: str
    topic: str = Field(description="What belongs into one chart.")
    label: Text
    unit: str
    values: list[float | None] = Field(description="Null: not known.")


class TrendNow(Body):
    """The newest point, by the names of series; counts are those since the latest sample."""

    at_s: float
    values: dict[str, float]
    timers_s: dict[int, dict[str, float | None]] = Field(
        description="How long demands delay for a place closer than the tier, by GPUs; null: for ever."
    )


class TrendPage(Body):
    """How the cluster fared. Each point stands for `every_s` seconds up to its time: means, but for counts."""

    every_s: float
    times_s: list[float]
    series: list[TrendSeries]
    now: TrendNow


class LinkBody(Body):
    """The link from a domain up."""

    tier: Text
    domain: Text
    load: float = Field(description="Share of the time that it is busy, by the model of the network.")


class LinksBody(Body):
    """Links of which a load is known; none without a network."""

    at_s: float
    links: list[LinkBody]
