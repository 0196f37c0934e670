"""Partitions: named sets of machines, who may use them, and how much of them at a time."""

from __future__ import annotations

from typing import NamedTuple

from dally.model import INFINITY, Job


class Partition(NamedTuple):
    """Jobs that name it run on its machines alone. Machines may be in several, or in none."""

    name: str
    machines: frozenset[int]
    max_gpus: int = 0  # of one job; 0: as many as there are
    time_limit_s: float = INFINITY  # jobs that ask for more are refused
    users: tuple[str, ...] = ()  # who may; nobody named: all
    accounts: tuple[str, ...] = ()

    def refuses(self, job: Job) -> str:
        """Why the job may not run there; empty if it may."""
        if self.max_gpus and job.gpus > self.max_gpus:
            return f"takes jobs of up to {self.max_gpus} GPUs, and this one asks for {int(job.gpus)}"
        if job.limit_s > self.time_limit_s:
            return f"takes jobs of up to {self.time_limit_s:g} s, and this one asks for {job.limit_s:g} s"
        if (self.users or self.accounts) and job.user not in self.users and job.account not in self.accounts:
            return f"is for others than user {job.user!r} of account {job.account!r}"
        return ""
