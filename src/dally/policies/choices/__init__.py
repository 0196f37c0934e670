"""Decisions one at a time, as rows of numbers: what learners choose among, and policies that were learned."""
