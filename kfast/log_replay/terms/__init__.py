"""Which controller wrote a line, with which epoch, of which cluster."""
