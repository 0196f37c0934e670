"""How fast a placed job runs."""
