"""What a run amounts to: summaries, tables and lower bounds. Pure functions of a finished run."""
