"""Which machine or link is slow, from the speeds of the jobs on it; nothing here has a clock or a backend."""
