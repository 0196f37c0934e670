"""The REST API: one file per group of endpoints, the bodies that go in and out, and what routes share."""
