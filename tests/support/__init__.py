"""What tests share: the plain Python twin, makers of random input, and records."""
