"""The live scheduler: the same cycle and policies as in a simulation, on the wall clock and a real cluster."""
