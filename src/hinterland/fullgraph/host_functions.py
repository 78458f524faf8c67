"""Which of torch's functions take each row by itself, and so can be put off (:mod:`.host`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils import _pytree as pytree

# By element, or over a row's elements; with several rows, of two arguments alike.
_BY_ELEMENT = (
    "abs add sub rsub mul div neg pow exp log log1p sqrt rsqrt square clamp sigmoid tanh relu erf sin cos maximum minimum "
    "where gt lt ge le eq ne __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __neg__ __pow__ "
    "__abs__ float double half bfloat16"
)
_OF_ROWS = (
    "relu elu selu celu gelu silu mish leaky_relu relu6 hardtanh softplus sigmoid tanh hardswish logsigmoid linear layer_norm "
    "rms_norm dropout alpha_dropout feature_alpha_dropout prelu"
)
OPERATORS = (
    "__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __neg__ __pow__ __rpow__ __abs__ __matmul__ "
    "__floordiv__ __mod__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__"
).split()


def _named(names: str, *where: Any) -> frozenset[Any]:
    return frozenset(getattr(one, name) for one in where for name in names.split() if hasattr(one, name))


_ELEMENTS = _named(_BY_ELEMENT, torch, Tensor)
_FUNCTIONS = _ELEMENTS | _named(_OF_ROWS, torch, F, Tensor)
_PRODUCTS = frozenset({torch.matmul, torch.mm, Tensor.matmul, Tensor.mm, Tensor.__matmul__})  # of rows and a matrix
_ALONG = frozenset(
    {F.softmax, F.log_softmax, F.normalize, torch.softmax, torch.log_softmax, Tensor.softmax, Tensor.log_softmax}
)
_JOINS = frozenset({torch.cat, torch.concat, torch.hstack})


def is_by_element(func: Any) -> bool:
    """Whether a function of torch's takes an element of each argument, so that a tensor with as many rows is one of rows."""
    return func in _ELEMENTS


def is_row_wise(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call of torch's gives a row for each row, made of that row alone."""
    if func in _FUNCTIONS:
        return True
    if func in _ALONG:
        default = 1 if func is F.normalize else None
        place = 2 if func is F.normalize else 1
        return kwargs.get("dim", args[place] if len(args) > place else default) in (1, -1)
    if func in _PRODUCTS:  # the other way round rows are summed
        return not isinstance(args[0], Tensor) and isinstance(args[1], Tensor) and args[1].dim() == 2
    if func in _JOINS:
        return func is torch.hstack or kwargs.get("dim", args[1] if len(args) > 1 else 0) in (1, -1)
    return False


def opened(
    func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], is_rows: Callable[[Any], bool]
) -> tuple[Callable[..., Tensor], list[Any], list[Tensor]]:
    """A call as a function of rows and, behind them, of other tensors; with both, in order."""
    leaves, form = pytree.tree_flatten((tuple(args), dict(kwargs)))
    rows = [i for i, one in enumerate(leaves) if is_rows(one)]
    tensors = [i for i, one in enumerate(leaves) if isinstance(one, Tensor) and i not in rows]

    def call(*given: Tensor) -> Tensor:
        filled = list(leaves)
        for i, one in zip((*rows, *tensors), given, strict=True):
            filled[i] = one
        positional, named = pytree.tree_unflatten(filled, form)
        made: Tensor = func(*positional, **named)
        return made

    call.__name__ = getattr(func, "__name__", "the function")
    return call, [leaves[i] for i in rows], [leaves[i] for i in tensors]
