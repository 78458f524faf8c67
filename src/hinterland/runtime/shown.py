"""What an object says of itself: a line in a program, a small table in a notebook."""

from __future__ import annotations

import dataclasses
import reprlib
from html import escape
from typing import Any

import torch

from .units import format_bytes

_SHORT = reprlib.Repr()
_SHORT.maxother = _SHORT.maxstring = 60


class Shown:
    """A class whose objects show what they are, and never what they hold: tensors by shape, type and place.

    A dataclass that is one says ``repr=False``, and shows its public fields that are not None; others override :meth:`_facts`.
    """

    def _facts(self) -> dict[str, Any]:
        """What there is to say, by name, in order."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        found = {field.name: getattr(self, field.name) for field in fields if field.repr and not field.name.startswith("_")}
        return {name: value for name, value in found.items() if value is not None}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={shown(value)}' for name, value in self._facts().items())})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(shown(value))}</td></tr>'
            for name, value in self._facts().items()
        )
        return f"<table><caption><b>{escape(type(self).__name__)}</b></caption>{rows}</table>"


def shown(value: Any) -> str:
    """``value`` in a few words."""
    if isinstance(value, torch.Tensor):
        place = "" if value.is_cpu else f" on {value.device}"
        return f"{type_name(value.dtype)} {list(value.shape)}{place}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict) and len(value) > 3:
        return f"{{{', '.join(map(str, value))}}}"  # what it holds, by name
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}: {shown(item)}' for name, item in value.items())}}}"
    if isinstance(value, list | tuple) and len(value) > 6:
        return f"{len(value)} of {type(value[0]).__name__}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(shown, value))}]"
    return _SHORT.repr(value) if isinstance(value, str) else repr(value)


def type_name(dtype: torch.dtype) -> str:
    """``float32`` of ``torch.float32``."""
    return str(dtype).removeprefix("torch.")


def table_of(shape: torch.Size, dtype: torch.dtype, **more: Any) -> dict[str, Any]:
    """The facts of a table of rows: shape, type, bytes, and ``more``."""
    return {"shape": tuple(shape), "dtype": type_name(dtype), "size": Size(shape.numel() * dtype.itemsize), **more}


class Size(int):
    """A number of bytes, which shows as one."""

    def __repr__(self) -> str:
        return format_bytes(self)
