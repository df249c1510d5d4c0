"""Handlers of the controller's events (docs/controller.md, section 6), by subject."""
