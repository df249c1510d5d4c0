"""What real controllers logged, run again."""
