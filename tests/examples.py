"""How many random cases a test tries."""

from __future__ import annotations

from dally import is_compiled


def many(examples: int) -> int:
    """So many; as plain Python an eighth: each takes ten times as long there, and the compiled build tries all."""
    return examples if is_compiled() else max(examples // 8, 5)
