"""What readers of files with several tensors share: which of them is meant."""

from __future__ import annotations

from collections.abc import Sequence

from ..runtime import arguments
from ..runtime.errors import ConfigError, FormatError

_SHOWN = 8  # names that a sentence lists


def named(path: str, what: str, names: Sequence[str], name: str | None, option: str = "name") -> str:
    """The one of ``names`` that is asked for, or the only one.

    Args:
        path: the file, for sentences.
        what: what the names are of, for sentences: ``"columns"``.
        option: what the caller calls ``name``.

    Raises:
        ConfigError: several without a name, a name that is not there, or one that is no text.
        FormatError: there is none at all.
    """
    if name is not None and not isinstance(name, str):
        raise ConfigError(f"{path}: {option}={arguments.repr_of(name)} is no text; name one of the {what}: {_listed(names)}")
    if not names:
        raise FormatError(f"{path} holds no {what}; name another file")
    if name is None and len(names) > 1:
        raise ConfigError(f"{path} holds {len(names)} {what}; say which by {option}=: {_listed(names)}")
    if name is not None and name not in names:
        raise ConfigError(f"{path} holds no {name!r} among its {what}; name one of them: {_listed(names)}")
    return names[0] if name is None else name


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(arguments.repr_of(name) for name in names[:_SHOWN]) + more
