"""Files to deploy."""
