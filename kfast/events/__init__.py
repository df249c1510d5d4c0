"""Handlers of the controller's events, one file for each section of the specification."""
