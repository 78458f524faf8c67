"""The kernels of a text of CUDA C++: their names, and what each takes."""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from typing import Any, Literal

import torch

from ..runtime.errors import ConfigError

_INTEGERS: dict[str, Any] = {
    "char": ctypes.c_int8,
    "signed char": ctypes.c_int8,
    "unsigned char": ctypes.c_uint8,
    "short": ctypes.c_int16,
    "unsigned short": ctypes.c_uint16,
    "int": ctypes.c_int32,
    "unsigned": ctypes.c_uint32,
    "unsigned int": ctypes.c_uint32,
    "long": ctypes.c_int64,
    "unsigned long": ctypes.c_uint64,
    "long long": ctypes.c_int64,
    "unsigned long long": ctypes.c_uint64,
    "size_t": ctypes.c_uint64,
    "ptrdiff_t": ctypes.c_int64,
    **{f"int{bits}_t": getattr(ctypes, f"c_int{bits}") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}_t": getattr(ctypes, f"c_uint{bits}") for bits in (8, 16, 32, 64)},
}


class Float16(ctypes.c_uint16):
    """The bits of a float16."""


class Bfloat16(ctypes.c_uint16):
    """The bits of a bfloat16."""


# By CUDA's names: include/hinterland/kernels/halves.hpp.
_HALVES = {"half": Float16, "__half": Float16, "bfloat16": Bfloat16, "__nv_bfloat16": Bfloat16}
_TYPES: dict[str, Any] = {
    **_INTEGERS,
    **_HALVES,
    "bool": ctypes.c_bool,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}
_DTYPES: dict[Any, torch.dtype] = {
    ctypes.c_bool: torch.bool,
    ctypes.c_float: torch.float32,
    ctypes.c_double: torch.float64,
    Float16: torch.float16,
    Bfloat16: torch.bfloat16,
}
_SIGNED = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_UNSIGNED = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32, 8: torch.uint64}

_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_KERNEL = re.compile(r"__global__\b((?:\s|\bvoid\b|\bstatic\b|\binline\b|__launch_bounds__\s*\([^)]*\))*)(\w+)\s*\(")
_TEMPLATE = re.compile(r"\btemplate\s*<[^;{}]*$")
_ARRAY = re.compile(r"(?:const )?(?:hinterland::kernels::|bam::)?array<(const )?([\w ]+)>")
_POINTER = re.compile(r"(const )?([\w ]+)\*")


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel.

    Attributes:
        name: its own.
        text: its type, as written.
        kind: ``"array"``, ``"pointer"`` or ``"value"``.
        element: of the type, or of what it has: as ctypes has it.
        writable: whether the kernel may write elements.
    """

    name: str
    text: str
    kind: Literal["array", "pointer", "value"]
    element: Any
    writable: bool = False

    @property
    def dtypes(self) -> tuple[torch.dtype, ...]:
        """What tensors may have as elements: the type itself, and whole numbers of the same size with another sign."""
        if self.element in _DTYPES:
            return (_DTYPES[self.element],)
        size = ctypes.sizeof(self.element)
        ways = (_SIGNED[size], _UNSIGNED[size])
        return ways if self.element(-1).value < 0 else ways[::-1]


@dataclass(frozen=True)
class Signature:
    """A kernel of a text.

    Attributes:
        name: of the kernel.
        parameters: in order.
    """

    name: str
    parameters: tuple[Parameter, ...]

    @property
    def has_halves(self) -> bool:
        """Whether it takes any of 16 bits with a point."""
        return any(one.element in (Float16, Bfloat16) for one in self.parameters)

    @property
    def text(self) -> str:
        """For sentences."""
        return f"{self.name}({', '.join(f'{one.text} {one.name}' for one in self.parameters)})"


def find(source: str, name: str | None) -> Signature:
    """The kernel ``name`` of a text, or the only one.

    Raises:
        ConfigError: it is not there, is a template, or takes what cannot be passed.
    """
    text = _COMMENTS.sub(lambda found: " " if found[0][0] == "/" else '""', source)
    kernels = {found[2]: found for found in _KERNEL.finditer(text)}
    if not kernels:
        raise ConfigError("the text has no kernel; write for example: __global__ void add(array<float> a, int64_t n) { ... }")
    if name is None and len(kernels) > 1:
        raise ConfigError(f"the text has several kernels; say which by name=, of {', '.join(kernels)}")
    name = next(iter(kernels)) if name is None else name
    if name not in kernels:
        raise ConfigError(f"the text has no kernel {name!r}; it has {', '.join(kernels)}")
    found = kernels[name]
    if _TEMPLATE.search(text[: found.start()]):
        raise ConfigError(f"{name} is a template; write a kernel that calls what it does with the types you want")
    given = _split(text[found.end() :], name)
    return Signature(name, tuple(_parameter(name, one) for one in given))


def _split(text: str, name: str) -> list[str]:
    """What stands between parentheses, of which the first is open, by commas outside of any others."""
    depth, begin = 0, 0
    parts: list[str] = []
    for at, letter in enumerate(text):
        if letter in "(<[{":
            depth += 1
        elif letter == ")" and depth == 0:
            last = text[begin:at].strip()
            return [*parts, last] if last or parts else []
        elif letter in ")>]}":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[begin:at].strip())
            begin = at + 1
    raise ConfigError(f"the parameters of {name} have no end: a parenthesis is missing")


def _parameter(kernel: str, text: str) -> Parameter:
    plain = re.sub(r"\b(__restrict__|__restrict|restrict|volatile|__grid_constant__)\b", " ", text).replace("std::", "")
    found = re.fullmatch(r"(.*[\s*>&])(\w+)", plain.strip(), re.DOTALL)
    if found is None:
        raise ConfigError(f"{kernel}: the parameter {text!r} has no name; write its type, and then its name")
    written, name = " ".join(found[1].split()), found[2]
    kind = re.sub(r"\s*([<>*&])\s*", r"\1", written)
    if array := _ARRAY.fullmatch(kind):
        return Parameter(name, written, "array", _element(kernel, text, array[2].strip()), not array[1])
    if pointer := _POINTER.fullmatch(kind):
        return Parameter(name, written, "pointer", _element(kernel, text, pointer[2].strip()), not pointer[1])
    return Parameter(name, written, "value", _element(kernel, text, kind.removeprefix("const ")))


def _element(kernel: str, text: str, name: str) -> Any:
    if name in _TYPES:
        return _TYPES[name]
    raise ConfigError(
        f"{kernel}: {text!r} cannot be passed from Python; take array<T>, T* or T, where T is float, double, half, "
        "bfloat16, bool, or a whole number such as int32_t or size_t, and const where nothing is written"
    )
