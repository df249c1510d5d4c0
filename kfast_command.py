"""The command `kfast`: a file beside the package.

`spark-submit` needs a file, and Ctrl-C a handler before the package is imported.
"""

import sys

__all__ = ["main"]

INTERRUPTED = 130


def main() -> None:
    """Load the command line and run it; Ctrl-C ends the loading without a traceback too."""
    try:
        from kfast.cli import main as run
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        sys.exit(INTERRUPTED)
    run()


if __name__ == "__main__":
    main()
