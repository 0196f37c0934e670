"""Many runs: the benchmark's cells, and a row per run."""
