"""Large language models: what a layout of parallel groups computes, sends and hides."""
