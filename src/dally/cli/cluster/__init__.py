"""Commands about clusters: topologies, networks, queues, and models on them."""
