"""Tenants share the machines: a gate at the queue says who may take more, and one policy decides the rest."""
