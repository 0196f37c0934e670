"""Checks for policies and backends, ours and yours. Needs the extra `dally[testing]` (hypothesis)."""

from dally.testing.backend_rules import check_backend
from dally.testing.conformance import check_policy
from dally.testing.invariants import InvariantError, RunRows, check_record, record_of

__all__ = ["InvariantError", "RunRows", "check_backend", "check_policy", "check_record", "record_of"]
