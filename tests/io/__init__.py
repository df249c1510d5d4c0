"""Formats that kfast reads and writes."""
