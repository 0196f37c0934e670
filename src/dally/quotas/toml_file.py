"""queues.toml, read and written: a table for every queue, by its path; what is not written has its default."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NoReturn

from dally.errors import InputError, at
from dally.model import INFINITY
from dally.quotas.tree import (
    ANY_TYPE,
    BUDGET,
    DEFAULT,
    FACTS,
    FIELDS,
    NUMBER,
    SWITCH,
    Budget,
    Makes,
    QueueField,
    QueueNode,
    QueueTree,
    Quota,
    checked,
    valid_path,
    with_parents,
)
from dally.toml import TomlFile, toml_key, toml_text, toml_value
from dally.traces.times import UNITS_S, span_s

QUOTAS: Final = ("guarantee", "limit", "lend_limit")
PLAIN: Final = (*QUOTAS, *(field.key for field in FIELDS))
TABLES: Final = ("queues", "accounts", "priority_classes")
OF_ALL: Final = "*"  # among types of GPU: all of them together


def parse_queues(path: Path, text: str) -> QueueTree:
    """The tree that the file of this text describes."""
    return _QuotaReader(path, text).tree()


class _QuotaReader:
    """Walks the tables of one file and says where it stumbles."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._file = TomlFile(path, text)
        self._tables = self._file.tables

    def tree(self) -> QueueTree:
        self._file.only(TABLES)
        queues = self._table("queues")
        makes = self._makes(self._table("accounts")) if "accounts" in self._tables else None
        if not queues and makes is None:
            raise at(self._path, None, "queues", 'give a table for every queue, as [queues."research/nlp"]')
        nodes = [self._node(("queues", name), name, self._table("queues", name)) for name in queues]
        tree = checked(self._path, QueueTree(with_parents(nodes), str(self._path), makes, classes=self._classes()))
        above = tree.nodes.get(makes.template.path) if makes else None
        if above is not None and above.matches:
            self._fail(("accounts", "under"), above.path, "that queue claims jobs itself; only a leaf holds jobs")
        return tree

    def _classes(self) -> dict[str, float]:
        """`[priority_classes]`: names, and the least priority of their jobs."""
        result: dict[str, float] = {}
        for name, value in (self._table("priority_classes") if "priority_classes" in self._tables else {}).items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value in result.values():
                self._fail(("priority_classes", name), value, "must be a number that no other class has")
            result[name] = float(value)
        return result

    def _makes(self, row: dict[str, Any]) -> Makes:
        """`[accounts]`: a queue of its own for each account, user, partition, … of the jobs."""
        keys = ("accounts",)
        fact = row.get("make")
        if fact not in FACTS:
            self._fail((*keys, "make"), fact, f"must be one of {', '.join(FACTS)}")
        under = row.get("under", "")
        if under != "":
            self._check_path((*keys, "under"), under)
        rest = {key: value for key, value in row.items() if key not in ("make", "under")}
        return Makes(fact, self._node(keys, under, rest, made=True))

    def _node(self, keys: tuple[str, ...], name: str, row: dict[str, Any], made: bool = False) -> QueueNode:
        known = PLAIN if made else (*PLAIN, "match", "default")
        for key in row:
            if key not in known:
                more = ("make", "under") if made else ()
                self._fail((*keys, key), row[key], f"unknown; known: {', '.join((*known, *more))}")
        if not made:
            self._check_path(keys, name)
        stated: dict[str, Any] = {
            field.name: self._value((*keys, field.key), row[field.key], field)
            for field in FIELDS
            if field.key in row
        }
        quotas, matches = self._quotas(keys, row), self._matches(keys, row)
        return QueueNode(name, quotas, matches=matches, line=self._file.line(*keys), **stated)

    def _value(self, keys: tuple[str, ...], value: object, field: QueueField) -> object:
        if field.kind == BUDGET:
            return self._budget(keys, value)
        if field.kind == SWITCH:
            return self._switch(keys, value)
        if field.kind == NUMBER:
            return self._number(keys, value, field.negative, field.zero, field.infinite)
        return self._seconds(keys, value, field.zero, field.infinite)

    def _check_path(self, keys: tuple[str, ...], name: object) -> None:
        if not isinstance(name, str) or not valid_path(name):
            self._fail(keys, name, "must be names with / between them, as research/nlp")

    def _quotas(self, keys: tuple[str, ...], row: dict[str, Any]) -> dict[str, Quota]:
        """By type of GPU; a number is of all types together."""
        stated: dict[str, dict[str, float]] = {}
        for key in QUOTAS:
            value = row.get(key, {})
            by_type = value if isinstance(value, dict) else {OF_ALL: value}
            for gpu_type, gpus in by_type.items():
                place = (*keys, key, gpu_type) if isinstance(value, dict) else (*keys, key)
                if not gpu_type.strip():
                    self._fail(place, gpu_type, "must be a type of GPU, or * for all together")
                amounts = stated.setdefault(ANY_TYPE if gpu_type == OF_ALL else gpu_type, {})
                amounts[key] = self._number(place, gpus, infinite=key != "guarantee")
        quotas = {gpu_type: Quota(**amounts) for gpu_type, amounts in stated.items()}
        return {gpu_type: quota for gpu_type, quota in quotas.items() if quota != Quota()}

    def _budget(self, keys: tuple[str, ...], value: object) -> Budget:
        if not isinstance(value, dict) or value.keys() != {"gpu_hours", "window"}:
            self._fail(keys, value, 'must be like {gpu_hours = 5000, window = "30d"}')
        return Budget(
            self._number((*keys, "gpu_hours"), value["gpu_hours"]),
            self._seconds((*keys, "window"), value["window"], zero=False, infinite=True),
        )

    def _matches(self, keys: tuple[str, ...], row: dict[str, Any]) -> dict[str, tuple[str, ...]]:
        """Values by fact of a job; the default queue takes what no other claims."""
        stated = row.get("match", {})
        if not isinstance(stated, dict):
            self._fail((*keys, "match"), stated, 'must be like {account = ["a", "b"]}')
        result: dict[str, tuple[str, ...]] = {}
        for fact, value in stated.items():
            place = (*keys, "match", fact)
            values = value if isinstance(value, list) else [value]
            if fact not in FACTS:
                self._fail(place, value, f"unknown; known: {', '.join(FACTS)}")
            if not values or not all(isinstance(each, str) and each for each in values):
                self._fail(place, value, "must be a text, or a list of texts")
            result[fact] = tuple(dict.fromkeys(values))
        return {**result, **DEFAULT} if self._switch((*keys, "default"), row.get("default", False)) else result

    def _seconds(self, keys: tuple[str, ...], value: object, zero: bool = True, infinite: bool = False) -> float:
        """A number of seconds, or a text such as 7d."""
        if isinstance(value, str):
            try:
                value = span_s("", value)
            except InputError:
                self._fail(keys, value, f"must be seconds, or a number with {', '.join(filter(None, UNITS_S))}")
        return self._number(keys, value, False, zero, infinite)

    def _number(
        self,
        keys: tuple[str, ...],
        value: object,
        negative: bool = False,
        zero: bool = True,
        infinite: bool = False,
    ) -> float:
        if infinite and value == INFINITY:
            return INFINITY
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < INFINITY:
            self._fail(keys, value, "must be a number")
        if value < 0.0 and not negative:
            self._fail(keys, value, "must not be negative")
        if value == 0.0 and not zero:
            self._fail(keys, value, "must be more than 0")
        return float(value)

    def _switch(self, keys: tuple[str, ...], value: object) -> bool:
        if not isinstance(value, bool):
            self._fail(keys, value, "must be true or false")
        return value

    def _table(self, *keys: str) -> dict[str, Any]:
        value: Any = self._tables
        for key in keys:
            value = value.get(key, {})
        if not isinstance(value, dict):
            self._fail(keys, value, "must be a table")
        return value

    def _fail(self, keys: tuple[str, ...], value: object, problem: str) -> NoReturn:
        field = f"{keys[1]}: {'.'.join(keys[2:])}" if keys[0] == "queues" and len(keys) > 2 else ".".join(keys)
        self._file.fail(keys, field, value, problem)


def to_toml(tree: QueueTree) -> str:
    """The text of the file; defaults are left out."""
    lines: list[str] = []
    if tree.makes is not None:
        under = [f"under = {toml_text(tree.makes.template.path)}"] if tree.makes.template.path else []
        lines += ["[accounts]", f"make = {toml_text(tree.makes.fact)}", *under, *_facts(tree.makes.template), ""]
    if tree.classes:
        classes = (f"{toml_key(name)} = {_number(least)}" for name, least in tree.classes.items())
        lines += ["[priority_classes]", *classes, ""]
    for node in tree.nodes.values():
        lines += [f"[queues.{toml_key(node.path)}]", *_facts(node), ""]
    return "\n".join(lines[:-1]) + "\n"


def _facts(node: QueueNode) -> list[str]:
    """The lines that turn a queue of defaults into this one."""
    usual = QueueNode("")
    lines = [f"{key} = {text}" for key in QUOTAS if (text := _amounts(node, key))]
    for field in FIELDS:
        value = getattr(node, field.name)
        if value != getattr(usual, field.name):
            lines.append(f"{field.key} = {_written(value, field)}")
    stated = {fact: values for fact, values in node.matches.items() if fact not in DEFAULT}
    lines += [f"match = {toml_value(stated)}"] if stated else []
    return lines + (["default = true"] if len(stated) < len(node.matches) else [])


def _written(value: Any, field: QueueField) -> str:
    if field.kind == BUDGET:
        return f"{{gpu_hours = {_number(value.gpu_hours)}, window = {_span(value.window_s)}}}"
    if field.kind == SWITCH:
        return toml_value(value)
    return _number(value) if field.kind == NUMBER else _span(value)


def _amounts(node: QueueNode, key: str) -> str:
    """A number for all types together, or a table by type; empty if nothing is stated."""
    stated = {
        gpu_type: getattr(quota, key)
        for gpu_type, quota in node.quotas.items()
        if getattr(quota, key) != getattr(Quota(), key)
    }
    if stated.keys() == {ANY_TYPE}:
        return _number(stated[ANY_TYPE])
    items = [f"{toml_key(gpu_type or OF_ALL)} = {_number(gpus)}" for gpu_type, gpus in stated.items()]
    return f"{{{', '.join(items)}}}" if items else ""


def span_text(seconds: float) -> str:
    """`7d`, or seconds where no unit goes in."""
    for unit in ("d", "h", "m"):
        if 0.0 < seconds < INFINITY and seconds % UNITS_S[unit] == 0.0:
            return f"{seconds / UNITS_S[unit]:.0f}{unit}"
    return _number(seconds)


def _span(seconds: float) -> str:
    text = span_text(seconds)
    return toml_text(text) if text[-1] in UNITS_S else text


def _number(value: float) -> str:
    if value == INFINITY:
        return "inf"
    return str(int(value)) if abs(value) < 2**53 and value == int(value) else repr(value)
