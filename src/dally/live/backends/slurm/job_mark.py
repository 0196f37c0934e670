"""Our note in a job's AdminComment: what Slurm forgets when it requeues or reshapes a job.

`dally:submit=1700000000;gpus=8;nodes=1;tasks=1;nodelist=n03`, beside whatever an operator wrote. Users cannot
change an AdminComment, and Slurm keeps it as long as the job.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_MESSAGE = re.compile(r"\[Dally: [^\]]*\]\s*")
LONGEST_MESSAGE = 160  # characters
_MARK = re.compile(r"(?:^|\s)dally:(\S*)")


def read_mark(admin_comment: str) -> dict[str, str] | None:
    """The note's values by name; None: the job has none."""
    result = _MARK.search(admin_comment)
    if result is None:
        return None
    pairs = ((item.partition("=")[0], item.partition("=")[2]) for item in result.group(1).split(";") if "=" in item)
    return dict(pairs)


def number_in(mark: Mapping[str, str] | None, name: str) -> int | None:
    """A whole number of the note, if it is there and is one."""
    text = (mark or {}).get(name, "")
    return int(text) if re.fullmatch(r"[0-9]{1,12}", text) else None


def without_mark(admin_comment: str) -> str:
    """What others wrote there."""
    return _MARK.sub("", _MESSAGE.sub("", admin_comment)).strip()


def with_message(admin_comment: str, message: str) -> str:
    """The AdminComment with this first, in place of an earlier one: `squeue -O admin_comment` shows it."""
    text = re.sub(r"[\[\]\s]+", " ", message).strip()[:LONGEST_MESSAGE]
    return f"[Dally: {text}] {_MESSAGE.sub('', admin_comment)}".strip()


def with_mark(admin_comment: str, mark: dict[str, str]) -> str:
    """The AdminComment with this note in place of an earlier one."""
    others = without_mark(admin_comment)
    note = "dally:" + ";".join(f"{name}={value}" for name, value in mark.items())
    return f"{others} {note}" if others else note
