"""Which network running times speak for, on jobs whose figures are plain to see."""

from __future__ import annotations

import math
from dataclasses import replace

from dally.job_spec import JobSpec
from dally.sweep.whatif.calibration import groups_of, likelihoods
from dally.traces.rows import TraceRow

# Ten runs of one job, 1000 s of work; every other one at a place where it takes twice as long.
ROWS = [
    TraceRow(0, f"j{n}", 0.0, JobSpec(8, model="vgg16", name="train", user="ana"), 1000.0 * (1 + n % 2))
    for n in range(10)
]
WORKS = {
    "right": {row.job_id: math.log(1000.0) for row in ROWS},
    "near": {row.job_id: math.log(1000.0 * (1 + 0.1 * (int(row.job_id[1:]) % 2))) for row in ROWS},
    "": {row.job_id: math.log(row.stated) for row in ROWS},
}


def test_the_right_network_brings_the_work_together() -> None:
    groups = groups_of(ROWS, WORKS)
    assert groups == [[row.job_id for row in ROWS]]
    found = likelihoods(groups, WORKS)
    assert (found.jobs, found.groups, found.possible()) == (10, 1, ["right"])
    assert found.against["right"] == 0.0 < found.against["near"] < found.against[""]


def test_what_tells_nothing_is_left_out() -> None:
    other = [row._replace(spec=replace(row.spec, name=row.job_id)) for row in ROWS]
    assert groups_of(other, WORKS) == [], "no two do the same thing"
    assert groups_of([row._replace(stated=1000.0) for row in ROWS], {"right": WORKS["right"]}) == [], "all alike"
    assert likelihoods([["j0", "j1"]], WORKS).possible() == [], "two jobs are too few"
