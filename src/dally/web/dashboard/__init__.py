"""The dashboard: pages over a live cluster or over a finished simulation, which are one to them."""
