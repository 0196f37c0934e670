"""The benchmark's cells, and the paper's experiments repeated."""
