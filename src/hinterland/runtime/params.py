"""Parameter structs of kernels and native loops, laid out as C++ declares them.

``native/params.hpp`` tells ``_core.STRUCTS`` every field's name, offset and kind, so nothing of that is written down here. A
package that stands on this one adds what its own module tells (:func:`also_told`). A struct is made by its fields' names,
``struct("graph::BfsParams")(graph=..., source=..., ...)``: addresses and integers, floats, and structs within structs. What is
left out is zero; a name that C++ does not have is an AttributeError.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import torch

from .. import _core

_KINDS: dict[str, Any] = {
    "pointer": ctypes.c_uint64,
    "int64": ctypes.c_int64,
    "uint64": ctypes.c_uint64,
    "int32": ctypes.c_int32,
    "uint32": ctypes.c_uint32,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}

_STRUCTS: dict[str, Any] = dict(_core.STRUCTS)


def also_told(structs: dict[str, Any]) -> None:
    """Structs of another native module. What both modules tell is of one header, and the same."""
    _STRUCTS.update(structs)


class Params(ctypes.Structure):
    """A struct of C++, filled in; what :func:`struct` returns are its subclasses.

    ``keeps`` may hold what its addresses point to, which then lives as long as this object.
    """

    __slots__ = ("keeps",)

    keeps: Any

    @property
    def address(self) -> int:
        """Where it lies in the CPU's memory, as long as this object lives."""
        return _core.address_of(self)

    def on(self, device: torch.device) -> torch.Tensor:
        """Its bytes in memory of ``device``: uint8 ``[size]``."""
        return torch.frombuffer(bytearray(self), dtype=torch.uint8).to(device)

    @classmethod
    def packed_bytes(cls) -> int:
        """Bytes up to the end of its last field: without the padding that may follow."""
        last = getattr(cls, cls._fields_[-1][0]) if cls._fields_ else None
        return 0 if last is None else int(last.offset + last.size)

    @classmethod
    def read(cls, memory: torch.Tensor, at: int = 0) -> Any:
        """The struct that lies at byte ``at`` of ``memory``, ``[n]`` on any device, once the device is done with it."""
        here = memory.view(torch.uint8)[at : at + ctypes.sizeof(cls)].cpu()
        return cls.from_buffer_copy(cls.from_address(here.data_ptr()))


@functools.cache
def struct(name: str) -> type[Params]:
    """The struct that C++ calls ``hinterland::NAME``.

    Raises:
        KeyError: no module has told it.
    """
    size, fields = _STRUCTS[name]
    layout = [(field, _type(kind)) for field, _, kind in fields]
    made = type(name.rpartition("::")[2], (Params,), {"__slots__": (), "_fields_": layout})
    offsets = [(getattr(made, field).offset, offset) for field, offset, _ in fields]
    if ctypes.sizeof(made) != size or any(ours != theirs for ours, theirs in offsets):
        raise AssertionError(f"ctypes lays {name} out otherwise than C++ does")
    return made


def leaves(name: str) -> list[str]:
    """The names of a struct's numbers in order; of a struct within it ``OUTER_INNER``, of an array ``ARRAY_0`` and so on."""
    return [
        f"{field}_{leaf}" if leaf else field
        for field, _, kind in _STRUCTS[name][1]
        for leaf in (leaves(kind) if kind in _STRUCTS else _places(*_split(kind)[1]))
    ]


def _places(count: str = "", *more: str) -> list[str]:
    if not count:
        return [""]
    return [f"{i}_{rest}" if rest else str(i) for i in range(int(count)) for rest in _places(*more)]


def _split(kind: str) -> tuple[str, list[str]]:
    """The type of a kind, and the lengths of its arrays."""
    name, *counts = kind.replace("]", "").split("[")
    return name, counts


def _type(kind: str) -> Any:
    name, counts = _split(kind)
    made = _KINDS[name] if name in _KINDS else struct(name)
    for count in counts:
        made = made * int(count)
    return made


def address(array: torch.Tensor | None) -> int:
    """What a pointer field takes: where a tensor's elements lie, on its device; 0 for none."""
    return 0 if array is None else array.data_ptr()
