"""Policies that choose sizes by goodput, as Pollux and Sia do."""
