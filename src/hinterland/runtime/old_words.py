"""Names that were other ones up to version 0.1. Callers who use them are warned; what was saved with them is read for ever."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from .warned import warn

Of = TypeVar("Of", bound=Callable[..., Any])

PLACEMENTS = {"mapped": "managed", "registered": "pinned", "heap": "pageable"}
NAMES = {
    "HINTERLAND_MAPPED_LIMIT": "HINTERLAND_MANAGED_LIMIT",
    "Prepared": "ResidentGraph",
    "mapped": "managed",
    "mapped_bytes": "managed_bytes",
    "mapped_limit": "managed_limit",
    "outer": "original_ids",
    "outer_lists": "original_lists",
    "set_mapped_limit": "set_managed_limit",
    "to_inner": "to_internal",
    "to_outer": "to_original",
}
LIMIT_OPTION = "--mapped-limit"


def _warn(old: str, new: str) -> None:
    warn(f"{old} is called {new} now; the version after 0.1 knows the old name no more")


def translated(word: str) -> str:
    """A placement, or a field, of what was saved: by the word of today."""
    return PLACEMENTS.get(word) or NAMES.get(word, word)


def accepted(word: Any) -> Any:
    """A placement that a caller says, by the word of today."""
    if not isinstance(word, str) or word not in PLACEMENTS:
        return word
    _warn(f"placement {word!r}", repr(PLACEMENTS[word]))
    return PLACEMENTS[word]


def setting(name: str) -> tuple[str | None, str]:
    """A variable of the environment, and the name by which it is there."""
    for old in (old for old, new in NAMES.items() if new == name and name not in os.environ and old in os.environ):
        _warn(old, name)
        return os.environ[old], old
    return os.environ.get(name), name


def of_module(module: str, public: Collection[str], name: str) -> Any:
    """What a module's ``__getattr__`` returns; AttributeError unless one of its public names was called so."""
    if NAMES.get(name) not in public:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    _warn(f"{module}.{name}", NAMES[name])
    return getattr(sys.modules[module], NAMES[name])


def arguments(function: Of) -> Of:
    """``function``, which takes its arguments by their old names, too."""

    @functools.wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        for old in NAMES.keys() & options.keys():
            _warn(old, NAMES[old])
            options.setdefault(NAMES[old], options.pop(old))
        return function(*args, **options)

    return called  # type: ignore[return-value]


def attributes(of: type) -> None:
    """Gives a class its methods, properties and fields by their old names, too."""
    for old, new in NAMES.items():
        if new in vars(of) or new in getattr(of, "__dataclass_fields__", ()):
            setattr(of, old, property(functools.partial(_attribute, old, new)))


def _attribute(old: str, new: str, of: object) -> Any:
    _warn(old, new)
    return getattr(of, new)
