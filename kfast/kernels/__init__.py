"""Compiled loops: arrays in, arrays out. They know no module of kfast but each other's `.pxd`."""
