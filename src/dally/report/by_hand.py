"""What events are called that tell of what people did."""

from __future__ import annotations

from typing import Final

ACT: Final = "act"  # its reason says what, who and why
BY_WORD: Final = "operator"  # the reason of a hold or a release that such an act brought about
HOLDS: Final = ("hold", "release")
