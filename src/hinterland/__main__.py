"""``python -m hinterland``: the command line."""

from .cli import main

main()
