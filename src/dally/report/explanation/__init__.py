"""Why jobs wait and what happened to them, from decision records, for the terminal, the API and pages."""

from __future__ import annotations

from typing import Final

# Events of operators' actions
ACTION: Final = "act"  # its reason says what, who and why
BY_ACTION: Final = "operator"  # the reason of a hold or a release that such an action brought about
HOLDS: Final = ("hold", "release")
