"""Themis's order: GPUs go to those farthest behind what a fair share would have given them."""

from __future__ import annotations

from math import ceil, log

from mypy_extensions import mypyc_attr

from dally.cluster.capacity import Cluster
from dally.model import CANCELLED, INFINITY, RUNNING, Job
from dally.policies.ordering.base import Order
from dally.policies.preemption.rules import next_round_s

BIDDER, OTHER, NEWCOMER = 0.0, 1.0, 2.0


@mypyc_attr(allow_interpreted_subclasses=True)
class FinishTimeFairness(Order):
    """By finish-time fairness: rho = time to finish in the shared cluster ÷ time on a fair share of it.

    Mahajan et al., Themis, NSDI 2020. In the paper, no job should be worse off than on its own share of the
    cluster, and the authors report more than 2.25 times better fairness than other schedulers; this
    implementation reaches that too (tests/policies/test_claims.py). A low mean JCT is not its aim. Every
    `lease_s` seconds there is an auction. The 1 - f of the jobs with the worst rho bid, and the job that gains
    most per GPU comes first. The gain is the logarithm of rho after waiting one more lease over rho when
    running now. The remaining work is timed at the present rate of a running gang, and at the closest tier of a
    waiting one. Bidders may take the GPUs of the other jobs, which keep what the bidders leave. Ranks stay
    until the next auction, and jobs that arrive in between come last. Departures from the paper: each job is an
    app of its own, its remaining time is known, gangs are not split, all leases end at auctions, and a fair
    share is 1/N of the cluster, where N is the mean over the job's life of all demands ÷ GPUs, at least 1.
    Hidden payments are left out: the jobs of a trace have no reason to misreport their rates.
    """

    def __init__(self, lease_s: float, fairness: float) -> None:
        self._lease_s: float = lease_s
        self._fairness: float = fairness  # f
        self._first_s: float = INFINITY  # the first submission, from which auctions count
        self._next_s: float = -INFINITY  # auction
        self._jobs: dict[int, Job] = {}  # in the system
        self._ranks: dict[int, tuple[float, float]] = {}  # from the latest auction
        self._gpus: float = 1.0  # of the cluster, known from the first pass on
        self._demand: float = 0.0  # of all jobs in the system, in GPUs
        self._since_s: float = 0.0
        self._integral: float = 0.0  # of the contention over time, up to `_since_s`
        self._before: dict[int, float] = {}  # the integral at each job's submission

    def contention(self) -> float:
        """N: how many times over the cluster is asked for, at least 1."""
        demand = self._demand / self._gpus
        return demand if demand > 1.0 else 1.0

    def rho(self, job: Job, now: float, later_s: float = 0.0) -> float:
        """Finish-time fairness if the job gets GPUs `later_s` from now; above 1: worse off than on its share."""
        age_s = now - job.submit_s
        integral = self._integral + (now - self._since_s) * self.contention() - self._before[int(job.index)]
        share = integral / age_s if age_s > 0.0 else self.contention()
        fair_s = job.duration_s * share
        return (age_s + later_s + self._left_s(job, now, later_s)) / fair_s if fair_s > 0.0 else 1.0

    def _left_s(self, job: Job, now: float, later_s: float) -> float:
        """Seconds to finish: where it is, or, for one that waits or would have to, at its closest tier."""
        if job.status == RUNNING and later_s == 0.0 and job.rate > 0.0:
            return job.remaining_s(now) / job.rate
        return job.remaining_s(now) * self.view.best(job)

    def key(self, job: Job, now: float) -> float:
        return self._ranks.get(int(job.index), (NEWCOMER, 0.0))[0]

    def tie(self, job: Job) -> float:
        return self._ranks.get(int(job.index), (NEWCOMER, 0.0))[1]

    def changed(self, now: float, cluster: Cluster) -> list[Job]:
        self._gpus = float(cluster.topology.total_gpus())
        # With nothing running all leases have ended, so it is an auction whenever GPUs come back or a job comes.
        if self._first_s == INFINITY or (now < self._next_s and len(cluster.running) > 0):
            return []
        self._next_s = next_round_s(now, self._lease_s, self._first_s)
        self._auction(now)
        return list(self._jobs.values())

    def _auction(self, now: float) -> None:
        rhos = {index: self.rho(job, now) for index, job in self._jobs.items()}
        worst = sorted(rhos.values(), reverse=True)
        bidders = max(1, ceil((1.0 - self._fairness) * len(worst) - 1e-9))
        limit = worst[bidders - 1] if worst else 0.0
        self._ranks.clear()
        for index, rho in rhos.items():
            if rho < limit:
                self._ranks[index] = (OTHER, -rho)
            else:
                job = self._jobs[index]
                gain = log(self.rho(job, now, self._lease_s) / rho) if rho > 0.0 else 0.0
                self._ranks[index] = (BIDDER, -gain / float(job.gpus))

    def queued(self, job: Job, now: float) -> None:
        if self._first_s == INFINITY:
            self._first_s = now
            self._since_s = now
        if int(job.index) not in self._jobs:
            self._change_demand(float(job.gpus), now)
            self._jobs[int(job.index)] = job
            self._before.setdefault(int(job.index), self._integral)

    def finished(self, job: Job, now: float) -> None:
        self._change_demand(-float(job.gpus), now)
        self._ranks.pop(int(job.index), None)
        del self._jobs[int(job.index)]
        del self._before[int(job.index)]

    def withdrawn(self, job: Job, now: float) -> None:
        if int(job.index) in self._jobs:
            self._change_demand(-float(job.gpus), now)
            del self._jobs[int(job.index)]
        if job.status == CANCELLED:
            self._ranks.pop(int(job.index), None)
            self._before.pop(int(job.index), None)  # none if it was put on hold as it came

    def _change_demand(self, gpus: float, now: float) -> None:
        self._integral += (now - self._since_s) * self.contention()
        self._since_s = now
        self._demand += gpus
