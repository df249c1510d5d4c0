"""What lines say beside what is predicted."""
