"""Measures training steps on the GPUs present: what `dally profile` does. Needs torch (extra `profile`)."""
