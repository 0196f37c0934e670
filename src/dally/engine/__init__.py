"""The engine: state, rates, the scheduling cycle, and the virtual clock that drives it."""
