"""Commands that simulate: one run, many, and what they share."""
