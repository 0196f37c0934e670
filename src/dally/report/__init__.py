"""What a person or a script gets to see of a run."""
