"""Orders: in which order waiting jobs are offered GPUs."""
