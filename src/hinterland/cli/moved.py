"""What is in ``hinterland_papers`` now: for one version, commands say how it is called there."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from typing import NoReturn

import typer


def say_where(*words: str) -> NoReturn:
    """Ends a command with its new ``words``.

    Raises:
        BadParameter: always.
    """
    command = shlex.join(("python", "-m", "hinterland_papers", *words))
    raise typer.BadParameter(f"what only reproduces a paper is in hinterland_papers now; pip install ./papers, then {command}")


def refuse_access(access: str | None) -> None:
    """Of ``--access``, whose command is called as before."""
    if access is not None:
        say_where(*sys.argv[1:])


def register(app: typer.Typer, name: str, command: Callable[[typer.Context], None]) -> None:
    """Adds a command that takes any options."""
    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    app.command(name, context_settings=anything)(command)
