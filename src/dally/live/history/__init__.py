"""What the daemon has seen, for those who read it later: records of jobs, traces, trends, daily reports."""
