"""Commands about a running scheduler: what they ask `dally serve`, its tokens, and Slurm's setup."""
