"""What training jobs say of their progress: lines of logs, files that they write, and what is left of them."""
