"""What users say of their jobs: `--comment` as JSON, or lines `#DALLY model=gpt2 expected=2h` of the script."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from dally.job_spec import JobSpec
from dally.live.backends.stated_facts import read_facts

_LINE = re.compile(r"^#DALLY[ \t]+(.*)$", re.MULTILINE)


def facts_of_comment(comment: str, problems: list[str]) -> JobSpec | None:
    """The facts of a comment in JSON; None: the comment is about something else."""
    if not comment.lstrip().startswith("{"):
        return None
    try:
        result = json.loads(comment)
    except (json.JSONDecodeError, RecursionError) as error:
        problems.append(f"its comment is not JSON: {error}")
        return None
    return read_facts(result, problems)


def facts_of_mark(mark: Mapping[str, str]) -> dict[str, str]:
    """What job_submit.lua found in the script; `gpus` of a mark is what the job asks for."""
    return {**mark, "gpus": mark.get("sizes", "")}


def facts_of_script(script: str, problems: list[str]) -> JobSpec:
    """The facts of its #DALLY lines."""
    return read_facts(dict(_pairs(script, problems)), problems)


def _pairs(script: str, problems: list[str]) -> Iterator[tuple[str, str]]:
    for line in _LINE.finditer(script):
        for token in line.group(1).split():
            name, equals, value = token.partition("=")
            if equals:
                yield name, value
            else:
                problems.append(f"#DALLY {token[:40]}: must be NAME=VALUE")
