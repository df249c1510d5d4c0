"""Benchmarks: small by default, so that they run with the tests; `--partitions` for real."""
