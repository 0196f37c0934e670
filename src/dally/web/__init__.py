"""The live scheduler's REST API: how things stand and why, submitting and cancelling, metrics."""
