"""Commands about traces, and what they share."""
