"""`python -m kfast`: the command line."""

from kfast_command import main

main()
