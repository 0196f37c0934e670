"""What the site needs of the pages beyond what GitHub shows: mkdocs calls it for each of them."""

from __future__ import annotations

import re
from typing import Any


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with the names of example files as titles; files outside docs/ are named, as the site lacks them."""
    markdown = re.sub(r"^```(\w+) file=(\S+)$", r'```\1 title="\2"', markdown, flags=re.MULTILINE)
    return re.sub(r"\[([^\]]+)\]\(\.\./([^)#]+)\)", r"\1 (`\2` in the repository)", markdown)
