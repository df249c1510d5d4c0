"""The command `kfast`, as `python -m kfast`."""

from __future__ import annotations

from kfast_command import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
