"""Events run by kfast's controller, and what they lead one to expect in the log."""
