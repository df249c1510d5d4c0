"""When the steps of a failure happen."""
