"""``hinterland bench traversal --ablation``, which is in ``hinterland_papers`` now."""

from __future__ import annotations

import typer

from . import moved


def bench(given: typer.Context) -> None:
    """Is in hinterland_papers now: says the new command."""
    moved.say_where("ablation", *(word for word in given.args if word not in ("traversal", "--ablation")))


def register(app: typer.Typer) -> None:
    moved.register(app, "bench", bench)
