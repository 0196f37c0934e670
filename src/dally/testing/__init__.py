"""Checks for policies, ours and yours. Needs the extra `dally[testing]` (hypothesis)."""

from dally.testing.conformance import check_policy
from dally.testing.invariants import InvariantError, check_record
from dally.testing.run_rows import RunRows, record_of

__all__ = ["InvariantError", "RunRows", "check_policy", "check_record", "record_of"]
