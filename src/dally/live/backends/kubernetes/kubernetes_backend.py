"""The Kubernetes backend: a copy of pods and nodes kept by two watches, bindings, and evictions."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from dally.cluster.topology import Topology
from dally.live.backends import base
from dally.live.backends.base import (
    BackendError,
    JobByJob,
    Observed,
    Placement,
    ProgressSource,
    Publication,
    StartOrder,
    Submission,
    WaitingNotice,
)
from dally.live.backends.kubernetes import names, suspended_jobs
from dally.live.backends.kubernetes.binding import Binder, Seating
from dally.live.backends.kubernetes.elastic_jobs import BOTH_SINCE, ElasticGangs, check_startable
from dally.live.backends.kubernetes.event_writer import EventWriter
from dally.live.backends.kubernetes.evictor import POLICY_V1, Evictor
from dally.live.backends.kubernetes.fence import Fence
from dally.live.backends.kubernetes.gang_ledger import GangLedger
from dally.live.backends.kubernetes.gang_repair import GangRepair
from dally.live.backends.kubernetes.hostfiles import Hostfiles
from dally.live.backends.kubernetes.job_manifest import manifest
from dally.live.backends.kubernetes.kube_api import KubeApi
from dally.live.backends.kubernetes.kueue_watch import KueueWatch
from dally.live.backends.kubernetes.leader import Leader
from dally.live.backends.kubernetes.mirror import Mirror
from dally.live.backends.kubernetes.neighbours import Neighbours
from dally.live.backends.kubernetes.node_ledger import NO_GPUS, NodeLedger
from dally.live.backends.kubernetes.node_requests import NO_NODE
from dally.live.backends.kubernetes.node_room import NodeRoom
from dally.live.backends.kubernetes.node_usage import MachineUsage
from dally.live.backends.kubernetes.options import KubeOptions
from dally.live.backends.kubernetes.order_journal import OrderJournal
from dally.live.backends.kubernetes.overbooking import Overbooking
from dally.live.backends.kubernetes.owners import Owners, maker_of, path_of
from dally.live.backends.kubernetes.plan_seal import PlanSeal
from dally.live.backends.kubernetes.pod_gang import PodGang
from dally.live.backends.kubernetes.pod_ledger import PodLedger
from dally.live.backends.kubernetes.pod_progress import PodProgress
from dally.live.backends.kubernetes.pod_record import GangKey, PodRecord
from dally.live.backends.kubernetes.priority_watch import PriorityWatch
from dally.live.backends.kubernetes.ranks import seats
from dally.live.backends.kubernetes.scheduling_gates import SINCE, version_of
from dally.live.backends.kubernetes.suspended_jobs import SuspendedJobs
from dally.live.backends.kubernetes.tenancy import Tenancy
from dally.live.backends.kubernetes.volume_claims import VolumeClaims
from dally.live.facts import allocation_of

if TYPE_CHECKING:
    from collections.abc import Sequence

THREADS: Final = 8
READY_WITHIN_S: Final = 3.0  # a watch that broke may stand again
BEGIN_WITHIN_S: Final = 5.0  # a daemon that ended for one lost answer would only begin again
SETTLE_S: Final = 0.05  # after a change: others come with it

log = structlog.get_logger("dally")


class KubernetesBackend(JobByJob):
    """A cluster under Kubernetes. Pods that name our scheduler wait in it unbound; this alone binds them."""

    name = "kubernetes"
    resizes = True
    logs_per_s = 10.0
    answers_at_once = False

    def __init__(self, options: KubeOptions, folder: Path = Path()) -> None:
        """`folder`: for the file of queues."""
        self._options = options
        self.api = KubeApi(options.kubeconfig, options.context)
        self._changed = threading.Event()
        self._pool = ThreadPoolExecutor(THREADS, "kubernetes")
        self._seal = PlanSeal(self.api, options.lease_namespace, f"{options.scheduler_name}-scheduler-key")
        self.ledger = PodLedger(self._changed, self._ours, self._seal.holds, options.scheduler_name, options.taints)
        self.nodes = NodeLedger(options, self._changed)
        self.leader = Leader(self.api, options.lease_namespace, f"{options.scheduler_name}-scheduler")
        self._evictor = Evictor(self.api, self._pool, self.ledger, options.force)
        claims = VolumeClaims(self.api, self._pool)
        self._binder = Binder(
            self.api, self._pool, self.ledger, self.nodes, claims, self._evictor, self._seal,
            OrderJournal(self.leader), options.scheduler_name,
        )  # fmt: skip
        neighbours = Neighbours(self.ledger, self.nodes)
        self._room = NodeRoom(self.ledger, self.nodes, neighbours, claims)
        owners = Owners(self.api, self._pool)
        self._elastic = ElasticGangs(self.api, self.ledger, owners)
        self._kueue: KueueWatch | None = None
        self._priorities = PriorityWatch(self.api, folder, self._changed) if options.priorities else None
        if options.kueue:
            classes = self._priorities.classes if self._priorities is not None else dict
            self._kueue = KueueWatch(self.api, folder, self._changed, classes)
        tenancy = Tenancy(options.trust, self._kueue.queue_of if self._kueue is not None else None)
        self._suspended: SuspendedJobs | None = None
        if options.suspend:
            values = self._priorities.classes if self._priorities is not None else dict
            self._suspended = self._evictor.suspended = SuspendedJobs(self.api, self.ledger, self._ours, values)
            self._elastic.is_suspended = self._suspended.knows
        bars = self._suspended.why_not if self._suspended is not None else lambda _: ""
        self._gangs = GangLedger(
            self.ledger, self.nodes, neighbours, claims, owners, tenancy, self._ours,
            self._binder.refused, bars, self._elastic.sizes_of,
        )  # fmt: skip
        self._progress = PodProgress(self.api, self._gangs, options.logs)
        self._gang_repair = GangRepair(
            self._binder, self._evictor, self._room, self.nodes, Overbooking(self.ledger, self.nodes),
            self._gangs.abandoned, self._gangs.avoided, options.force, self.ledger.disown,
        )  # fmt: skip
        self._hostfiles = Hostfiles(self.api)
        self._event_writer: EventWriter | None = None
        if options.events:
            self._event_writer = EventWriter(self.api, options.scheduler_name, options.autoscaler_wait_s())
        self.mirrors: tuple[Mirror, ...] = (
            Mirror(self.api, "/api/v1/nodes", self.nodes),
            Mirror(self.api, "/api/v1/pods", self.ledger),
        )
        if self._suspended is not None:
            self.mirrors += (Mirror(self.api, suspended_jobs.PATH, self._suspended),)
        self._gates = False
        self._topology: Topology | None = None
        self._numbers: dict[str, int] = {}
        self._machines = MachineUsage(self.ledger.usage)
        self._claimed = False
        self._begun_term = 0  # for which `_begin_term` is done
        self._snapshot_term = 0  # who led at the latest snapshot, which repairs follow from
        self._open = False

    def _ours(self, pod: PodRecord) -> bool:
        return (
            pod.scheduler == self._options.scheduler_name
            or (self._gates and names.GATE in pod.gates)
            or pod.stated.get(names.SCHEDULER) == self._options.scheduler_name
        )

    def identity(self) -> str:
        """The server, and whom its pods name."""
        return f"{self.api.host} {self._options.scheduler_name}"

    def claim(self) -> Leader:
        """The lease, once we lead."""
        self.leader.acquire()
        self._claimed = True
        return self.leader

    @property
    def term(self) -> int:
        """How often we have won the lease."""
        return self.leader.term

    def check_term(self, term: int) -> None:
        """The lease was not lost since then, and is ours."""
        super().check_term(term)
        self._check_lease()

    def _fence(self, term: int) -> Fence:
        """For the requests that were decided in that term."""
        return Fence(self.leader, term) if self._claimed else Fence()

    def _check_lease(self) -> None:
        """A BackendError once somebody else may lead; a dry run has claimed nothing."""
        if self._claimed:
            self.leader.check()

    @property
    def generation(self) -> int:
        """Another one: nodes have joined or moved, quotas changed, or somebody else has led in between."""
        quotas = sum(watch.generation for watch in (self._kueue, self._priorities) if watch is not None)
        return self.nodes.generation + self.leader.term + quotas

    def queues(self) -> str:
        """The file of Kueue's queues, if they are watched."""
        return str(self._kueue.path) if self._kueue is not None else ""

    def usual_queues(self) -> str:
        """One queue for all, in which the cluster's priority classes count; empty: there are none."""
        return self._priorities.queues() if self._priorities is not None else ""

    # What is the case.

    def topology(self) -> Topology:
        """From the labels of the nodes that have GPUs."""
        self._ready()
        self._wait_for_nodes()
        self._topology = self.nodes.draw(lambda name: sum(pod.needs.gpus for pod in self.ledger.on_node(name)))
        self._numbers = {name: number for number, name in enumerate(self._topology.names[0])}
        self.ledger.touch_all()
        return self._topology

    def _ready(self) -> None:
        """Begin to watch, or see that the copies are up to date."""
        self._check_lease()
        if not self._open:
            version = version_of(self.api.insist("GET", "/version", None, BEGIN_WITHIN_S))
            self._gates = self._options.gates and version >= SINCE
            self._elastic.changes_both = version >= BOTH_SINCE
            self._evictor.policy = "policy/v1" if version >= POLICY_V1 else "policy/v1beta1"
            self._seal.load()
            self._begin_term()
            for mirror in self.mirrors:
                mirror.start()
            self._open = True
        self._begin_term()
        for mirror in self.mirrors:
            self._wait_listed(mirror)
            mirror.wait_ready(READY_WITHIN_S)
        if self._priorities is not None:
            self._priorities.renew(READY_WITHIN_S)
        self._wait_for_queues()

    def _begin_term(self) -> None:
        """Bind what the last leader had announced, and look at everything anew: a watch may be behind."""
        term = self.term
        if not self._claimed or term == self._begun_term:
            return
        bound = self._binder.replay(self._fence(term))
        if bound:
            log.info("completed_orders_of_last_leader", pods=bound)
        if self._open:
            for mirror in self.mirrors:
                mirror.list_anew(READY_WITHIN_S)
        self._begun_term = term

    def _wait_listed(self, mirror: Mirror) -> None:
        """A daemon that leads waits for its first copy however long that takes: to end would only begin again."""
        trouble = ""
        while self._claimed and not mirror.lists:
            try:
                mirror.wait_ready(READY_WITHIN_S)
            except BackendError as error:
                if str(error) != trouble:
                    trouble = str(error)
                    log.warning("problem", what=trouble)

    def _wait_for_queues(self) -> None:
        """The same for quotas: without them it would give GPUs to whoever asks."""
        trouble = ""
        while self._kueue is not None:
            try:
                self._kueue.renew(READY_WITHIN_S)
                return
            except BackendError as error:
                if not self._claimed:
                    raise
                self._check_lease()
                if str(error) != trouble:
                    trouble = str(error)
                    log.warning("problem", what=trouble)
                time.sleep(1.0)

    def _wait_for_nodes(self) -> None:
        """A cluster of no GPUs: all gangs are left to its autoscaler. At its start a daemon waits."""
        while self._options.autoscaler and not self.nodes.has_any():
            self._gangs.renew()
            waiting = [job.job_id for job in self._gangs.jobs() if job.managed and job.state == base.QUEUED]
            lines = tuple(WaitingNotice(job_id, NO_NODE, "", NO_GPUS, None) for job_id in waiting)
            self.publish(Publication(frozenset(waiting), lines, (), lambda _: ""))
            if self._topology is not None or not self._claimed:
                return
            self.wait(1.0)
            self._ready()

    def snapshot(self) -> Observed:
        """How things stand, from the copies; only gangs that changed are looked at anew.

        For the leader alone: what follows from it is written to the store, which another daemon may share.
        """
        term = self._snapshot_term = self.term
        self._ready()
        if self._topology is None:
            self.topology()
        self._gangs.renew()
        self._check_lease()  # that may have taken its time
        problems = [problem for mirror in self.mirrors for problem in mirror.problems()]
        problems += [
            line for watch in (self._kueue, self._priorities) if watch is not None for line in watch.problems()
        ]
        jobs = self._gangs.jobs()
        return Observed(
            jobs, self._machines.of(self.nodes.machines(), jobs, self.ledger.moves), tuple(problems), term
        )

    def wait(self, timeout_s: float) -> None:
        """Until the watches tell of something."""
        if self._changed.wait(timeout_s):
            time.sleep(min(SETTLE_S, timeout_s))
        self._changed.clear()

    # Orders.

    def start_job(self, job_id: str, placement: Placement) -> None:
        """Bind every pod of the gang, or none."""
        (problem,) = self.start([StartOrder(job_id, placement)], self.term)
        if problem:
            raise BackendError(problem)

    def start(self, orders: Sequence[StartOrder], term: int) -> list[str]:
        """The pods of all gangs at once: one gang of few would leave the server idle."""
        self.check_term(term)
        self._seal.keep()
        answers = [""] * len(orders)
        seatings: dict[int, Seating] = {}
        with ExitStack() as remaining:
            for place, (job_id, placement) in enumerate(orders):
                try:
                    seating = self._seating(job_id, placement, remaining, self._fence(term))
                except BackendError as error:
                    answers[place] = str(error)
                    continue
                if seating is not None and seating.pods[0].placeholder:
                    answers[place] = self._admit(seating)
                elif seating is not None:
                    seatings[place] = seating
            for place, problem in zip(seatings, self._binder.bind_all([*seatings.values()]), strict=True):
                answers[place] = problem
        return answers

    def _seating(self, job_id: str, placement: Placement, remaining: ExitStack, fence: Fence) -> Seating | None:
        """Who is to go where, the room kept for them; None: they are there already."""
        gang = self._gangs.find(job_id)
        if gang.bound and gang.plan == placement and gang.key not in self._gangs.abandoned:
            return None
        if self._elastic.begins(gang, self._gangs.job(gang), placement, fence):
            return None
        pods, nodes = self._seats(gang, placement)
        fence.left_s()
        remaining.enter_context(self._room.reserved(pods, nodes))
        if not pods[0].placeholder:
            self._hostfiles.write(gang, pods, nodes)
        self._gangs.abandoned.pop(gang.key, None)
        return Seating(pods, nodes, range(len(pods)), placement, self._tier(placement), fence)

    def _start_resized(self, term: int) -> list[str]:
        """Bind gangs whose Jobs have made another number of pods."""
        ready = self._elastic.ready()
        if not ready:
            return []
        self._gangs.renew()
        orders = [StartOrder(key.job_id, placement) for key, placement in ready]
        answers = zip(orders, self.start(orders, term), strict=True)
        return [f"job {order.job_id} does not start: {problem}" for order, problem in answers if problem]

    def _admit(self, seating: Seating) -> str:
        """Its Job is to make the pods first; what went wrong."""
        assert self._suspended is not None
        try:
            self._suspended.admit(seating.pods[0].key, seating.placement, seating.fence)
        except BackendError as error:
            return str(error)
        return ""

    def _start_admitted(self, term: int) -> list[str]:
        """Bind gangs of Jobs that were suspended and have made their pods, and send back those that have not."""
        if self._suspended is None:
            return []
        problems = self._suspended.send_back_late(self._fence(term))
        ready = self._suspended.ready()
        if ready:
            self._gangs.renew()
        orders = [StartOrder(key.job_id, placement) for key, placement in ready]
        for order, problem in zip(orders, self.start(orders, term) if orders else (), strict=True):
            if problem:
                pods = [pod for pod in self._gangs.pods(order.job_id) if not pod.ended]
                back = (
                    self._suspended.send_back(pods, self._fence(term))
                    if pods and self._suspended.has(pods[0])
                    else []
                )
                problems += [f"job {order.job_id} is stopped: {problem}", *back]
        return problems

    def _seats(self, gang: PodGang, placement: Placement) -> tuple[list[PodRecord], list[str]]:
        """Its pods and where each goes; a BackendError if it cannot be started so."""
        check_startable(self._gangs.job(gang), placement)
        pods = gang.waiting[: max(1, gang.due)]
        return pods, seats(pods, placement)

    def check_start(self, job_id: str, placement: Placement) -> None:
        """A BackendError unless the job could be started there now."""
        self._room.check(*self._seats(self._gangs.find(job_id), placement))

    def preempt(self, jobs: Sequence[str], term: int) -> list[str]:
        """One by one, each request in that term."""
        self.check_term(term)
        return base.answers(lambda job_id: self._preempt(job_id, self._fence(term)), jobs)

    def preempt_job(self, job_id: str) -> None:
        """Evict its pods; their controller makes new ones, which wait."""
        self._preempt(job_id, self._fence(self.term))

    def _preempt(self, job_id: str, fence: Fence) -> None:
        gang = self._gangs.find(job_id)
        self._elastic.called_back(gang.key)
        if not gang.bound:
            return
        if gang.bare:
            raise BackendError("nothing would create its pods again")
        stuck = self._evictor.evict(gang.bound, fence)
        if len(stuck) < len(gang.bound) and (not stuck or self._is_going(gang)):
            self._gangs.abandoned[gang.key] = "it was preempted"
            self.ledger.touch(gang.key)
        if stuck:
            raise BackendError(stuck[0])

    def _is_going(self, gang: PodGang) -> bool:
        return any(pod.stopping for pod in self.ledger.gang(gang.key))

    def cancel_job(self, job_id: str) -> None:
        """Delete its controller, or its pods where they have none."""
        gang = self._gangs.find(job_id)
        self._check_lease()
        owner = maker_of(gang.key, [*gang.pods(), *gang.ended])
        if owner is not None and owner.kind == "LeaderWorkerSet":
            raise BackendError(
                f"it is one group of LeaderWorkerSet {owner.name}: use kubectl, which ends all of them"
            )
        if owner is not None:
            uid = owner.uid or (gang.controller.uid if gang.controller is not None else "")
            this_one = {"preconditions": {"uid": uid}} if uid else {}
            self.api.delete(path_of(gang.key.namespace, owner), {"propagationPolicy": "Background", **this_one})
        else:
            for pod in [*gang.pods(), *gang.others]:
                self._check_lease()
                self.api.delete(pod.path)

    def drain(self, machine: str, why: str) -> None:
        """Cordon it: kubectl shows that, and an annotation why."""
        self._cordon(machine, True, why)

    def resume(self, machine: str) -> None:
        """Uncordon it."""
        self._cordon(machine, None, None)

    def _cordon(self, machine: str, cordoned: bool | None, why: str | None) -> None:
        if not self.nodes.knows(machine):
            raise BackendError(f"there is no machine {machine}")
        self._check_lease()
        body = {"metadata": {"annotations": {names.DRAINED: why}}, "spec": {"unschedulable": cordoned}}
        self.nodes.put(self.api.patch(f"/api/v1/nodes/{machine}", body))  # and not only once the watch tells

    def submit(self, request: Submission) -> str:
        """A Job of one pod per GPU."""
        if not self._options.image:
            raise BackendError(
                "jobs are submitted with kubectl; `image` in [kubernetes] of dally.toml lets us make some"
            )
        self._check_lease()
        body = manifest(request, self._options.image, self._options.scheduler_name, self._options.logs)
        space = self._options.namespace
        made = self.api.post(f"/apis/batch/v1/namespaces/{space}/jobs", body)
        return GangKey(space, "job", made["metadata"]["name"]).job_id

    def complete(self) -> list[str]:
        """Finish gangs that are half bound, or take them apart."""
        if self._topology is None:
            return []
        self._check_lease()
        problems = self._start_admitted(self._snapshot_term) + self._start_resized(self._snapshot_term)
        ours = self._gangs.ours()
        tiers = {gang.key: self._tier(gang.plan) for gang in ours if gang.bound and gang.waiting}
        return problems + self._gang_repair.repair_gangs(ours, tiers, self._fence(self._snapshot_term))

    def progress_sources(self) -> tuple[ProgressSource, ...]:
        """Where gangs that run say how far they are."""
        return self._progress.sources()

    def publish(self, publication: Publication) -> None:
        """Events and conditions of pods, written by a thread of their own."""
        if self._event_writer is not None:
            self._event_writer.publish(publication, self._gangs.pods)

    def close(self) -> None:
        """Stop watching and writing events; the lease is given back by who claimed it."""
        for mirror in self.mirrors:
            mirror.stop()
        for watch in (self._kueue, self._priorities):
            if watch is not None:
                watch.stop()
        if self._event_writer is not None:
            self._event_writer.close()
        self._pool.shutdown(wait=False)
        self.api.close()

    def _tier(self, placement: Placement) -> str:
        assert self._topology is not None
        allocation = allocation_of(self._topology, self._numbers, placement)
        return "" if allocation is None else self._topology.tiers[allocation.tier]
