"""Policies: who runs next, where, and at whose expense."""
