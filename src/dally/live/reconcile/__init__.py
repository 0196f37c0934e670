"""Brings what was decided, what the backend reports and the engine's books together: one table of transitions."""
