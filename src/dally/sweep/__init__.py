"""Many runs: plans, workers, and the journal that survives them."""
