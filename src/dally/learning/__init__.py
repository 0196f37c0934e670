"""Training schedulers on `dally.gym`, judging them on later jobs, and trying them against the one in use."""
