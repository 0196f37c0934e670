"""Dally's own policy: what waiting, moving and preempting cost, in one currency."""
