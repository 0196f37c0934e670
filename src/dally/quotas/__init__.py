"""Teams and what they are due: a tree of queues, written down in one of several formats."""
