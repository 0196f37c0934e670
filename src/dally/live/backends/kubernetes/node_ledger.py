"""The nodes with GPUs, the tree they hang in, and what became of them since that was drawn."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import structlog

from dally.cluster.formats.from_machines import MOST_GPUS_PER_MACHINE, ImportOptions, assemble, describe
from dally.cluster.formats.kubernetes import PRESETS, TYPE_LABELS, gpu_type_of, place_nodes
from dally.cluster.topology import Machine, Topology
from dally.errors import InputError
from dally.live.backends import base
from dally.live.backends.base import BackendError, ObservedMachine
from dally.live.backends.kubernetes.kube_api import Entry
from dally.live.backends.kubernetes.label_selector import label_rules
from dally.live.backends.kubernetes.node_record import NodeRecord, node_record, why_not
from dally.live.backends.kubernetes.options import KubeOptions
from dally.live.backends.kubernetes.pod_needs import MB, UNLIMITED
from dally.live.backends.kubernetes.pod_record import PodRecord

SOURCE = Path("the nodes of the cluster")
NO_GPUS: Final = "no node has GPUs"
GONE_S: Final = 60.0  # before the tree is drawn without a node: it may only have been registered anew
log = structlog.get_logger("dally")


class NodeLedger:
    """Keeps records; `generation` counts the trees: a node that joins or moves makes the present one old."""

    def __init__(self, options: KubeOptions, changed: threading.Event) -> None:
        self.generation = 0
        self._options = options
        self._changed = changed
        self.version = 0  # counts changes of nodes
        self._changes = 0
        self._lock = threading.RLock()
        self._nodes: dict[str, NodeRecord] = {}
        self._drawn: dict[str, NodeRecord] = {}  # as they were when the tree was drawn
        self._gpus: dict[str, int] = {}  # in the tree
        self._gone_s: dict[str, float] = {}  # nodes of it that are no more, and since when
        self._allowed: dict[tuple[str, ...], frozenset[str] | None] = {}  # by the rules of a gang's pods
        self._copy: dict[str, NodeRecord] = {}  # of `_nodes`, as of version
        self._copied = -1
        self._machines: list[ObservedMachine] = []  # of the tree, as they were then:
        self._machines_of: tuple[int, dict[str, int]] = -1, {}
        self._domains: dict[str, dict[str | None, frozenset[str]]] = {}
        levels = [level for preset in PRESETS.values() for level in preset]
        placing = options.labels or tuple(name for level in levels for name in level.labels)
        self._drawn_by = (*placing, *TYPE_LABELS)
        self._rules = label_rules("nodes", options.nodes)

    # What the watch says.

    def put(self, entry: Entry) -> None:
        """A node is new or changed."""
        node = node_record(entry, self._options.taints)
        with self._lock:
            if self._nodes.get(node.name) == node:
                return
            self._nodes[node.name] = node
            if self._gpus and node.capacity_gpus and self._is_chosen(node) and not self._as_drawn(node):
                self.generation += 1
            self._note()

    def drop(self, entry: Entry) -> None:
        """A node is gone; it stays in the tree, down, until that is drawn again."""
        with self._lock:
            if self._nodes.pop(entry["metadata"]["name"], None) is not None:
                self._note()

    def only(self, entries: list[Entry]) -> None:
        """There are no others."""
        with self._lock:
            for name in self._nodes.keys() - {entry["metadata"]["name"] for entry in entries}:
                del self._nodes[name]
                self._note()

    def _note(self) -> None:
        self._changes += 1
        self.version += 1
        self._allowed.clear()
        self._changed.set()

    def _as_drawn(self, node: NodeRecord) -> bool:
        before = self._drawn.get(node.name)
        if before is None or node.capacity_gpus > before.capacity_gpus:
            return False
        return all(before.labels.get(name) == node.labels.get(name) for name in self._drawn_by)

    # What others ask.

    def draw(self, held: Callable[[str], int]) -> Topology:
        """The tree of the nodes as they are now; `held`: GPUs of a node that pods have."""
        with self._lock:
            chosen_nodes = (row for row in sorted(self._nodes.items()) if self._is_chosen(row[1]))
            nodes = {name: node for name, node in chosen_nodes if node.capacity_gpus}
            if not nodes:
                chosen = f", of those with labels {self._options.nodes}" if self._options.nodes else ""
                raise BackendError(f"{NO_GPUS}{chosen} (nvidia.com/gpu or amd.com/gpu)")
            counts = {  # pods that name their node themselves may ask for any number
                name: max(node.capacity_gpus, min(held(name), MOST_GPUS_PER_MACHINE))
                for name, node in nodes.items()
            }
            topology = self._tree(nodes, counts)
            self._drawn = dict(nodes)
            self._allowed.clear()
            self._gpus = {name: counts[name] for name in topology.names[0]}
            return topology

    def _tree(self, nodes: dict[str, NodeRecord], counts: dict[str, int]) -> Topology:
        options = ImportOptions(labels=self._options.labels, preset=self._options.preset, all_nodes=True)
        rows = [(name, dict(node.labels), counts[name]) for name, node in nodes.items()]
        try:
            imported = place_nodes(SOURCE, rows, options)
        except InputError as error:
            if options.labels or options.preset:
                raise BackendError(str(error)) from None
            log.warning("problem", what=f"{error}; taken as one flat network")
            machines = [Machine((), name, gpus, gpu_type_of(labels)) for name, labels, gpus in rows]
            return assemble(SOURCE, machines, {}, options).topology
        if imported.left_out:
            log.warning("problem", what=describe(imported.left_out))
        return imported.topology

    def take_changes(self) -> int:
        """How many changes there were since this was last asked."""
        with self._lock:
            result, self._changes = self._changes, 0
            return result

    def machines(self) -> list[ObservedMachine]:
        """Those of the tree, as they are now; the same list until one of them changes."""
        with self._lock:
            self._note_gone()
            if self._machines_of != (self.version, self._gpus):
                self._machines = [self._machine(name, gpus) for name, gpus in self._gpus.items()]
                self._machines_of = self.version, self._gpus
            return self._machines

    def _note_gone(self) -> None:
        """A tree with nodes that are gone for good holds gangs that no node could hold: it is drawn again."""
        now = time.monotonic()
        self._gone_s = {name: self._gone_s.get(name, now) for name in self._gpus if name not in self._nodes}
        is_any_left = len(self._gone_s) < len(self._gpus) or self._options.autoscaler
        if is_any_left and any(now - since_s > GONE_S for since_s in self._gone_s.values()):
            self._gone_s.clear()
            self.generation += 1

    def _machine(self, name: str, gpus: int) -> ObservedMachine:
        node = self._nodes.get(name)
        if node is None:
            kind = gpu_type_of(self._drawn[name].labels)
            return ObservedMachine(name, gpus, base.DOWN, "the node is gone", kind)
        state, reason = node.state, node.reason
        if state == base.UP and not self._is_chosen(node):
            state, reason = base.DRAINING, f"its labels no longer fit {self._options.nodes}"
        left = min(gpus, node.room.gpus)
        if left < gpus and state == base.UP:
            reason = f"{left} of its {gpus} GPUs can be given"
        room = node.room
        return ObservedMachine(
            name, left, state, reason, gpu_type_of(node.labels),
            cpus=None if room.cpus >= UNLIMITED else room.cpus,
            memory_mb=None if room.memory >= UNLIMITED else room.memory / MB, resources=dict(room.others),
            signs=tuple(name for name in node.conditions if name in self._options.conditions),
        )  # fmt: skip

    def _is_chosen(self, node: NodeRecord) -> bool:
        """Whether the operator's selector has it."""
        return all(rule.fits(node.labels) for rule in self._rules)

    def is_lost(self, name: str) -> bool:
        """Whether pods that were told to go cannot be seen to go: the node is gone, or does not answer."""
        node = self._nodes.get(name)
        return node is None or not node.ready

    def has_any(self) -> bool:
        """Whether there is one with GPUs."""
        with self._lock:
            return any(node.capacity_gpus and self._is_chosen(node) for node in self._nodes.values())

    def get(self, name: str) -> NodeRecord | None:
        """The node, if it is there."""
        return self._nodes.get(name)

    def by_name(self) -> dict[str, NodeRecord]:
        """All nodes, with GPUs or without; not to be changed."""
        with self._lock:
            if self._copied != self.version:
                self._copy, self._domains, self._copied = dict(self._nodes), {}, self.version
            return self._copy

    def domains(self, label: str) -> dict[str | None, frozenset[str]]:
        """All nodes by their value of a label; None: those without it."""
        with self._lock:
            nodes = self.by_name()
            if label not in self._domains:
                names: dict[str | None, list[str]] = {}
                for node in nodes.values():
                    names.setdefault(node.labels.get(label), []).append(node.name)
                self._domains[label] = {value: frozenset(inside) for value, inside in names.items()}
            return self._domains[label]

    def gpus(self) -> dict[str, int]:
        """GPUs of the machines of the tree."""
        return self._gpus

    def knows(self, name: str) -> bool:
        """Whether it is in the tree."""
        return name in self._gpus

    def allowed(self, pods: Sequence[PodRecord]) -> frozenset[str] | None:
        """The machines of the tree that each of these pods may run on, by its rules; None: all of them."""
        with self._lock:
            rules = {repr((pod.selector, pod.tolerations, pod.needs.kind)): pod for pod in pods}
            key = tuple(sorted(rules))
            if key not in self._allowed:
                here = [self._nodes[name] for name in self._gpus if name in self._nodes]
                names = [node.name for node in here if not any(why_not(pod, node) for pod in rules.values())]
                self._allowed[key] = None if len(names) == len(here) else frozenset(names)
            return self._allowed[key]
