"""Functions of elements, written in Python: called once, with values that note what becomes of them.

What type comes out is asked of torch, by the same call on a tensor of one element; so is what a type does not do.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import torch

from ..runtime import arguments
from ..runtime.errors import ConfigError
from ..runtime.shown import type_name

# The types of elements, as C++ has them.
TYPES = {
    torch.bool: "bool",
    torch.uint8: "uint8_t",
    torch.int8: "int8_t",
    torch.int16: "int16_t",
    torch.int32: "int32_t",
    torch.int64: "int64_t",
    torch.float32: "float",
    torch.float64: "double",
}
_ONE = {dtype: torch.ones(1, dtype=dtype) for dtype in TYPES}
FLOATS = (torch.float32, torch.float64)
FOLDS = ("sum", "amax", "amin")  # what puts a row's elements together

_UNARY = (
    "abs acos asin atan bitwise_not cos exp exp2 expm1 isfinite isinf isnan log log10 log1p log2 neg reciprocal rsqrt sigmoid "
    "sign sin sqrt square tan tanh"
)
_BINARY = (
    "add bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor div eq floor_divide fmod ge gt le lt "
    "maximum minimum mul ne remainder sub"
)
# What gives a bool of whatever is compared, which is cast to a common type before.
_ASKS = ("eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite")
_ALIASES = {
    "absolute": "abs",
    "clip": "clamp",
    "divide": "div",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "subtract": "sub",
    "true_divide": "div",
    "__and__": "bitwise_and",
    "__floordiv__": "floor_divide",
    "__lshift__": "bitwise_left_shift",
    "__or__": "bitwise_or",
    "__rshift__": "bitwise_right_shift",
    "__xor__": "bitwise_xor",
}
_OPERATORS = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "truediv": "div",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "pow",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
    "matmul": "matmul",  # which there is not, and the sentence says so
}
_CASTS = {
    "bool": torch.bool,
    "byte": torch.uint8,
    "char": torch.int8,
    "short": torch.int16,
    "int": torch.int32,
    "long": torch.int64,
    "float": torch.float32,
    "double": torch.float64,
}


@dataclass(frozen=True, eq=False)
class Constant:
    """A number that the function has from elsewhere: a parameter of the kernel, so that another number compiles nothing.

    Attributes:
        value: the number.
        dtype: of the tensor without dimensions that it was; None of a number of Python's.
    """

    value: bool | int | float
    dtype: torch.dtype | None = None


class Value:
    """An element, or what became of elements; where arrays have rows, one for each element of a row, or one for the row.

    Attributes:
        op, args: how it comes about.
        dtype: its type.
        shape: of a row, or ``()``.
        passes: whether elements of a row are put together on the way (``"fold"``), or picked (``"item"``).
    """

    __slots__ = ("args", "dtype", "op", "passes", "shape")
    __array_ufunc__ = None  # numpy's numbers leave operations to this class

    def __init__(self, op: str, args: tuple[Any, ...], dtype: torch.dtype, shape: tuple[int, ...]) -> None:
        if dtype not in TYPES:
            raise ConfigError(
                f"{op} gives {type_name(dtype)} here, which kernels from Python have not; cast before, as .float()"
            )
        self.op, self.args, self.dtype, self.shape = op, args, dtype, shape
        own = {"fold"} if op in FOLDS else {"item"} if op == "item" else set()
        self.passes: set[str] = own.union(*(one.passes for one in args if isinstance(one, Value)))

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.nn.functional.relu:
            kwargs.pop("inplace", None)
        return _call(".where" if func == torch.Tensor.where else func.__name__, args, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> NoReturn:
        raise _numpys(func.__name__)

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise _numpys("array")

    def __getattr__(self, name: str) -> Callable[..., Value]:
        if name.startswith("__"):
            raise AttributeError(name)
        method = f".{name}" if f".{name}" in _FUNCTIONS else name
        _known(method)
        return lambda *args, **kwargs: _call(method, (self, *args), kwargs)

    def __len__(self) -> int:
        if not self.shape:
            raise ConfigError("len() of one element; rows have a length, where the array has two dimensions")
        return self.shape[0]

    def __getitem__(self, at: Any) -> Value:
        if len(self.shape) != 1:
            raise ConfigError(f"[{arguments.shown(at)}] picks an element of a row, where the array has two dimensions")
        width = self.shape[0]
        place = arguments.whole_number("the element of a row", at, -width, width - 1)
        return Value("item", (self, place % width), self.dtype, ())

    def __bool__(self) -> bool:
        raise ConfigError(
            "a function is called once for all elements, so that there is no if, and, or, not, min(), max() nor a < b < c of "
            "one; use torch.where(condition, a, b), & | ~ with parentheses, torch.minimum and torch.maximum"
        )

    def __float__(self) -> float:
        raise ConfigError(
            "a function is called once for all elements, and has none as a number of Python's; use torch.sqrt(x) for "
            "math.sqrt(x), x.to(torch.int64) for int(x)"
        )

    def __index__(self) -> int:
        return int(float(self))

    __int__ = __index__

    def __hash__(self) -> NoReturn:
        raise ConfigError(
            "a function is called once for all elements, so that no set and no dict has one of them; use comparisons, as "
            "(x == 1) | (x == 2)"
        )

    def __iter__(self) -> Any:
        raise ConfigError("the elements of a row come by their numbers, row[0], or all together, as row.sum()")

    def __setitem__(self, at: Any, value: Any) -> None:
        raise ConfigError("a function gives a new value, and does not change its arguments; use torch.where(condition, a, b)")


def trace(name: str, function: Callable[..., Any], dtypes: Sequence[torch.dtype], shapes: Sequence[tuple[int, ...]]) -> Value:
    """What a function gives of elements of arrays.

    Args:
        name: what sentences begin with.
        function: the user's.
        dtypes, shapes: of a row of each array; ``()`` of an element.

    Raises:
        ConfigError: it does what no kernel can, or gives nothing that depends on elements.
    """
    if not callable(function):
        raise ConfigError(
            f"{name} takes a function first, as lambda x: x + 1, and then arrays; not {arguments.shown(function)}"
        )
    values = [Value("array", (i,), *about) for i, about in enumerate(zip(dtypes, shapes, strict=True))]
    result = _called(f"{name}: {len(values)} arrays do not fit the function", function, values, {})
    if not isinstance(result, Value):
        raise ConfigError(
            f"{name}: the function gives {arguments.shown(result)}, and must give one value that depends on its arguments"
        )
    return result


def _numpys(name: str) -> ConfigError:
    here = _ALIASES.get(name, name)
    instead = f"use torch.{here}" if here in _FUNCTIONS else "help(hl.map) says what it may use"
    return ConfigError(f"a function of elements uses torch's functions, and np.{name} is numpy's; {instead}")


def cast(value: Any, dtype: torch.dtype) -> Value:
    """A value as another type."""
    if isinstance(value, Value) and value.dtype == dtype:
        return value
    if isinstance(value, Constant) and dtype not in FLOATS and dtype != torch.bool:
        info = torch.iinfo(dtype)
        arguments.whole_number(f"with elements of {type_name(dtype)}", value.value, info.min, info.max)
    return Value("to", (value,), dtype, getattr(value, "shape", ()))


def _call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Value:
    function = _known(name)
    made: Value = _called(f"{name}, as functions of elements may use it", function, args, kwargs)
    return made


def _called(fault: str, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    try:
        return function(*args, **kwargs)
    except (AttributeError, TypeError) as error:
        if re.search(r"'Value'|\bValue\.__|type Value\b", str(error)):
            raise ConfigError(
                f"{error}: a Value stands for an element of an array; use operators and torch's functions of elements, as "
                "torch.sqrt(x) and not np.sqrt(x), which help(hl.map) lists"
            ) from error
        if (torchs := re.match(r"([a-z]\w*)\(\)", str(error))) and hasattr(torch, torchs[1]):
            said = re.split(r", but expected|\n", str(error))[0]
            raise ConfigError(
                f"{said}: a Value stands for an element of an array, as a tensor would; help(torch.{torchs[1]}) says what it "
                "takes, and help(hl.map) what of torch a function may use"
            ) from error
        try:
            inspect.signature(function).bind(*args, **kwargs)
        except TypeError as error:
            raise ConfigError(f"{fault}: {error}") from None
        except ValueError:
            pass  # one of torch's own does not say what it takes
        raise


def _known(name: str) -> Callable[..., Value]:
    found = _FUNCTIONS.get(_ALIASES.get(name, name))
    if found is None:
        raise ConfigError(f"a function of elements has no {name}; help(hl.map) says what it may use")
    return found


def _operand(name: str, given: Any) -> Value | Constant:
    if isinstance(given, Value | Constant):
        return given
    if isinstance(given, np.generic | np.ndarray) and given.ndim == 0:
        given = given.item()
    if isinstance(given, torch.Tensor) and given.dim() == 0 and given.layout == torch.strided and not given.is_meta:
        return _number(name, given.item(), given.dtype)
    return _number(name, given, None)


def _number(name: str, given: Any, dtype: torch.dtype | None) -> Constant:
    if isinstance(given, bool | float):
        return Constant(given, dtype)
    if isinstance(given, int):
        return Constant(arguments.whole_number(name, given), dtype)
    raise ConfigError(
        f"{name} takes elements of the arrays, numbers and tensors without dimensions, not {arguments.shown(given)}; pass an "
        "array with a value for each row to the call itself"
    )


def _sample(one: Value | Constant) -> Any:
    """What torch is asked with."""
    if isinstance(one, Value):
        return _ONE[one.dtype]
    return one.value if one.dtype is None else torch.tensor(one.value, dtype=one.dtype)


def _together(name: str, args: Sequence[Value | Constant]) -> tuple[int, ...]:
    shapes = {one.shape for one in args if isinstance(one, Value) and one.shape}
    if len(shapes) > 1:
        raise ConfigError(f"{name}: rows of shapes {' and '.join(map(str, sorted(shapes)))} do not fit together")
    return next(iter(shapes), ())


def _typed(name: str, args: Sequence[Value | Constant]) -> torch.dtype:
    """The type that torch's function gives."""
    samples = [_sample(one) for one in args]
    if name in ("maximum", "minimum"):  # which torch has for tensors only
        return torch.result_type(*samples)
    try:
        given: torch.dtype = getattr(torch, name)(*samples).dtype
    except (RuntimeError, TypeError) as error:  # NotImplementedError is a RuntimeError
        types = ", ".join(type_name(one.dtype) if one.dtype else f"the number {one.value}" for one in args)
        raise ConfigError(f"{name} of {types}: torch says {str(error).splitlines()[0]}") from None
    return given


def _apply(name: str, *given: Any) -> Value:
    """A function of one or two values, element by element."""
    args = [_operand(name, one) for one in given]
    dtype = _typed(name, args)
    computed = torch.result_type(*[_sample(one) for one in (args * 2)[:2]]) if name in _ASKS else dtype
    return Value(name, tuple(cast(one, computed) for one in args), dtype, _together(name, args))


def _unary(name: str) -> Callable[..., Value]:
    return lambda input: _apply(name, input)


def _binary(name: str) -> Callable[..., Value]:
    return lambda input, other: _apply(name, input, other)


def _logical(name: str) -> Callable[..., Value]:
    return lambda input, other: _apply(name, *(cast(_operand(name, one), torch.bool) for one in (input, other)))


def _rounding(name: str) -> Callable[..., Value]:
    """Whole numbers stay as they are."""
    return lambda input: _apply(name, input) if _typed(name, (input,)) in FLOATS else input


def _casting(dtype: torch.dtype) -> Callable[..., Value]:
    return lambda input: cast(input, dtype)


def _pow(input: Any, exponent: Any) -> Value:
    base, by = _operand("pow", input), _operand("pow", exponent)
    dtype = _typed("pow", (base, by))
    if isinstance(by, Constant) and by.value in _POWERS and (dtype in FLOATS or by.value >= 1):  # as torch computes them
        return _POWERS[by.value](cast(base, dtype))
    return Value("pow", (cast(base, dtype), cast(by, dtype)), dtype, _together("pow", (base, by)))


_POWERS: dict[float, Callable[[Value], Value]] = {
    0.5: lambda x: _apply("sqrt", x),
    1: lambda x: x,
    2: lambda x: _apply("square", x),
    3: lambda x: _apply("mul", _apply("square", x), x),
    -0.5: lambda x: _apply("rsqrt", x),
    -1: lambda x: _apply("reciprocal", x),
    -2: lambda x: _apply("reciprocal", _apply("square", x)),
}


def _where(condition: Any, input: Any, other: Any) -> Value:
    args = [_operand("where", one) for one in (condition, input, other)]
    if not isinstance(args[0], Value) or args[0].dtype != torch.bool:
        raise ConfigError("where takes a condition first, whose type is bool, as in torch.where(x > 0, x, 0)")
    dtype = torch.result_type(*[_sample(one) for one in args[1:]])
    return Value("where", (args[0], *(cast(one, dtype) for one in args[1:])), dtype, _together("where", args))


def _clamp(input: Any, min: Any = None, max: Any = None) -> Value:
    if min is None and max is None:
        raise ConfigError("clamp takes min, max or both")
    value = input if min is None else _apply("maximum", input, min)
    value = value if max is None else _apply("minimum", value, max)
    _typed("clamp", [value] * 3)  # or torch has none of this type
    return value


def _relu(input: Any) -> Value:
    return cast(_apply("maximum", input, 0), _typed("relu", [_operand("relu", input)]))


def _to(input: Value, dtype: torch.dtype) -> Value:
    if not isinstance(dtype, torch.dtype) or dtype not in TYPES:
        raise ConfigError(f".to() takes one of the types {', '.join(map(type_name, TYPES))}, not {arguments.shown(dtype)}")
    return cast(input, dtype)


def _fold(name: str, input: Value, dim: Any, dtype: torch.dtype) -> Value:
    """All elements of a row put together, in ``dtype``."""
    if not isinstance(input, Value) or not input.shape:
        raise ConfigError(
            f"{name}() puts the elements of a row together, and this is one value; hl.reduce does so with all rows"
        )
    if math.prod(input.shape) == 0:
        raise ConfigError(f"{name}() of rows without elements")
    if dim is not None and not (len(input.shape) == 1 and isinstance(dim, int) and dim in (0, -1)):
        raise ConfigError(
            f"{name}: dim={arguments.shown(dim)}; a function sees a row, {input.shape}, and all of it is put together"
        )
    return Value(name, (cast(input, dtype),), dtype, ())


def _sum(input: Value, dim: Any = None) -> Value:
    given = _typed("sum", (input,))
    return cast(_fold("sum", input, dim, torch.float64 if given in FLOATS else torch.int64), given)


def _mean(input: Value, dim: Any = None) -> Value:
    given = _typed("mean", (input,))
    total = _fold("sum", input, dim, torch.float64)
    return cast(_apply("div", total, float(math.prod(input.shape))), given)


def _bound(name: str) -> Callable[..., Value]:
    return lambda input, dim=None: _fold(name, input, dim, input.dtype)


def _max(input: Value, other: Any = None) -> Value:
    return _fold("amax", input, None, input.dtype) if other is None else _apply("maximum", input, other)


def _min(input: Value, other: Any = None) -> Value:
    return _fold("amin", input, None, input.dtype) if other is None else _apply("minimum", input, other)


_FUNCTIONS: dict[str, Callable[..., Value]] = {
    **{name: _unary(name) for name in _UNARY.split()},
    **{name: _binary(name) for name in _BINARY.split()},
    **{f"logical_{name}": _logical(f"bitwise_{name}") for name in ("and", "or", "xor")},
    **{name: _rounding(name) for name in ("ceil", "floor", "round", "trunc")},
    **{name: _casting(dtype) for name, dtype in _CASTS.items()},
    "all": lambda input, dim=None: _fold("amin", cast(input, torch.bool), dim, torch.bool),
    "amax": _bound("amax"),
    "amin": _bound("amin"),
    "any": lambda input, dim=None: _fold("amax", cast(input, torch.bool), dim, torch.bool),
    "clamp": _clamp,
    "logical_not": lambda input: _apply("bitwise_not", cast(input, torch.bool)),
    "max": _max,
    "mean": _mean,
    "min": _min,
    "pow": _pow,
    "relu": _relu,
    "rsub": lambda input, other: _apply("sub", other, input),
    "sum": _sum,
    "to": _to,
    "where": _where,
    ".where": lambda self, condition, other: _where(condition, self, other),  # the method, whose value is not the first
}


def _add_operators() -> None:
    def forward(name: str) -> Callable[..., Value]:
        return lambda self, other, *more: _call(name, (self, other, *more), {})

    def backward(name: str) -> Callable[..., Value]:
        return lambda self, other: _call(name, (other, self), {})

    def alone(name: str) -> Callable[..., Value]:
        return lambda self, *more: _call(name, (self, *more), {})

    for word, name in _OPERATORS.items():
        setattr(Value, f"__{word}__", forward(name))
        setattr(Value, f"__r{word}__", backward(name))
    for name in _ASKS[:6]:
        setattr(Value, f"__{name}__", forward(name))
    for word, name in {"neg": "neg", "abs": "abs", "invert": "bitwise_not", "round": "round"}.items():
        setattr(Value, f"__{word}__", alone(name))


_add_operators()
