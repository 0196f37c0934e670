"""Teams and types of GPU: each queue has a policy of its own, and a gate says whose turn it is."""
