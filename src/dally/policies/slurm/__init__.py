"""What most Slurm clusters run: multifactor priority, and backfill that knows time limits."""
