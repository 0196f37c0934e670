"""Tests of the flagship."""
