"""Which machines a job may use, and how many of its GPUs fit there now: the only place that looks beyond GPUs."""
