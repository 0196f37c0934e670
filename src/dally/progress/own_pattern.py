"""A user's own pattern for lines that no framework prints."""

from __future__ import annotations

import re

from dally.errors import InputError, unknown
from dally.progress.line_progress import LineProgress
from dally.progress.line_text import NUMBER, overwritten, real, whole

LONGEST = 200  # characters of a pattern
EXAMPLE = "'round {step} of {total}, {s_per_step} s'"


class OwnPattern:
    """Text with {step}, {total}, {epoch}, {epochs} or {s_per_step} where a number stands; all else is literal."""

    def __init__(self, text: str, option: str = "--pattern") -> None:
        names = re.findall(r"\{(\w+)\}", text)
        for name in names:
            if name not in LineProgress._fields:
                raise InputError(f"{option}: {unknown('number', name, LineProgress._fields)}")
        if not {"step", "epoch"} & set(names):
            raise InputError(f"{option} {text[:80]!r}: must have {{step}} or {{epoch}}, as in {EXAMPLE}")
        if len(set(names)) < len(names):
            raise InputError(f"{option} {text[:80]!r}: has a number twice")
        if len(text) > LONGEST:
            raise InputError(f"{option}: is longer than {LONGEST} characters")
        parts = re.split(r"\{(\w+)\}", text)
        if "" in parts[2:-1:2]:
            raise InputError(f"{option} {text[:80]!r}: has two numbers with nothing between them")
        regex = "".join(
            rf"(?P<{part}>(?>{NUMBER}))" if place % 2 else r"\s++".join(map(re.escape, re.split(r"\s+", part)))
            for place, part in enumerate(parts)
        )
        self._regex = re.compile(_not_within(parts[0]) + regex)

    def parse(self, raw: str) -> LineProgress | None:
        """What the line says, if the pattern is in it."""
        for part in overwritten(raw):
            match = self._regex.search(part)
            if match is not None:
                values = match.groupdict()
                return LineProgress(
                    whole(values.get("step")), whole(values.get("total")), real(values.get("epoch")),
                    whole(values.get("epochs")), real(values.get("s_per_step")),
                )  # fmt: skip
        return None


def _not_within(begin: str) -> str:
    """Keeps a match from beginning within a number or a gap: users state the pattern and print the lines.

    A line of 4,000 digits would be read from each of them to its end, and once for each way to make numbers of it.
    """
    if not begin or begin[0].isdigit():
        return r"(?<!\d)"
    return r"(?<!\s)" if begin[0].isspace() else ""
