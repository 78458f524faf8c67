"""``python -m hinterland_papers``: the programs of papers, with the options and reports of the product's commands."""

from __future__ import annotations

from hinterland import cli

COMMANDS = ("published", "traffic", "ablation", "kernels")


def main() -> None:
    """Runs the command line; exit status as of the product's."""
    cli.main("hinterland_papers", "What only reproduces the papers of hinterland.", __name__, COMMANDS, records=False)
