"""``python -m hinterland_papers``."""

from .cli import main

main()
