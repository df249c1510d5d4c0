"""Tests of `kfast report`, and of figures."""
