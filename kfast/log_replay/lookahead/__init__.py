"""All that is taken from later lines."""
