"""What is logged of each cycle beside events: loads of links, the policy's reasons, what could start."""

from __future__ import annotations

from dally.cluster.slots import fragmentation, next_sample_s, slot_table
from dally.engine.state import State
from dally.model import RANK


def note_cycle(state: State, now: float) -> None:
    """Log all of it, once the policy's pass is over."""
    _note_links(state, now)
    _note_decisions(state, now)
    _note_slots(state, now)


def _note_links(state: State, now: float) -> None:
    """Log the links whose load changed."""
    for change in state.speed.link_loads():
        state.log.add_load(now, change.link, change.load)


def _note_decisions(state: State, now: float) -> None:
    """Log the policy's reasons."""
    for job in state.queue.reranked():
        state.log.decisions.add_rank(now, RANK, job, state.queue.key(job), state.queue.tie(job))
    for decision in state.policy.reasons.collect():
        state.log.decisions.add(now, decision)


def _note_slots(state: State, now: float) -> None:
    """Log what could start now: at the first cycle, then at the first one in each full hour since."""
    if now < state.sample_due_s:
        return
    if len(state.log.slot_times) == 0:
        state.sample_from_s = now
    state.sample_due_s = next_sample_s(now, state.sample_from_s, state.sample_every_s)
    counts = slot_table(state.cluster, state.sample_sizes)
    state.log.add_slots(now, state.cluster.free_gpus, fragmentation(state.cluster), counts)
