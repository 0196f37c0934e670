"""Free GPUs of every domain of a topology, kept in buckets so that the best fit is found without a scan."""

from __future__ import annotations

from librt.vecs import vec
from mypy_extensions import i64

from dally.cluster.bitset import Buckets
from dally.cluster.feasibility.feasibility import Feasibility
from dally.cluster.topology import Topology
from dally.model import INFINITY, Allocation, Job


class FreeGpus:
    """How many GPUs are free in each domain, tier by tier; machines are the domains of tier 0.

    Where jobs have constraints (`feasibility`), all counts are those that the job in focus could have.
    """

    __slots__ = (
        "_shown", "children", "feasibility", "focused", "free", "free_gpus", "in_groups", "root", "tier_buckets",
        "topology",
    )  # fmt: skip

    def __init__(self, topology: Topology) -> None:
        self.topology: Topology = topology
        self.root: i64 = len(topology.tiers) - 1
        self.free_gpus: i64 = topology.total_gpus()
        self.free: list[vec[i64]] = [vec[i64](gpus) for gpus in topology.gpus]
        self.feasibility: Feasibility | None = None  # None: no job has constraints
        self.focused: i64 = 0  # the signature that counts are for
        self.in_groups: bool = False  # whether counts are of whole groups of the job in focus
        self._shown: i64 = 0  # the version of what is open to it
        # Which domain of a tier fits best, and which child of a domain does.
        self.tier_buckets: list[Buckets] = [Buckets(self.free[tier]) for tier in range(self.root)]
        self.children: list[list[Buckets]] = [[]]
        for tier in range(1, self.root + 1):
            below = self.free[tier - 1]
            rows: list[Buckets] = []
            for domain in range(len(topology.names[tier])):
                first = topology.first_children[tier][domain]
                count = topology.child_counts[tier][domain]
                rows.append(Buckets(vec[i64](below[first : first + count])))
            self.children.append(rows)

    def free_on(self, machine: i64) -> i64:
        """Free GPUs of one machine."""
        return self.free[0][machine]

    def best_domain(self, tier: i64, gpus: i64) -> i64:
        """The domain of that tier with the fewest free GPUs that still has `gpus`, or -1."""
        if tier == self.root:
            return 0 if self.free_gpus >= gpus else -1
        return self.tier_buckets[tier].best_fit(gpus)

    def fullest(self, tier: i64, gpus: i64, most: i64) -> list[int]:
        """Up to `most` domains of that tier with room for `gpus`, fewest free GPUs first."""
        result: list[int] = []
        domain = self.best_domain(tier, gpus)
        while domain >= 0 and len(result) < most:
            result.append(int(domain))
            domain = self.tier_buckets[tier].next_fit(domain) if tier < self.root else -1
        return result

    def change(self, machine: i64, gpus: i64) -> None:
        """Add free GPUs to a machine and to every domain above it."""
        domain = machine
        for tier in range(self.root):
            parent = self.topology.parents[tier][domain]
            buckets = self.tier_buckets[tier]
            free = buckets.free[domain] + gpus
            buckets.move(domain, free)
            first = self.topology.first_children[tier + 1][parent]
            self.children[tier + 1][parent].move(domain - first, free)
            domain = parent
        self.free_gpus += gpus
        self.free[self.root][0] = self.free_gpus

    # Where jobs have constraints.

    def focus(self, job: Job | None) -> None:
        """From now on all counts are what the job could have; None: what one without constraints could."""
        if self.feasibility is not None:
            self.focus_on(job.signature if job is not None else 0)

    def focus_on(self, signature: i64) -> None:
        """The same for all jobs of a signature."""
        fit = self.feasibility
        if fit is None or (signature == self.focused and self._shown == fit.signatures.version):
            return
        self.focused = signature
        self.in_groups = signature > 0
        self._shown = fit.signatures.version
        self.show_all()

    def show_all(self) -> None:
        """Bring all counts up to date."""
        for machine in range(len(self.free[0])):
            self.show(machine)

    def show(self, machine: i64) -> None:
        """Bring the counts up to date with what the job in focus could have on the machine."""
        fit = self.feasibility
        assert fit is not None
        more = fit.usable(self.focused, machine) - self.free[0][machine]
        if more != 0:
            self.change(machine, more)

    def show_most(self, job: Job) -> None:
        """From now on all counts are what the job could have if all machines were empty, reservations aside."""
        self.focused = -1
        self.in_groups = True
        for machine in range(len(self.free[0])):
            more = self.most_on(job, machine) - self.free[0][machine]
            if more != 0:
                self.change(machine, more)

    def shift(self, allocation: Allocation, signature: i64, sign: i64) -> None:
        """A job of that signature gives back all that it has there (1), or takes it (-1)."""
        fit = self.feasibility
        assert fit is not None
        fit.shift(allocation, signature, sign)
        if fit.contends_for_licences(self.focused, signature):
            self.show_all()
            return
        for machine in allocation.machines:
            self.show(machine)

    def advance(self, now: float) -> None:
        """It is `now`: reservations may have begun or ended."""
        if self.feasibility is not None:
            self.feasibility.signatures.advance(now)

    def next_edge_s(self) -> float:
        """When the next reservation begins or ends."""
        return INFINITY if self.feasibility is None else self.feasibility.signatures.next_edge_s()

    def set_aside(self, machine: i64, gpus: i64) -> None:
        """So many free GPUs are not to be had, whoever asks; below 0: they are again."""
        fit = self.feasibility
        if fit is None:
            self.change(machine, -gpus)
        else:
            fit.set_aside(machine, gpus)
            self.show(machine)

    def all_free(self) -> i64:
        """Free GPUs, whoever may use them."""
        fit = self.feasibility
        return self.free_gpus if fit is None else fit.free_gpus

    def all_free_on(self, machine: i64) -> i64:
        """The same of one machine."""
        fit = self.feasibility
        return self.free[0][machine] if fit is None else fit.free[machine]

    def closest_tier(self, job: Job) -> i64:
        """tier*(g): the closest tier where one empty domain holds the job, or -1."""
        return self.closest_tier_of(job.gpus, job.group, job.signature)

    def closest_tier_of(self, gpus: i64, group: i64, signature: i64) -> i64:
        """The same for gangs of that size and signature, of which groups share a machine."""
        fit = self.feasibility
        if fit is None or signature == 0:
            return self.topology.closest_tier(gpus, group)
        return fit.closest_tier(signature, gpus)

    def most_on(self, job: Job, machine: i64) -> i64:
        """GPUs that the job could have on the machine if that were empty."""
        fit = self.feasibility
        return self.topology.gpus[0][machine] if fit is None else fit.most(job.signature, machine)

    def group_of(self, job: Job) -> i64:
        """GPUs of the job that must share a machine."""
        fit = self.feasibility
        return job.group if fit is None or job.signature == 0 else fit.signatures.rows[job.signature].group

    def counts_suffice(self, job: Job) -> bool:
        """Whether enough free GPUs in a domain are a place for the job once it is in focus."""
        return job.group == 1 or (self.feasibility is not None and job.signature > 0)
