"""When a waiting job will start: the present state, simulated forward many times with durations from history."""
