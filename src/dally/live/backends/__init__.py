"""Clusters that can be scheduled: one file or folder per way to run jobs."""
