"""`python -m kfast`: the command line."""

from kfast.cli import main

main()
