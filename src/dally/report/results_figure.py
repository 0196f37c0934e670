"""The picture of the results page: every policy's mean JCT over the lower bound, cell by cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dally.metrics.comparison import Contest
from dally.metrics.metric_list import JCT_MEAN

BEST, WORST = 1.0, 30.0  # times the bound; beyond, one is as dark as the other


def results_figure(contests: Sequence[Contest]) -> str:
    """An SVG: a heat map of how many times the lower bound each policy takes, with the figures in it."""
    import altair as alt
    import vl_convert

    rows: list[dict[str, Any]] = [
        {
            "cell": contest.name(),
            "policy": entry.label,
            "times": result.times_bound.mean,
            "shown": f"{result.times_bound.mean:.{0 if result.times_bound.mean >= 100 else 1}f}",
        }
        for contest in contests
        for entry in contest.entries
        if (result := entry.standings.get(JCT_MEAN.key)) and result.times_bound
    ]
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    columns = list(dict.fromkeys(row["cell"] for row in rows))
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("cell:N", sort=columns, title="workload, network", axis=alt.Axis(labelAngle=-60, orient="top")),
        y=alt.Y("policy:N", sort=policies, title="policy (name)"),
    )
    scale = alt.Scale(type="log", domain=[BEST, WORST], scheme="yelloworangered", clamp=True)
    squares = base.mark_rect().encode(
        color=alt.Color("times:Q", scale=scale, title="mean JCT ÷ lower bound (times)")
    )
    figures = base.mark_text(fontSize=8).encode(
        text="shown:N", color=alt.condition(alt.datum.times > 10.0, alt.value("white"), alt.value("#222"))
    )
    chart = (squares + figures).properties(width=26 * len(columns), height=16 * len(policies))
    return str(vl_convert.vegalite_to_svg(chart.to_json()))
