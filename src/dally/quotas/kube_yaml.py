"""Objects of Kubernetes in YAML or JSON, several in a file or in lists, with the line of everything they say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from dally.cluster.formats.yaml_lines import Value, parse_documents
from dally.errors import InputError, at
from dally.input_file import shown

_NOTHING: Final[dict[str, Value]] = {}
_SUFFIXES: Final = {"": 1.0, "m": 1e-3, "k": 1e3}  # of quantities that count things
_UNITS_S: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3}


class KubeFields(NamedTuple):
    """A mapping, and where it stands."""

    path: Path
    where: str  # team-a: spec
    line: int
    fields: dict[str, Value]

    def __contains__(self, key: object) -> bool:
        return key in self.fields and self.fields[str(key)].of not in ("", "null", "~")

    def inside(self, key: str) -> KubeFields:
        """The mapping under a key; an empty one if it is missing."""
        where = f"{self.where}.{key}".lstrip(".")
        if key not in self:
            return KubeFields(self.path, where, self.line, _NOTHING)
        value = self.fields[key]
        if not isinstance(value.of, dict):
            raise self.wrong(key, "must be a mapping of fields")
        return KubeFields(self.path, where, value.line, value.of)

    def each(self, key: str) -> list[KubeFields]:
        """The mappings of the list under a key."""
        if key not in self:
            return []
        value = self.fields[key]
        if not isinstance(value.of, list):
            raise self.wrong(key, "must be a list")
        result = []
        for item in value.of:
            if not isinstance(item.of, dict):
                raise at(
                    self.path, item.line, f"{self.where}.{key}", f"{shown(item.of)}: must be a mapping of fields"
                )
            result.append(KubeFields(self.path, f"{self.where}.{key}", item.line, item.of))
        return result

    def text(self, key: str) -> str:
        """The text under a key; empty if it is missing."""
        if key not in self:
            return ""
        result = self.fields[key].of
        if not isinstance(result, str):
            raise self.wrong(key, "must be text")
        return result

    def number(self, key: str) -> float | None:
        """The quantity under a key, such as 8, 0.5 or 500m; None if it is missing."""
        if key not in self:
            return None
        result = re.fullmatch(r"([+-]?\d{1,15}(?:\.\d{1,9})?)([mk]?)", self.text(key), re.ASCII)
        if result is None:
            raise self.wrong(key, "must be a number")
        return float(result[1]) * _SUFFIXES[result[2]]

    def seconds(self, key: str) -> float | None:
        """The length of time under a key, as Go writes it: 1h30m0s; None if it is missing."""
        if key not in self:
            return None
        text = self.text(key)
        parts = re.findall(r"(\d{1,9}(?:\.\d{1,9})?)(ms|[hms])", text, re.ASCII)
        if not parts or "".join(number + unit for number, unit in parts) != text:
            raise self.wrong(key, "must be a length of time such as 15m or 1h30m")
        return sum(float(number) * _UNITS_S[unit] for number, unit in parts)

    def wrong(self, key: str, problem: str) -> InputError:
        """An InputError about the value of a key."""
        value = self.fields.get(key)
        text, line = ("missing", self.line) if value is None else (shown(value.of), value.line)
        return at(self.path, line, f"{self.where}.{key}".lstrip("."), f"{text}: {problem}")


class KubeThing(NamedTuple):
    """An object: of which kind, how it is called, and what is asked of it."""

    kind: str
    api: str
    name: str
    namespace: str
    line: int
    spec: KubeFields
    notes: KubeFields  # its annotations
    top: KubeFields  # the object itself


def things_of(path: Path, text: str) -> list[KubeThing]:
    """All objects of the file, those in lists too."""
    result: list[KubeThing] = []
    for document in parse_documents(path, text):
        if document.of in ("", "null", "~"):
            continue
        if not isinstance(document.of, dict):
            raise at(
                path, document.line, None, f"{shown(document.of)}: must be an object with kind, metadata and spec"
            )
        top = KubeFields(path, "", document.line, document.of)
        if "items" in top:
            kind = top.text("kind").removesuffix("List")  # which raw lists say once for all
            result += [_thing(item._replace(where=""), kind) for item in top.each("items")]
        else:
            result.append(_thing(top, ""))
    return result


def _thing(fields: KubeFields, kind: str) -> KubeThing:
    kind = fields.text("kind") or kind
    if not kind:
        raise fields.wrong("kind", "every object says what it is")
    about = fields.inside("metadata")
    name = about.text("name")
    if not name:
        raise about.wrong("name", "every object has one")
    spec = fields.inside("spec")._replace(where=f"{name}: spec")
    if kind == "ResourceFlavor" and "spec" not in fields:
        spec = spec._replace(line=fields.line)
    notes = about.inside("annotations")._replace(where=f"{name}: metadata.annotations")
    return KubeThing(
        kind, fields.text("apiVersion"), name, about.text("namespace"), fields.line, spec, notes, fields
    )


def chain(path: Path, name: str, above: dict[str, str], line: int) -> str:
    """`a/b/name`: the names from the top down; an InputError if they go round in circles."""
    names = [name]
    while up := above.get(names[-1], ""):
        if up in names:
            raise at(path, line, name, f"belongs to {' which belongs to '.join([*names[1:], up])}: a circle")
        names.append(up)
    return "/".join(reversed([part.replace("/", "-") for part in names]))
