"""The command line: arguments in, library calls, text out."""

from kfast.cli.app import main

__all__ = ["main"]
