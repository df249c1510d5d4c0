"""What a line says, by the release that wrote it."""
