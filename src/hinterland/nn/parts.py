"""Modules and functions on the rows of several parts of one process, which may lie on several devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm

from ..fullgraph.host import HostRows, RowsOf
from ..fullgraph.host_nodes import refuse_repeated
from ..runtime import arguments
from ..runtime.errors import ConfigError

Given = Tensor | Sequence[Tensor] | HostRows


def each(fn: Callable[..., Any], x: Given, *others: Given) -> Any:
    """What ``fn`` makes of the rows of each part: ``each(torch.relu, x)``, where x is a tensor or a list of them.

    Args:
        fn: a function, or a module. A module's parameters are copied to the devices of the rows, and their gradients are added
            up where the parameters are.
        x: the rows of one part, or a list with those of each.
        others: further arguments, such as labels, one of the same form each.

    Returns:
        What ``fn`` gave of one part, or a list of that; of rows that go through host memory such rows: ``fn`` is put off, and
        is called for blocks of them, again for gradients.

    Raises:
        ConfigError: the arguments are not of as many parts; or a module takes statistics over the rows (BatchNorm), which would
            be those of each part by itself.
    """
    if not callable(fn):
        raise ConfigError(f"fn={arguments.repr_of(fn)} is no function; pass a module, or a function of rows")
    for one in (x, *others):
        listed = isinstance(one, list | tuple) and all(isinstance(part, Tensor) for part in one)
        if not listed and not isinstance(one, HostRows | Tensor):
            raise ConfigError(f"{arguments.repr_of(one)} is no argument of fn; give the rows of one part, or a list of each's")
    if isinstance(x, HostRows):
        return of_parts(fn, x, *others)
    lists: list[Any] = [[one] if isinstance(one, Tensor) else one for one in (x, *others)]
    if len({len(one) for one in lists}) > 1:
        raise ConfigError(f"arguments of {', '.join(str(len(one)) for one in lists)} parts; give all for the same parts")
    made = of_parts(fn, *lists)
    return made[0] if isinstance(x, Tensor) else made


def of_parts(fn: Callable[..., Any], *lists: RowsOf, parameters: Sequence[Tensor] = ()) -> Any:
    """:func:`each`, of lists or HostRows; a function takes ``parameters`` behind the rows, on their devices."""
    if isinstance(fn, torch.nn.Module) and (isinstance(lists[0], HostRows) or len(lists[0]) > 1):
        refuse_statistics(fn, _BatchNorm)
    if isinstance(lists[0], HostRows):
        return lists[0].map(fn, *([one] if isinstance(one, Tensor) else one for one in lists[1:]), parameters=parameters)
    if not isinstance(fn, torch.nn.Module):
        return [fn(*rows) for rows in zip(*lists, *(copied(one, lists[0]) for one in parameters), strict=True)]
    held = {**dict(fn.named_parameters()), **dict(fn.named_buffers())}
    homes = {one.device for one in held.values()}
    copies: dict[torch.device, dict[str, Tensor]] = {}
    made = []
    for rows in zip(*lists, strict=True):
        on = rows[0].device
        if homes <= {on}:
            made.append(fn(*rows))
            continue
        if on not in copies:
            refuse_repeated(fn)
            copies[on] = {name: copied(one, rows)[0] for name, one in held.items()}
        made.append(functional_call(fn, copies[on], rows))
    return made


def copied(parameter: Tensor, rows: Sequence[Tensor]) -> list[Tensor]:
    """A parameter on the device of each part's rows."""
    # Gradients come to a parameter from its own GPU's stream, by way of the view: from another's, torch warns the user.
    return [parameter if one.device == parameter.device else parameter.view_as(parameter).to(one.device) for one in rows]


def refuse_statistics(module: torch.nn.Module, kinds: type | tuple[type, ...], but: type | tuple[type, ...] = ()) -> None:
    """Refuses a module that would normalise each part's rows by their own mean and variance.

    Raises:
        ConfigError: names the layer.
    """
    for one in module.modules():
        if isinstance(one, kinds) and not isinstance(one, but) and (one.training or one.running_mean is None):
            raise ConfigError(
                f"{type(one).__name__} would normalise each part by its own rows' mean and variance; use LayerNorm, or in a "
                "process group of GPUs torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)"
            )
