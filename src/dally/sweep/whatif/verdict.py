"""Whether the answer to a what-if can be used, and if not, why: from how the replay fits, and from the record."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from dally.metrics.wait_fit import Evidence
from dally.report.time_text import brief
from dally.sweep.whatif.calibration import FEWEST, Fits

USE, ROUGH, DO_NOT_QUOTE, UNCHECKED = "use", "rough", "do not quote", "unchecked"
CLOSE = 0.25  # waits of the replay are within that of the recorded ones
FAR = 0.5  # or off by more than that
FEW = 0.05  # of jobs, or of machines
SAME_MEAN = 0.1  # mean waits no farther apart are no reason
MINUTE_S = 60.0
BESIDE_FREE = 0.3  # of jobs that waited


class Misplaced(NamedTuple):
    """How the places of the record fit the topology."""

    known: int  # jobs whose place is known
    elsewhere: int  # jobs on machines that the topology does not have
    missing: list[str]  # names of these machines
    unused: int  # machines of the topology on which no job ran, though jobs of the replay did
    machines: int


@dataclass(frozen=True)
class Verdict:
    """One of the four words, the sentence that says it, and reasons, the weightiest first."""

    level: str
    text: str
    reasons: list[str]
    off: float | None  # None: there is nothing to compare with

    def rough_by(self) -> float | None:
        """By which share figures are uncertain that may not be quoted; None: they are shown as they are."""
        return self.off if self.level == DO_NOT_QUOTE else None


def judge(
    fits: Fits, evidence: Evidence, places: Misplaced, policy: str, too_large: int = 0, network_known: bool = True,
    held: Collection[str] = (), replayed_beside_free: float = 0.0, unended: int = 0,
) -> Verdict:  # fmt: skip
    """The verdict on a replay under the policy in use; how fast links are may be no more than a guess.

    `held`: partitions and GPU types that the replay kept jobs in; `replayed_beside_free`: the share of jobs that
    wait in the replay, too, while enough GPUs are free (in other partitions, or scattered); `unended`: jobs that
    still ran at the end of the record, and are not replayed.
    """
    grave = _grave(evidence, places)
    reasons = grave + _likely(fits, evidence, policy, too_large, held, replayed_beside_free, unended)
    if fits.whole.jobs < FEWEST:
        text = f"Not checked: the trace records {fits.whole.jobs} waits. The figures below are only a simulation."
        return Verdict(DO_NOT_QUOTE if grave else UNCHECKED, text, grave, None)
    off = fits.off()
    if off > FAR or grave:
        far = f"{1 + off:.1f} times off" if off > 1.0 else f"off by {100 * off:.0f} %"
        far += ", and the record is of another cluster" if grave else ""
        text = f"The replay of your own scheduler is {far}: do not quote the figures below."
        return Verdict(DO_NOT_QUOTE, text, reasons, off)
    if off > CLOSE:
        text = (
            f"The replay of your own scheduler is off by {100 * off:.0f} %: the figures below tell which way "
            "things go, not how far."
        )
        return Verdict(ROUGH, text, reasons, off)
    within = f"within {max(1.0, 100 * off):.0f} %"
    usable = "the figures below can be used"
    if not network_known:
        usable = "waits below can be used, what the network costs is a guess"
    text = f"The replay of your own scheduler is {within} of what happened: {usable}."
    return Verdict(USE, text, [], off)


def _grave(evidence: Evidence, places: Misplaced) -> list[str]:
    """What shows that the record is of another cluster, whatever the waits say."""
    result = []
    if evidence.peak_gpus > evidence.cluster_gpus:
        result.append(
            f"the record has {evidence.peak_gpus:,} GPUs in use at once, and the cluster given has "
            f"{evidence.cluster_gpus:,}"
        )
    if places.elsewhere > FEW * (places.known + places.elsewhere):
        named = ", ".join(places.missing[:3]) + (", …" if len(places.missing) > 3 else "")
        what = f"machines that the cluster given does not have ({named})" if named else "too few GPUs of it"
        result.append(f"{places.elsewhere:,} jobs ran on {what}")
    if places.unused > FEW * places.machines and _others_needed(evidence, places):
        result.append(
            f"no job ran on {places.unused:,} of the {places.machines:,} machines of the cluster given, while "
            f"{evidence.waited:,} jobs waited"
        )
    return result


def _others_needed(evidence: Evidence, places: Misplaced) -> bool:
    """Whether a cluster would have used all its machines: places are known, and many jobs waited."""
    return places.known > 10 * places.machines and evidence.waited > FEW * evidence.jobs


def _likely(
    fits: Fits, evidence: Evidence, policy: str, too_large: int, held: Collection[str],
    replayed_beside_free: float, unended: int,
) -> list[str]:  # fmt: skip
    """What may have drawn the replay away from the record."""
    result = []
    waited = max(evidence.waited, 1)
    recorded_s, replayed_s = fits.whole.recorded_mean_s, fits.whole.replayed_mean_s
    shorter = replayed_s < recorded_s
    if unended > FEW * evidence.jobs and shorter:
        result.append(f"{unended:,} jobs still ran at the end of the record: in the replay their GPUs are free")
    if shorter and evidence.waited_beside_free > (BESIDE_FREE + replayed_beside_free) * waited:
        share = 100 * evidence.waited_beside_free / waited
        result.append(
            f"{share:.0f} % of the jobs that waited did so while enough of its GPUs were free: the cluster may "
            "have been smaller, or limits, reservations or dependencies held them back"
        )
    if fits.whole.sizes and abs(replayed_s - recorded_s) <= SAME_MEAN * max(recorded_s, MINUTE_S):
        result.append(_of_a_part(fits))
    elif not shorter and evidence.peak_gpus <= evidence.cluster_gpus:
        result.append(
            "jobs wait longer in the replay than they did: the cluster may have been larger, or its scheduler "
            "better"
        )
    if too_large:
        result.append(f"{too_large:,} jobs larger than the cluster given are left out")
    tables = {"partitions": "[[partitions]]", "types of GPU": "gpu_type of [[machines]]"}
    for kinds, what in ((evidence.partitions, "partitions"), (evidence.gpu_types, "types of GPU")):
        if len(kinds) > 1 and not set(kinds) <= set(held):
            named = ", ".join(f"{count:,} {kind}" for kind, count in list(kinds.items())[:3])
            result.append(
                f"jobs ran in {len(kinds)} {what} ({named}), and the replay lets each run anywhere: state the "
                f"machines of each by {tables[what]} in a topology file (`dally topology convert` writes one)"
            )
    if policy.startswith("slurm-backfill") and evidence.without_limit > FEW * evidence.jobs:
        result.append(f"{evidence.without_limit:,} jobs state no time limit, by which Slurm plans")
    return result


def _of_a_part(fits: Fits) -> str:
    """Where the waits are apart if not in the mean of all: in a part of the time, and there at a size."""
    parts = ((fits.first, "the first three quarters"), (fits.held_out, "the last quarter"), (fits.whole, "all"))
    part, when = max((one for one in parts if one[0].sizes), key=lambda one: one[0].off)
    worst = max(part.sizes, key=lambda size: abs(size.replayed_mean_s - size.recorded_mean_s) * size.jobs)
    return (
        f"mean waits agree over the whole record, but not by size in {when} of it: jobs of {worst.name} GPUs "
        f"waited {brief(worst.recorded_mean_s)} in the mean, and {brief(worst.replayed_mean_s)} in the replay"
    )
