"""Commands that simulate, and those about the runs that simulations left."""
