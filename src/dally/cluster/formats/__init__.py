"""One file per way to write a cluster down, and what these files share."""
