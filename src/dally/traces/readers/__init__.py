"""Readers of traces, a module a format: how it is recognised, read and, where that is possible, written."""
