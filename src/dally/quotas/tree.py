"""The tree of queues: who is guaranteed how much, who may take how much, and whose jobs go where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from dally.errors import at
from dally.input_file import shown
from dally.model import INFINITY, Job

ANY_TYPE: Final = ""  # a quota over GPUs of all types together
# Of a job, by which its queue is found, the first first. account/user: a user within an account, as `nlp/ada`.
FACTS: Final = ("queue", "account/user", "account", "partition", "qos", "user")
DEFAULT: Final = {"*": ("*",)}  # matches of the queue that takes what no other claims


@dataclass(frozen=True)
class Quota:
    """GPUs of one type, or of all together, that a queue is guaranteed and may hold."""

    guarantee: float = 0.0
    limit: float = INFINITY
    lend_limit: float = INFINITY  # of its guarantee, what others may use while it does not


@dataclass(frozen=True)
class Budget:
    """GPU-hours that a queue may use within each window, which follow one another from second 0."""

    gpu_hours: float
    window_s: float


@dataclass(frozen=True)
class QueueNode:
    """One queue as it was written down. Its path names those above it: `research/nlp` belongs to `research`."""

    path: str
    quotas: dict[str, Quota] = field(default_factory=dict)  # by type of GPU, ANY_TYPE for all together
    weight: float = 1.0  # its part of what nobody is guaranteed or uses, beside its siblings'
    priority: float = 0.0  # siblings of a higher one are served the surplus first
    half_life_s: float = 7 * 86400.0  # after which what it used counts half
    min_runtime_s: float = 600.0  # before which nobody takes a job's GPUs back
    budget: Budget | None = None
    hold: bool = False  # nobody starts
    matches: dict[str, tuple[str, ...]] = field(default_factory=dict)  # fact of a job (FACTS) to values
    line: int | None = None  # of the file, for errors

    @property
    def parent(self) -> str:
        """The path of the queue above; empty: none."""
        return self.path.rpartition("/")[0]


# QueueField.kind
NUMBER: Final = "number"
SPAN: Final = "span"  # of seconds: a number, or a text such as 7d
BUDGET: Final = "budget"
SWITCH: Final = "switch"


class QueueField(NamedTuple):
    """A value of a queue besides quotas and matches: all that reads, writes, shows or changes one goes by this."""

    key: str  # in queues.toml
    name: str  # of QueueNode
    kind: str
    heading: str  # of its column in `dally queues`; empty: the value speaks for itself
    negative: bool = False
    zero: bool = True
    infinite: bool = False


FIELDS: Final = (
    QueueField("weight", "weight", NUMBER, "weight", zero=False),
    QueueField("priority", "priority", NUMBER, "priority", negative=True),
    QueueField("half_life", "half_life_s", SPAN, "half-life", zero=False, infinite=True),
    QueueField("min_runtime", "min_runtime_s", SPAN, "min. run"),
    QueueField("budget", "budget", BUDGET, "budget"),
    QueueField("hold", "hold", SWITCH, ""),
)


@dataclass(frozen=True)
class Makes:
    """Queues that are made of the jobs: one for each value of a fact, when the first job with it comes."""

    fact: str
    template: QueueNode  # its path is that of the queue they belong to; empty: none


class QueueTree:
    """All queues by path, parents before children, siblings as written."""

    def __init__(
        self,
        nodes: list[QueueNode],
        source: str = "",
        makes: Makes | None = None,
        notes: Iterable[str] = (),
        classes: Mapping[str, float] | None = None,
    ) -> None:
        self.source = source  # the file they come from
        self.makes = makes  # what is made of jobs that no queue claims
        self.classes = dict(classes or {})  # priority classes: jobs of at least that priority, by name
        self.notes = tuple(notes)  # what the file says that has no place here
        self.nodes: dict[str, QueueNode] = {}
        self.children: dict[str, list[str]] = {"": []}
        self._by_fact: dict[tuple[str, str], str] = {}
        self._named: dict[str, str] = {}  # leaves of jobs that name one, and
        self._claimed: dict[tuple[str, ...], str | None] = {}  # of others that say the same, as far as known
        for node in nodes:
            self._add(node)
        for path in self.leaves():
            self._claim(path)

    def _add(self, node: QueueNode) -> None:
        self.nodes[node.path] = node
        self.children[node.path] = []
        self.children[node.parent].append(node.path)
        self._forget_claims()

    def _forget_claims(self) -> None:
        """Another queue may claim jobs that one has claimed so far."""
        self._named.clear()
        self._claimed.clear()

    def _claim(self, leaf: str) -> None:
        self._forget_claims()
        for fact, values in self.nodes[leaf].matches.items():
            for value in values:
                self._by_fact.setdefault((fact, value), leaf)

    def leaves(self) -> list[str]:
        """Queues that hold jobs, in the order written."""
        return [path for path in self.nodes if self.is_leaf(path)]

    def is_leaf(self, path: str) -> bool:
        """Whether the queue holds jobs: it has none below it, and none will be made there."""
        return not self.children[path] and (self.makes is None or self.makes.template.path != path)

    def above(self, path: str) -> Iterator[QueueNode]:
        """The queue itself and those above it, closest first."""
        while path:
            yield self.nodes[path]
            path = self.nodes[path].parent

    def queue_of(self, job: Job) -> str:
        """The leaf a job belongs to: the one it names, else the first fact of it that a queue claims, else ""."""
        return self._named.get(job.spec.queue) or self.claimed(job) or self._by_fact.get(("*", "*"), "")

    def claimed(self, job: Job) -> str | None:
        """The leaf that a fact of the job leads to; None: no queue claims it."""
        spec = job.spec
        named = self._named.get(spec.queue)
        if named is not None:
            return named
        facts = (spec.queue, spec.account, spec.partition, spec.qos, spec.user)
        if facts not in self._claimed:
            self._claimed[facts] = self._claimant(job)
        return self._claimed[facts]

    def _claimant(self, job: Job) -> str | None:
        for fact in FACTS:
            value = fact_of(job, fact)
            if not value:
                continue
            result = self._by_fact.get((fact, value))
            if result is None and fact == "queue" and value in self.nodes and self.is_leaf(value):
                result = value
            if result is not None:
                if fact == "queue":
                    self._named[value] = result
                return result
        return None

    def leaf_for(self, job: Job) -> str:
        """The leaf of a job that comes: as `queue_of` has it, or the one that is made for it now."""
        if self.makes is None or self.claimed(job) is not None:
            return self.queue_of(job)
        value = fact_of(job, self.makes.fact)
        return self._made(value, self.makes) if value else self.queue_of(job)

    def _made(self, value: str, makes: Makes) -> str:
        """Another leaf like the template, and those above it that nobody wrote down."""
        name = value.strip() if makes.fact == "account/user" else value.strip().replace("/", "-")
        above, _, own = "/".join(filter(None, (makes.template.path, name))).rpartition("/")
        if above in self.nodes and self.nodes[above].matches:  # only a leaf holds jobs
            above, own = "", f"{above}-{own}".replace("/", "-")
        path, number = "/".join(filter(None, (above, own))), 2
        while path in self.nodes:
            path, number = "/".join(filter(None, (above, f"{own}-{number}"))), number + 1
        for node in with_parents([replace(makes.template, path=path, matches={makes.fact: (value,)})]):
            if node.path not in self.nodes:
                self._add(node)
        self._claim(path)
        return path


def fact_of(job: Job, fact: str) -> str:
    """What the job says of one of FACTS; empty: nothing."""
    if fact == "account/user":
        return f"{job.account}/{job.user}" if job.account and job.user else ""
    return str(getattr(job, fact))


def with_parents(nodes: Iterable[QueueNode]) -> list[QueueNode]:
    """The queues, each behind those above it; a parent that nobody wrote down is made with defaults."""
    written = {node.path: node for node in nodes}
    result: dict[str, QueueNode] = {}
    for path, node in written.items():
        parts = path.split("/")
        for length in range(1, len(parts) + 1):
            above = "/".join(parts[:length])
            result.setdefault(above, written.get(above) or QueueNode(above, line=node.line))
    return list(result.values())


def checked(path: Path, tree: QueueTree) -> QueueTree:
    """The tree, or an InputError that names the queue's line, the field and the value that cannot be."""
    for node in tree.nodes.values():
        if not valid_path(node.path):
            raise at(path, node.line, None, f"{shown(node.path)}: cannot be the name of a queue")
        _limits(path, node)
        _guarantees(path, node, [tree.nodes[child] for child in tree.children[node.path]])
        if node.matches and tree.children[node.path]:
            problem = f"jobs cannot be here: {tree.children[node.path][0]!r} is below; only a leaf holds jobs"
            raise at(path, node.line, f"{node.path}: match", f"{_matches_text(node.matches)}: {problem}")
    _claims(path, tree)
    return tree


def valid_path(path: str) -> bool:
    """Whether it is names with / between them, none empty and none with space at its ends."""
    return all(part.strip() == part != "" for part in path.split("/"))


def _limits(path: Path, node: QueueNode) -> None:
    """A queue may hold at least what it is guaranteed."""
    for gpu_type, quota in node.quotas.items():
        if quota.limit < quota.guarantee:
            problem = f"{quota.limit:g}: below the guarantee of {quota.guarantee:g}"
            raise at(path, node.line, f"{node.path}: {_field('limit', gpu_type)}", problem)


def _guarantees(path: Path, node: QueueNode, children: list[QueueNode]) -> None:
    """What children are guaranteed must be their parent's to give, where the parent states anything."""
    for gpu_type, quota in node.quotas.items():
        options = sum(_guaranteed(child, gpu_type) for child in children)
        if quota.guarantee > 0.0 and options > quota.guarantee:
            raise _too_much(path, node, gpu_type, options, f"the guarantee of {quota.guarantee:g}")
        if options > quota.limit:
            raise _too_much(path, node, gpu_type, options, f"the limit of {quota.limit:g}")


def _too_much(path: Path, node: QueueNode, gpu_type: str, options: float, above: str) -> Exception:
    problem = f"its queues are guaranteed {options:g} together, above {above}"
    return at(path, node.line, f"{node.path}: {_field('guarantee', gpu_type)}", problem)


def _guaranteed(node: QueueNode, gpu_type: str) -> float:
    """GPUs of the type; of all together where only types are stated, their sum."""
    if gpu_type in node.quotas or gpu_type != ANY_TYPE:
        quota = node.quotas.get(gpu_type)
        return quota.guarantee if quota else 0.0
    return sum(quota.guarantee for quota in node.quotas.values())


def _claims(path: Path, tree: QueueTree) -> None:
    """Every fact leads to one queue."""
    claimed: dict[tuple[str, str], QueueNode] = {}
    for node in tree.nodes.values():
        for fact, values in node.matches.items():
            for value in values:
                other = claimed.setdefault((fact, value), node)
                if other is not node:
                    field, what = ("default", "true") if fact == "*" else (f"match.{fact}", repr(value))
                    where = f" (line {other.line})" if other.line else ""
                    raise at(
                        path, node.line, f"{node.path}: {field}", f"{what}: {other.path!r}{where} claims that too"
                    )


def _matches_text(matches: dict[str, tuple[str, ...]]) -> str:
    return ", ".join(f"{fact} {value!r}" for fact, values in matches.items() for value in values[:2])


def _field(name: str, gpu_type: str) -> str:
    return f"{name}.{gpu_type}" if gpu_type else name
