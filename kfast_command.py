"""The command `kfast` as a file, which `spark-submit` needs."""

from kfast.__main__ import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
