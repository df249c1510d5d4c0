"""What happened: events that lines announce, and events inferred from their effects."""
