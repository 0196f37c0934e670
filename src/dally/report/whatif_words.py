"""What stands around the figures of a what-if, in words, from the values of whatif.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dally.report.text_table import TextTable, plain_table
from dally.report.time_text import brief

Values = Mapping[str, Any]
GIVEN = "both are given"  # why no calibration was needed
NEAR_NOTHING_S = 60.0  # a mean wait below that tells no policies apart


def network_name(name: str, stated: bool = False) -> str:
    """What people call a network."""
    return name or ("the links that the topology states" if stated else "no network")


def trust_words(values: Values) -> list[str]:
    """How the policy in use and its network were found, and what there is to know about that."""
    found = values["calibration"]
    network = network_name(values["network"], values["links_stated"])
    if not found["searched"]:
        return [f"Replayed under {values['current']} on {network}: {_why_not_searched(values)}."]
    lines = [f"{_searched(values)} {values['current']} on {network} fits the record best."]
    lines += [told for told in (_network_words(values), _little_waiting(values)) if told]
    return lines


def _why_not_searched(values: Values) -> str:
    skipped = values["calibration"]["skipped"]
    return f"not calibrated, {skipped}" if skipped != GIVEN else "both as given"


def _searched(values: Values) -> str:
    found = values["calibration"]
    parts = []
    if len(found["policies"]) > 1:
        parts.append(f"{len(found['policies'])} policies")
    if len(found["networks"]) > 1:
        parts.append(f"{len(found['networks'])} networks")
    return f"Of {' and '.join(parts)},"


def _network_words(values: Values) -> str:
    """How sure the network is."""
    found = values["calibration"]
    if len(found["networks"]) == 1:
        return ""
    evidence, others = found["network_evidence"], found["other_networks"]
    if not evidence:
        return (
            "The record does not tell the network: that takes jobs of one name at several recorded places, with "
            "their models. What depends on it is a guess; give --network NAME."
        )
    names = ", ".join(network_name(name) for name in others)
    sure = (
        f"; {names} {'is' if len(others) == 1 else 'are'} nearly as likely"
        if others
        else ", the others are ruled out"
    )
    return f"Running times of {evidence['jobs']:,} recurring jobs speak for this network{sure}."


def _little_waiting(values: Values) -> str:
    mean_s = values["fit"]["whole"]["recorded_mean_s"]
    if mean_s >= NEAR_NOTHING_S or len(values["calibration"]["policies"]) == 1:
        return ""
    return f"The mean recorded wait is {brief(mean_s)}: hardly any jobs waited, and that tells no policies apart."


def fit_table(values: Values) -> TextTable:
    """How well waits are replayed, by size of the gang; the last line is what was held out."""
    parts = [("all", values["fit"]["whole"]), ("last quarter, held out", values["fit"]["held_out"])]
    lines = [_fit_line(size["name"], size) for size in values["fit"]["whole"]["sizes"]]
    for name, part in parts:
        if part["jobs"]:
            lines.append(_fit_line(name, part | {"off_p50": None}))
    heads = ["GPUs of the job", "waits", "recorded mean", "replayed mean", "off, median job", "off, p90 job"]
    return plain_table(heads, lines)


def _fit_line(name: str, part: Mapping[str, Any]) -> list[str]:
    means = [brief(part[key], in_table=True) for key in ("recorded_mean_s", "replayed_mean_s")]
    jobs = ["", ""] if part["off_p50"] is None else [off_words(part[key]) for key in ("off_p50", "off_p90")]
    return [name, f"{part['jobs']:,}", *means, *jobs]


def off_words(off: float) -> str:
    """How far off: 12 %, or 4.0× from twice on."""
    return f"{1 + off:,.1f}×" if off >= 1.0 else f"{100 * off:.0f} %"


def assumption_words(values: Values) -> list[str]:
    """What the answer stands on that nobody stated, and what is not in it."""
    lines = []
    if values["network_assumed"] and not values["calibration"]["searched"]:
        lines.append(f"Assumed: network {values['network']}, as the topology states no links (--network NAME).")
    if values["models_assumed"]:
        lines.append(
            f"Assumed: models of {values['models_assumed']:,} jobs, by the mix {values['mix']} (--mix NAME)."
        )
    lines += [f"{count:,} jobs {what}." for what, count in values["notes"].items()]
    missing = values["places"]["missing"]
    if missing:
        named = ", ".join(missing[:5]) + (f" and {len(missing) - 5:,} more" if len(missing) > 5 else "")
        lines.append(f"Machines of the record that the cluster does not have: {named}.")
    for key, what in (
        ("skipped", "jobs larger than the cluster"),
        ("no_longer_fit", "jobs larger than the new cluster"),
        ("unfinished", "jobs that one side or both did not finish"),
    ):
        if values[key]:
            lines.append(f"Left out: {values[key]:,} {what}.")
    return lines
