"""What a kernel is called with, as its parameters have it."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..runtime import arguments, devices
from ..runtime.errors import ConfigError
from ..runtime.params import Params, struct
from ..table import StorageArray, Table, as_table
from .signature import Bfloat16, Float16, Parameter, Signature

NEAR, TIERED, STORED, WRITTEN, SEVERAL, CACHED = 1, 2, 4, 8, 16, 32  # include/hinterland/kernels/array.hpp
_Array = struct("kernels::ArgumentWords")


@dataclass
class CallArguments:
    """The arguments of a call.

    Attributes:
        values: of each parameter, as its struct takes it; of arrays on storage what is still missing of them.
        stored: those arrays, and where among the values they are.
        written: those of them that the kernel may write.
        requested: tables that take in what the kernel reads.
        named: where the arrays are among the values, and what sentences call each.
        kinds: of all arrays, added up.
        longest: elements of the longest array or tensor.
        keeps: what the addresses among the values point to.
    """

    values: list[Any] = field(default_factory=list)
    stored: list[tuple[int, StorageArray]] = field(default_factory=list)
    written: list[StorageArray] = field(default_factory=list)
    requested: dict[int, Table] = field(default_factory=dict)
    named: list[tuple[int, str]] = field(default_factory=list)
    kinds: int = NEAR
    longest: int = 0
    keeps: list[Any] = field(default_factory=list)

    @classmethod
    def of(cls, signature: Signature, passed: Sequence[Any], device: torch.device) -> CallArguments:
        """Those of a call on a device.

        Raises:
            ConfigError: one that the parameter of its place does not take.
        """
        given = cls()
        for parameter, value in zip(signature.parameters, passed, strict=True):
            what = f"{signature.name}: {parameter.name}"
            if parameter.kind == "value":
                given.values.append(_value(what, parameter, value))
            elif isinstance(value, torch.Tensor):
                given._add_near(what, parameter, value, value, device)
            elif (table := as_table(value)) is None:
                raise ConfigError(
                    f"{what} takes a tensor or a table ({parameter.text}), not {arguments.repr_of(value)}; a list becomes one "
                    f"by "
                    "torch.tensor(...)"
                )
            elif (whole := table.tensor_on(device)) is not None:
                if parameter.writable:
                    table.require_writable()
                given._add_near(what, parameter, table, whole, device)
            else:
                given._add_table(what, parameter, table, device)
        return given

    def struct(self, layout: type[Params]) -> Params:
        """The parameters, one after the other."""
        made = layout(*self.values)
        made.keeps = self.keeps
        return made

    def _add_near(
        self, what: str, parameter: Parameter, value: torch.Tensor | Table, tensor: torch.Tensor, device: torch.device
    ) -> None:
        _require_type(what, parameter, value.dtype)
        arguments.dense(what, tensor)
        if tensor.device != device:
            raise ConfigError(
                f"{what} is on {tensor.device}, and the kernel runs on {device}; move it there, or make it a UnifiedTensor, "
                "which all read"
            )
        if not tensor.is_contiguous() or tensor.is_neg() or tensor.is_conj():
            raise ConfigError(f"{what} does not lie in one piece, as what a pointer points to does; call .contiguous()")
        if tensor.requires_grad and torch.is_grad_enabled():
            raise ConfigError(f"{what} requires a gradient, and none goes through a kernel; pass .detach()")
        self.longest = max(self.longest, tensor.numel())
        self.keeps.append(value)
        where = tensor.data_ptr()
        if parameter.kind == "array":
            self._add_array(_Array(home=where, size=tensor.numel(), kind=NEAR), parameter.name)
        else:
            self.values.append(where)

    def _add_table(self, what: str, parameter: Parameter, table: Table, device: torch.device) -> None:
        kind = type(table).__name__
        file: StorageArray | None = table.file
        stored = None if file is not table else file
        if parameter.kind != "array":
            raise ConfigError(f"{what} is a pointer, which cannot point into a {kind}; declare it array<const T>")
        if parameter.writable:
            if stored is None:
                raise ConfigError(
                    f"{what} is an array that the kernel may write, and a {kind} is only read by kernels; declare it "
                    "array<const T>"
                )
            if stored.mode == "r":
                raise ConfigError(
                    f"{what} is an array that the kernel may write, and {stored.path} is open for reading; open it with "
                    "mode='r+', or declare it array<const T>"
                )
        _require_type(what, parameter, table.dtype)
        row = math.prod(table.shape[1:])
        words, name = _Array(size=len(table) * row, row_elements=row), parameter.name
        self.longest = max(self.longest, words.size)
        self.keeps.append(table)
        if stored is not None:
            words.kind = STORED
            name = f"{name} ({stored.path})"
            if words.size:  # of none there is nothing to be read, nor a place in the file
                if any(one.volume != stored.volume for _, one in self.stored):
                    self.kinds |= SEVERAL
                self.stored.append((len(self.values), stored))
                self.kinds |= STORED
                if parameter.writable:
                    self.written.append(stored)
                    self.kinds |= WRITTEN
        elif table.in_reach:
            tiers = table.requested_on(device)
            words.kind, words.reciprocal = CACHED, (1 << 63) // row + 1 if row > 1 else 0
            if tiers is None:
                words.kind, tiers = TIERED, table.reach(torch.empty(0, dtype=torch.int64, device=device))
            else:
                self.requested[id(table)] = table
            there = tiers.on(device) if device.type == "cuda" else None
            words.tiers = tiers.address if there is None else there.data_ptr()
            self.keeps += [tiers, there]
            self.kinds |= words.kind
        else:
            raise ConfigError(f"{what}: kernels do not read rows of a {kind}; pass the StorageArray itself")
        self._add_array(words, name)

    def _add_array(self, words: Params, name: str) -> None:
        words.number = len(self.values)
        self.named.append((words.number, name))
        self.values.append(words)


def device_of(name: str, passed: Sequence[Any], device: torch.device | str | int | None) -> torch.device:
    """Where a kernel runs: where its tensors are. With none, on ``device``; None is the current GPU, or the CPU without one.

    Raises:
        ConfigError: they are on several devices, or on another than ``device``.
    """
    found = {value.device for value in passed if isinstance(value, torch.Tensor)}
    if len(found) > 1:
        raise ConfigError(
            f"{name}: tensors are on {', '.join(sorted(map(str, found)))}; move them to one device, or make those of the CPU "
            "UnifiedTensors, which all read"
        )
    where = devices.as_device(next(iter(found), device))
    if found and device is not None and devices.as_device(device) != where:
        raise ConfigError(f"{name}: tensors are on {where}, and device={arguments.repr_of(device)}; leave it out")
    return where


def layout(signature: Signature) -> type[Params]:
    """The struct of a kernel's parameters: what CUDA and C++ make of them, one after the other."""
    kinds = {"array": _Array, "pointer": ctypes.c_uint64}
    fields = [(f"_{i}", kinds.get(one.kind, one.element)) for i, one in enumerate(signature.parameters)]
    return type(f"{signature.name}_arguments", (Params,), {"__slots__": (), "_fields_": fields})


def _value(what: str, parameter: Parameter, value: Any) -> Any:
    element = parameter.element
    if element is ctypes.c_bool:
        if not isinstance(value, bool):
            raise ConfigError(f"{what} is {arguments.repr_of(value)}; a bool is True or False")
        return value
    if element in (ctypes.c_float, ctypes.c_double):
        return arguments.number(what, value)
    if element in (Float16, Bfloat16):
        given = torch.tensor(arguments.number(what, value), dtype=parameter.dtypes[0])
        return given.view(torch.uint16).item()
    bits = 8 * ctypes.sizeof(element)
    signed = element(-1).value < 0
    return arguments.whole_number(what, value, -(1 << bits - 1) if signed else 0, (1 << bits - signed) - 1)


def _require_type(what: str, parameter: Parameter, dtype: torch.dtype) -> None:
    if dtype not in parameter.dtypes:
        raise ConfigError(f"{what} is of {dtype}, and {parameter.text} takes {' or '.join(map(str, parameter.dtypes))}")
