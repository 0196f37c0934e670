"""`--set tier=closest`: every composed policy with its gangs held at the closest tier."""

from __future__ import annotations

import pytest

from dally.errors import InputError
from dally.policies.placement.closest_tier import TIER
from dally.policies.registry import POLICIES, build
from dally.testing.conformance import check_policy
from tests.examples import many
from tests.policies.test_baselines import Asked, run

WITH_TIER = [name for name, row in POLICIES.items() if TIER in row.params]
TWO = [[4, 4]]  # one rack of two machines


def test_who_has_it() -> None:
    assert {"fifo", "sjf", "srtf", "srsf", "las", "themis", "lwf", "gavel", "easy-backfill"} <= set(WITH_TIER)


@pytest.mark.parametrize("policy", WITH_TIER)
def test_a_gang_waits_for_a_machine(policy: str) -> None:
    # One GPU is free on each machine. The gang of two could start on both at 1; held, it waits for the shorter of
    # the two to end at 600 (an auction or a round may come a little later).
    jobs: list[Asked] = [(0, 3, 600), (0, 3, 2000), (1, 2, 5000)]
    assert run(policy, {"tier": "closest"}, TWO, jobs)[2].places[0] in ("0:2", "1:2")


@pytest.mark.parametrize("policy", ["fifo-backfill", "sjf", "lwf", "themis"])
def test_the_usual_form_splits_it(policy: str) -> None:
    assert run(policy, {}, TWO, [(0, 3, 600), (0, 3, 2000), (1, 2, 5000)])[2].places == ["0:1+1:1"]


def test_preempting_ones_empty_one_machine() -> None:
    # Remaining service: job 2 needs a whole machine, 4 x 5 = 20 GPU-s, and both running ones have more. The larger
    # remainder, job 1's, makes room; with any tier both would have been preempted in part or job 2 split.
    outcome = run("srsf", {"tier": "closest"}, TWO, [(0, 3, 100), (0, 3, 200), (10, 4, 5)])
    assert [job.finish_s for job in outcome] == [100, 205, 15]
    assert outcome[2].places == ["1:4"]


def test_a_look_at_ended_leases_is_not_used_up() -> None:
    # Two racks. Leases end at 10. Job 2 comes first (it submitted first) and needs a rack, in which too few have
    # more service than it: nobody is preempted for it. Job 3 then takes the machine of job 0, whose lease ended.
    jobs: list[Asked] = [(0, 4, 30), (0, 4, 30), (1, 4, 5)]
    assert run("las", {"tier": "closest", "lease_s": "10"}, TWO, jobs)[2] == (10, 15, ["1:4"])
    jobs = [(0, 4, 30), (5, 4, 30), (6, 8, 5), (7, 4, 5)]
    assert run("las", {"tier": "closest", "lease_s": "10"}, TWO, jobs)[3] == (10, 15, ["0:4"])


def test_the_wrapped_placement_chooses_inside_the_tier() -> None:
    # LWF takes the machine with the least work left, not the fullest one: job 1 goes to the empty machine, and
    # job 2 to the same.
    outcome = run("lwf", {"tier": "closest"}, TWO, [(0, 1, 100), (1, 1, 10), (2, 2, 5)])
    assert [job.places for job in outcome[1:]] == [["1:1"], ["1:2"]]


@pytest.mark.parametrize("policy", WITH_TIER)
def test_other_values_are_refused(policy: str) -> None:
    with pytest.raises(InputError, match="--set tier=rack: must be any or closest"):
        build(policy, {"tier": "rack"})


@pytest.mark.parametrize("policy", WITH_TIER)
def test_held_forms_keep_the_contract(policy: str) -> None:
    check_policy(lambda: build(policy, {"tier": "closest"}), examples=many(10))
