"""What the controller records, and the tables made of it."""
