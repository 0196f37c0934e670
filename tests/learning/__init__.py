"""Training, judging and trials of learned schedulers."""
