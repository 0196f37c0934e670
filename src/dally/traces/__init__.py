"""Readers of traces: files that say which jobs came when."""

from dally.traces.csv_trace import Trace, read_csv
from dally.traces.outages import read_outages

__all__ = ["Trace", "read_csv", "read_outages"]
