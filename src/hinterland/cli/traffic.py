"""``hinterland traffic``, which is in ``hinterland_papers`` now."""

from __future__ import annotations

import typer

from . import moved


def traffic(given: typer.Context) -> None:
    """Is in hinterland_papers now: says the new command."""
    moved.say_where("traffic", *given.args)


def register(app: typer.Typer) -> None:
    moved.register(app, "traffic", traffic)
