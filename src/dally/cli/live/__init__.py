"""Commands about a running scheduler: the daemon itself, what is asked of it, its tokens, and Slurm's setup."""
