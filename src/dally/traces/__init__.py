"""Readers of traces: files that say which jobs came when."""

from dally.traces.formats import companions
from dally.traces.outages import read_outages
from dally.traces.reading import History, Trace, read_csv, read_history, read_trace

__all__ = ["History", "Trace", "companions", "read_csv", "read_history", "read_outages", "read_trace"]
