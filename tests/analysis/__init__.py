"""Questions: what-ifs, sweeps, risk and restarts."""
