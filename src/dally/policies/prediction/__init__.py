"""Predictors: how long a job will run, asked when it is submitted."""
