"""A finished simulation at any moment, as the dashboard's pages ask for it."""
