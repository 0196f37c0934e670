"""Queues made of the jobs themselves: one for each account, user, partition, … found among them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dally.errors import unknown
from dally.model import Job
from dally.quotas.tree import FACTS, QueueNode, QueueTree, fact_of, with_parents


def queues_from_jobs(jobs: Iterable[Job], fact: str, template: QueueNode | None = None) -> QueueTree:
    """A queue like the template for each value, in the order of submission, below the queue that it names."""
    return QueueTree(with_parents(_made(jobs, fact, template or QueueNode(""), set())))


def completed(tree: QueueTree, jobs: Iterable[Job]) -> QueueTree:
    """The tree with what it wants made of the jobs; those that a queue of it claims stay where they are."""
    if tree.makes is None:
        return tree
    strangers = [job for job in jobs if tree.claimed(job) is None]
    made = _made(strangers, tree.makes.fact, tree.makes.template, set(tree.nodes))
    return QueueTree(with_parents([*tree.nodes.values(), *made]), tree.source, None, tree.notes, tree.classes)


def _made(jobs: Iterable[Job], fact: str, template: QueueNode, taken: set[str]) -> list[QueueNode]:
    if fact not in FACTS:
        raise unknown("fact of a job", fact, FACTS)
    found: list[QueueNode] = []
    for value in dict.fromkeys(fact_of(job, fact) for job in jobs):
        if value:
            path = _free("/".join(filter(None, (template.path, _name(fact, value)))), taken)
            found.append(replace(template, path=path, matches={fact: (value,)}))
    return found


def _name(fact: str, value: str) -> str:
    """The value as a part of a path; a user stands below the account."""
    return value.strip() if fact == "account/user" else value.strip().replace("/", "-")


def _free(path: str, taken: set[str]) -> str:
    """The path, or with a number behind it the first that is free; from now on it is taken."""
    free, number = path, 2
    while free in taken:
        free, number = f"{path}-{number}", number + 1
    taken.add(free)
    return free
