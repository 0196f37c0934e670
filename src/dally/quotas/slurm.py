"""Slurm's associations and QOS: `sacctmgr show assoc -P` and `sacctmgr show qos -P`, columns by their headings.

Users are leaves below their accounts, as in Slurm's fair tree. Shares are weights, GrpTRES limits.
"""

from __future__ import annotations

from math import log
from pathlib import Path
from typing import Final, NamedTuple

from dally.errors import at
from dally.input_file import lines_of, shown
from dally.quotas.tree import ANY_TYPE, Budget, QueueNode, QueueTree, Quota, checked, with_parents
from dally.traces.readers.sacct import ELAPSED

ROOT: Final = "root"
PARENT: Final = ("parent", "2147483647")  # a share that is the account's own
USUAL: Final = QueueNode("")
# Slurm lets what was used fade; at a steady pace, a cap on it is one on what is used within this time.
WINDOW_S: Final = USUAL.half_life_s / log(2.0)
FADES: Final = "GrpTRESMins caps what was used and fades: taken as a budget per 7 d / ln 2 = 10.1 d"


class _Row(NamedTuple):
    """One line of a table, by heading."""

    path: Path
    line: int
    field: dict[str, str]

    def amounts(self, key: str) -> dict[str, float]:
        """GPUs by type among `cpu=64,gres/gpu=8,gres/gpu:a100=8`; the type is empty for all together."""
        result: dict[str, float] = {}
        for item in filter(None, self.field.get(key, "").split(",")):
            name, _, count = item.partition("=")
            if name.partition(":")[0] != "gres/gpu":
                continue
            if not count.isascii() or not count.removeprefix("-").isdigit():
                raise at(self.path, self.line, key, f"{shown(item)}: must be like gres/gpu=8 or gres/gpu:a100=8")
            if not count.startswith("-"):  # -1 takes a limit away
                result[name.partition(":")[2] or ANY_TYPE] = float(count)
        return result

    def number(self, key: str) -> float:
        """A whole number that may be missing: then 0."""
        text = self.field.get(key, "")
        if text and not (text.isascii() and text.isdigit()):
            raise at(self.path, self.line, key, f"{shown(text)}: must be a whole number")
        return float(text or 0.0)


def read_slurm_shares(path: Path, text: str) -> QueueTree:
    """The tree of the associations, or one queue for each QOS."""
    rows = _rows(path, text)
    if not rows:
        raise at(path, None, None, "holds a heading only")
    notes: dict[str, None] = {}
    nodes = _associations(rows, notes) if "Account" in rows[0].field else [_qos(row, notes) for row in rows]
    return checked(path, QueueTree(with_parents(nodes), str(path), notes=notes))


def looks_like(text: str) -> bool:
    """Whether it begins with a heading of either table."""
    heading = next((line for _, line in lines_of(text) if line.strip()), "").split("|")
    return {"Account", "Share"} <= {*heading} or {"Name", "Priority"} <= {*heading}


def _rows(path: Path, text: str) -> list[_Row]:
    heading: list[str] = []
    result: list[_Row] = []
    for line, content in lines_of(text):
        fields = content.split("|")
        if not content.strip():
            continue
        if not heading:
            heading = [name.strip() for name in fields]
            continue
        if {"Account", "Share"} <= {*fields} or {"Name", "Priority"} <= {*fields}:
            raise at(path, line, None, "a second heading: give associations and QOS in a file each")
        if len(fields) != len(heading):
            raise at(path, line, None, f"{len(fields)} fields where the heading has {len(heading)}")
        result.append(_Row(path, line, dict(zip(heading, fields, strict=True))))
    return result


def _associations(rows: list[_Row], notes: dict[str, None]) -> list[QueueNode]:
    """Accounts below their parents, users below their accounts; those of root stand at the top."""
    clusters = dict.fromkeys(row.field.get("Cluster", "") for row in rows)
    if len(clusters) > 1:
        one = f"sacctmgr show assoc cluster={next(iter(clusters))} -P"
        problem = f"several: {', '.join(clusters)}; give those of one: {one}"
        raise at(rows[0].path, rows[0].line, "Cluster", problem)
    above = _parents(rows, notes)
    with_users = {row.field["Account"].strip() for row in rows if row.field.get("User")}
    nodes: dict[str, QueueNode] = {}
    for row in rows:
        account, user = row.field["Account"].strip(), row.field.get("User", "").strip()
        path = "/".join([*_chain(row, account, above), *([user.replace("/", "-")] if user else [])])
        if not path:
            if any(row.amounts(key) for key in ("GrpTRES", "GrpTRESMins")):
                notes["limits of root itself: not read"] = None
            continue
        if path in nodes:
            notes["associations by partition: the first of each user is read"] = None
            continue
        inner = not user and (account in with_users or account in above.values())
        fact, value = ("account/user", f"{account}/{user}") if user else ("account", account)
        nodes[path] = _node(row, path, notes, {} if inner else {fact: (value,)})
    return list(nodes.values())


def _parents(rows: list[_Row], notes: dict[str, None]) -> dict[str, str]:
    """The account above each account: by ParentName, or by how far a tree's names are indented."""
    named = {row.field["Account"]: row.field for row in rows if not row.field.get("User")}
    if any(field.get("ParentName") for field in named.values()):
        return {name.strip(): field["ParentName"] for name, field in named.items()}
    if not any(name.startswith(" ") for name in named):
        notes["the accounts are a flat list: `sacctmgr show assoc tree -P` shows the hierarchy"] = None
        return {name: ROOT for name in named if name != ROOT}
    result: dict[str, str] = {}
    open_accounts: list[str] = []
    for text in named:
        name = text.lstrip(" ")
        del open_accounts[len(text) - len(name) :]
        result[name] = open_accounts[-1] if open_accounts else ""
        open_accounts.append(name)
    return result


def _chain(row: _Row, account: str, above: dict[str, str]) -> list[str]:
    """The accounts from the top down to this one, root left out."""
    names: list[str] = []
    while account and account != ROOT:
        if account in names:
            raise at(row.path, row.line, "ParentName", f"{account!r} is above itself")
        names.append(account)
        account = above.get(account, "")
    return [name.replace("/", "-") for name in reversed(names)]


def _node(row: _Row, path: str, notes: dict[str, None], matches: dict[str, tuple[str, ...]]) -> QueueNode:
    share = row.field.get("Share", "")
    if share in PARENT:
        notes["users whose share is their account's (parent): weight 1"] = None
        share = "1"
    weight = _Row(row.path, row.line, {"Share": share or "1"}).number("Share")
    if weight == 0.0:
        notes["a share of 0 comes after all others: priority -1"] = None
    if row.amounts("MaxTRES"):
        notes["MaxTRES (GPUs of one job): not read"] = None
    budget = _budget(row, notes)
    priority = row.number("Priority") if weight else -1.0
    return QueueNode(path, _limits(row), weight or 1.0, priority, budget=budget, matches=matches, line=row.line)


def _qos(row: _Row, notes: dict[str, None]) -> QueueNode:
    """A queue for a QOS; whom it may preempt is a matter of priority here."""
    name = row.field["Name"]
    for key, what in (("MaxTRESPU", "GPUs of one user"), ("MaxTRES", "GPUs of one job")):
        if row.amounts(key):
            notes[f"{key} ({what}): not read"] = None
    if row.field.get("Preempt"):
        notes["Preempt, PreemptMode: not read; a higher priority is served first"] = None
    exempt = ELAPSED.fullmatch(row.field.get("PreemptExemptTime", ""))
    days, hours, minutes, seconds = (float(part or 0) for part in exempt.groups()) if exempt else (0.0,) * 4
    return QueueNode(
        name.replace("/", "-"),
        _limits(row),
        priority=row.number("Priority"),
        min_runtime_s=((days * 24 + hours) * 60 + minutes) * 60 + seconds if exempt else USUAL.min_runtime_s,
        budget=_budget(row, notes),
        matches={"qos": (name,)},
        line=row.line,
    )


def _limits(row: _Row) -> dict[str, Quota]:
    return {gpu_type: Quota(limit=gpus) for gpu_type, gpus in row.amounts("GrpTRES").items()}


def _budget(row: _Row, notes: dict[str, None]) -> Budget | None:
    minutes = row.amounts("GrpTRESMins")
    if not minutes:
        return None
    notes[FADES] = None
    return Budget(minutes.get(ANY_TYPE, sum(minutes.values())) / 60.0, WINDOW_S)
