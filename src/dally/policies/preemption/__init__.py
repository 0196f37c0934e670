"""Preemption: which running jobs may lose their GPUs now."""
