"""Authentication: tokens, roles, and the middleware that every request passes."""
