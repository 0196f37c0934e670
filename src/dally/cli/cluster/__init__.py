"""Commands about clusters: topologies, networks, models on them, and queues."""
