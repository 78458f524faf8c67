"""What users pass: each kind of value is looked at in one place, and refused in a sentence that names it.

A function checks its arguments where they enter. What these functions give back is of one plain type, so that what follows
need not ask again. Ranges that have a sentence of their own stay with the function that knows why.
"""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, TypeGuard

from .errors import ConfigError

if TYPE_CHECKING:  # the command line checks arguments before it needs torch
    import torch

MOST = 2**63 - 1  # what native code and kernels count to
_LONGEST = 80  # characters of a value in a sentence
_NO_UTF8 = dict.fromkeys(range(0xDC80, 0xDD00))  # how Python holds such bytes of files' names


def repr_of(value: object) -> str:
    """``value`` on one line of a sentence, shortened where it is long."""
    if _is_tensor(value):
        return kind_of(value)
    try:
        text = " ".join(repr(value).split())
    except Exception:  # Python prints no number of more than 4300 digits, and other people's classes what they like
        return f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def one_line(text: str) -> str:
    """``text`` as it is, or as Python writes it where a character of it is no letter or sign, but breaks a line or steers a
    terminal. Bytes of a file's name that are no UTF-8 do neither."""
    return text if text.translate(_NO_UTF8).isprintable() else repr(text)


def kind_of(tensor: torch.Tensor) -> str:
    """What a tensor is, whatever it is: ``a torch.float32 tensor of shape (3, 2)``."""
    if tensor.is_nested:
        return "a nested tensor"
    layout = "" if str(tensor.layout) == "torch.strided" else f" {tensor.layout}"
    where = "" if tensor.is_cpu else f" on {tensor.device}"
    return f"a {tensor.dtype}{layout} tensor of shape {tuple(tensor.shape)}{where}"


def whole_number(name: str, value: Any, least: int = -MOST - 1, most: int = MOST) -> int:
    """``value`` as an int, if it is a whole number (Python's, numpy's, or a tensor of one) from ``least`` to ``most``.

    Raises:
        ConfigError: it is something else, NaN and infinity included, or out of range.
    """
    try:
        number = operator.index(value)
    except (TypeError, ValueError, RuntimeError):  # the last two are a tensor's
        raise ConfigError(f"{name} {repr_of(value)} is not a whole number{_range(least, most)}") from None
    if not least <= number <= most:
        raise ConfigError(f"{name} {repr_of(number)} is not a whole number{_range(least, most)}")
    return number


def at_least_one(name: str, value: Any, fault: str) -> int:
    """``value`` as an int, if it is a whole number from 1 on; ``fault`` ends the sentence: ``"makes no batch; use 1 or more"``.

    Raises:
        ConfigError: it is less, or something else.
    """
    given = whole_number(name, value)
    if given < 1:
        raise ConfigError(f"{name}={given} {fault}")
    return given


def number(name: str, value: Any) -> float:
    """``value`` as a float, if it is a real number; NaN and infinity are numbers here, and the caller's to refuse.

    Raises:
        ConfigError: it is something else, text included.
    """
    try:
        if not isinstance(value, str | bytes | bytearray):
            return float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        pass
    raise ConfigError(f"{name} {repr_of(value)} is not a number; use one, as 0.5")


def switch(name: str, value: Any) -> bool:
    """``value`` as a bool, if it is True or False (Python's, numpy's, a tensor of one, or the numbers 1 and 0).

    Raises:
        ConfigError: it is something else, None and texts included.
    """
    if isinstance(value, bool):
        return value
    numpy = sys.modules.get("numpy")
    try:
        if (numpy is not None and isinstance(value, numpy.bool_)) or operator.index(value) in (0, 1):
            return bool(value)
    except (TypeError, ValueError, RuntimeError):  # the last two are a tensor's
        pass
    raise ConfigError(f"{name} {repr_of(value)} is neither True nor False")


def switches(**given: Any) -> list[bool]:
    """Each of them by :func:`switch`."""
    return [switch(name, value) for name, value in given.items()]


def seconds(name: str, value: Any) -> float:
    """``value`` as a time in seconds above 0; infinity waits for ever.

    Raises:
        ConfigError: it is no number, NaN, or not above 0.
    """
    given = number(name, value)
    if not given > 0:
        raise ConfigError(f"{name}={given:g} gives a stage no time; use a number of seconds above 0")
    return given


def one_of(name: str, value: Any, choices: Collection[str]) -> str:
    """``value``, if it is one of the words ``choices``.

    Raises:
        ConfigError: names them.
    """
    if not (isinstance(value, str) and value in choices):
        raise ConfigError(f"{name} {repr_of(value)} is not one of {', '.join(choices)}")
    return value


def path(name: str, value: Any) -> str:
    """``value`` as the name of a file or folder.

    Raises:
        ConfigError: it is no text or path, or holds a NUL, with which no name of a file can be asked for.
    """
    try:
        text = os.fsdecode(value)
    except TypeError:
        raise ConfigError(f"{name} is a path, as text or a pathlib.Path, not {repr_of(value)}") from None
    if not text:
        raise ConfigError(f"{name} is empty; name a file or folder")
    if "\0" in text:
        raise ConfigError(f"{name}={repr_of(text)} has a NUL character in it, which no file's name has; correct it")
    return text


def function(name: str, value: Any) -> None:
    """Refuses what cannot be called; None is no function, and fine.

    Raises:
        ConfigError: names it.
    """
    if value is not None and not callable(value):
        raise ConfigError(f"{name}={repr_of(value)} is no function; pass one, or None")


def instance(name: str, value: Any, kind: type | tuple[type, ...], remedy: str) -> None:
    """Refuses what is none of ``kind``; ``remedy`` ends the sentence.

    Raises:
        ConfigError: names the type that was given and those that are taken.
    """
    if not isinstance(value, kind):
        wanted = " or ".join(k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,)))
        raise ConfigError(f"{name} is a {type(value).__name__}, but must be a {wanted}; {remedy}")


def dense(name: str, value: Any) -> torch.Tensor:
    """``value``, if it is a tensor whose elements lie in memory one beside the other: no sparse, nested, quantized or meta one.

    Raises:
        ConfigError: says what it is.
    """
    if not _is_tensor(value):
        raise ConfigError(f"{name} must be a torch tensor, not {type(value).__name__}; use torch.as_tensor")
    if value.layout is not sys.modules["torch"].strided or value.is_meta or value.is_nested or value.is_quantized:
        raise not_dense(name, value)
    return value


def not_dense(name: str, value: torch.Tensor) -> ConfigError:
    """What to raise for a tensor that :func:`dense` refuses."""
    if value.is_meta:
        return ConfigError(f"{name} is on the meta device, which holds no data; make it on cpu or cuda")
    if value.is_nested:
        return ConfigError(f"{name} is a nested tensor; use a dense one, as torch.cat({name}.unbind()) is")
    if value.is_quantized:
        return ConfigError(f"{name} is quantized ({value.dtype}); use a dense tensor, as {name}.dequantize() is")
    return ConfigError(f"{name} has the layout {value.layout}; use a dense tensor, as {name}.to_dense() is")


def _is_tensor(value: object) -> TypeGuard[torch.Tensor]:
    """Whether it is a tensor; there is none before torch is imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _range(least: int, most: int) -> str:
    if least == -MOST - 1 and most == MOST:
        return " of 64 bits"
    if most > 2**64:  # any
        return ""
    if most == MOST:
        return f" from {least} on"
    return f" from {least} to {'2^64 - 1' if most == 2**64 - 1 else most}"
