"""Slurm, through its command line tools."""

from dally.live.backends.slurm.slurm_backend import SlurmBackend

__all__ = ["SlurmBackend"]
