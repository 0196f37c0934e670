"""/docs: the API as one plain page. It fetches nothing, so it works on clusters without a way out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from typing import Any, Final

from dally.web.dashboard.templating import asset_url

EXAMPLES: Final = {
    "gpus": 8,
    "command": ["sleep", "60"],
    "seconds": 1800,
    "cluster_delta": "+2 racks",
    "why": "a deadline on Friday",
}


def docs_page(schema: dict[str, Any]) -> str:
    """The page of an OpenAPI schema."""
    parts = schema["components"]["schemas"]
    body = [
        "<p><a href=/>← Dally</a></p>",
        f"<h1>{escape(schema['info']['title'])} {escape(schema['info']['version'])}</h1>",
        f"<p>{escape(schema['info']['description'])}",
        " The same for programs: <a href=openapi.json>openapi.json</a>.</p>",
    ]
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            body.extend(_operation(path, method, operation, parts))
    styles = "".join(f"<link rel=stylesheet href={asset_url(name)}>" for name in ("colours.css", "docs.css"))
    wide = '<meta name=viewport content="width=device-width, initial-scale=1">'
    theme = f"<script src={asset_url('theme.js')}></script>"
    head = f"<!doctype html><html lang=en><meta charset=utf-8>{wide}<title>Dally API</title>{styles}{theme}"
    return f"{head}{''.join(body)}</html>\n"


def _operation(path: str, method: str, operation: dict[str, Any], parts: dict[str, Any]) -> Iterator[str]:
    yield f"<h2>{method.upper()} {escape(path)}</h2><p>{escape(operation.get('description', ''))}</p>"
    rows = [(f"{one['name']}", one.get("description", "")) for one in operation.get("parameters", [])]
    content = operation.get("requestBody", {}).get("content", {})
    if "application/json" in content:
        rows += _fields(content["application/json"]["schema"], parts)
    yield _table("Takes", rows)
    good = next(code for code in operation["responses"] if code.startswith("2"))
    answer = operation["responses"][good].get("content", {}).get("application/json", {})
    yield _table(f"Answers {good} with", list(_fields(answer.get("schema", {}), parts)))
    others = [(code, one["description"]) for code, one in operation["responses"].items() if code != good]
    yield f"<details><summary>Other answers</summary>{_table('', others)}</details>"
    yield f"<pre>{escape(_curl(path, method, operation, parts))}</pre>"


def _fields(schema: dict[str, Any], parts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    name = schema.get("$ref", "").rpartition("/")[2]
    for field, record in parts.get(name, {}).get("properties", {}).items():
        yield field, f"{_kind(record)}. {record.get('description', '')}"


def _kind(record: dict[str, Any]) -> str:
    """The type in words."""
    if "items" in record:
        return f"list of {_kind(record['items'])}"
    named: str = record.get("type") or record.get("$ref", "").rpartition("/")[2]
    return named or " or ".join(_kind(one) for one in record.get("anyOf", []))


def _table(title: str, rows: list[tuple[str, str]]) -> str:
    if not rows:
        return ""
    lines = "".join(f"<tr><td><code>{escape(name)}</code><td>{escape(about)}" for name, about in rows)
    return f"{f'<p>{escape(title)}:' if title else ''}<table>{lines}</table>"


def _curl(path: str, method: str, operation: dict[str, Any], parts: dict[str, Any]) -> str:
    tokens = ["curl"]
    if method != "get":
        tokens.append(f"-X {method.upper()}")
    if "requestBody" in operation:
        fields = dict(_fields(operation["requestBody"]["content"]["application/json"]["schema"], parts))
        options = json.dumps({name: value for name, value in EXAMPLES.items() if name in fields})
        tokens.append(f"-H 'Content-Type: application/json' -d '{options}'")
    if "security" in operation:
        tokens.append('-H "Authorization: Bearer $DALLY_TOKEN"')
    return " ".join([*tokens, f"$DALLY_SERVER{path}"])
