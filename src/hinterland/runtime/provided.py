"""What a lower wing hands out that a higher one makes. The package says who makes it (hinterland/__init__.py), and that is
imported when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_makers: dict[str, Callable[[], Any]] = {}


def provide(what: str, maker: Callable[[], Any]) -> None:
    """``maker`` gives what is called ``what``, and is called each time that it is asked for."""
    _makers[what] = maker


def provided(what: str) -> Any:
    """What was provided under this name."""
    return _makers[what]()
