"""``hinterland --version``."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import __version__


def register(app: typer.Typer) -> None:
    app.callback()(common)


def _show(asked: bool) -> None:
    if asked:
        print(f"hinterland {__version__}")
        raise typer.Exit


def common(
    version: Annotated[bool, typer.Option("--version", is_eager=True, callback=_show, help="Print the version.")] = False,
) -> None:
    pass  # --version has ended the command line already
