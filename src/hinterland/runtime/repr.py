"""What an object says of itself: a line in a program, a small table in a notebook."""

from __future__ import annotations

import dataclasses
from html import escape
from typing import Any

import torch

from . import arguments
from .units import format_bytes


class Repr:
    """A class whose objects show what they are, and never what they hold: tensors by shape, type and place.

    A dataclass that is one says ``repr=False``, and shows its public fields that are not None; others override :meth:`_facts`.
    """

    def _facts(self) -> dict[str, Any]:
        """What there is to say, by name, in order."""
        return _fields(self)

    def __repr__(self) -> str:
        return _line(type(self).__name__, self._facts())

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(said)}</td></tr>'
            for name, said in ((name, _brief(value)) for name, value in self._facts().items())
        )
        return f"<table><caption><b>{escape(type(self).__name__)}</b></caption>{rows}</table>"


def _brief(value: Any) -> str:
    """``value`` in a few words."""
    if isinstance(value, torch.Tensor):
        place = "" if value.is_cpu else f" on {value.device}"
        return f"{type_name(value.dtype)} {list(value.shape)}{place}"
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, torch.dtype):
        return type_name(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if dataclasses.is_dataclass(value) and not isinstance(value, Repr | type):
        return _line(type(value).__name__, _fields(value))
    if isinstance(value, dict) and len(value) > 3:
        return f"{{{', '.join(map(str, value))}}}"  # what it holds, by name
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}: {_brief(item)}' for name, item in value.items())}}}"
    if isinstance(value, list | tuple) and len(value) > 6:
        return f"{len(value)} of {type(value[0]).__name__}"
    if isinstance(value, list | tuple):
        begin, end = "()" if isinstance(value, tuple) else "[]"
        return f"{begin}{', '.join(map(_brief, value))}{end}"
    return arguments.repr_of(value) if isinstance(value, str) else repr(value)


def _fields(value: Any) -> dict[str, Any]:
    """A dataclass's public fields that are there."""
    public = [field.name for field in dataclasses.fields(value) if field.repr and not field.name.startswith("_")]
    return {name: found for name in public if (found := getattr(value, name)) is not None}


def _line(name: str, facts: dict[str, Any]) -> str:
    return f"{name}({', '.join(f'{fact}={_brief(value)}' for fact, value in facts.items())})"


def type_name(dtype: torch.dtype) -> str:
    """``float32`` of ``torch.float32``."""
    return str(dtype).removeprefix("torch.")


def table_of(shape: torch.Size, dtype: torch.dtype, **more: Any) -> dict[str, Any]:
    """The facts of a table of rows: shape, type, bytes, and ``more``."""
    return {"shape": tuple(shape), "dtype": dtype, "size": Size(shape.numel() * dtype.itemsize), **more}


class Size(int):
    """A number of bytes, which shows as one."""

    def __repr__(self) -> str:
        return format_bytes(self)
