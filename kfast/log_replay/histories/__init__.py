"""The search for what a log hides."""
