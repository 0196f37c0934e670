"""What if: the present, or the last days, under another policy, cluster or network, before anything is done."""
