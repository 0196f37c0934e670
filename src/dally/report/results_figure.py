"""The picture of the results page: every policy's mean JCT over the lower bound, cell by cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

BEST, WORST = 1.0, 30.0  # times the bound; beyond, one is as dark as the other


def results_figure(cells: Sequence[tuple[str, str, str, float]]) -> str:
    """An SVG of (workload, network, policy, times the lower bound): a heat map with the figures in it."""
    import altair as alt
    import vl_convert

    rows: list[dict[str, Any]] = [
        {
            "cell": f"{workload}, {network}",
            "policy": policy,
            "times": times,
            "shown": f"{times:.1f}" if times < 100 else f"{times:.0f}",
        }
        for workload, network, policy, times in cells
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
