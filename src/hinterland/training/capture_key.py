"""What a captured training step has taken for granted, to be compared before each replay: a replay would not see a change."""

from __future__ import annotations

from itertools import chain
from operator import is_
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

_PLAIN = frozenset((bool, int, float, str))
_OF_MODULES = _PLAIN | {FunctionType, BuiltinFunctionType}  # as an activation

Key = list[tuple[str, dict[Any, Any]]]


def key_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> Key:
    """By module, by group and state of the optimizer: numbers, texts and functions, and where tensors lie. A learning rate is
    left out: what a replay cannot take from the GPU adds it."""
    found: Key = []
    for module in model.modules():
        held = {name: value for name, value in vars(module).items() if type(value) in _OF_MODULES}
        backward = (*module._backward_pre_hooks, *module._backward_hooks)
        if hooks := (*module._forward_pre_hooks, *module._forward_hooks, *backward):
            held["hooks"] = hooks
        for name, tensor in chain(module._parameters.items(), module._buffers.items()):
            if tensor is not None:
                held[name] = _of(tensor)
        found.append((type(module).__name__, held))
    state: dict[Any, Any] = {}
    for number, group in enumerate(optimizer.param_groups):
        found.append((type(optimizer).__name__, {name: _plain(value) for name, value in group.items() if name not in _OWN}))
        for i, parameter in enumerate(group["params"]):
            state["parameter", number, i] = _of(parameter)
            for name, value in optimizer.state.get(parameter, {}).items():
                state[name, number, i] = _plain(value)
    state["hooks"] = (*optimizer._optimizer_step_pre_hooks, *optimizer._optimizer_step_post_hooks)
    found.append((type(optimizer).__name__, state))
    return found


_OWN = ("params", "lr", "initial_lr")


class Held:
    """The objects that a key was made of. As long as all are in their places, and tensors where they lay, the key is the same:
    to look takes half the time of making it, at every step.

    Args:
        model, optimizer: as of :func:`key_of`, whose key was made just now.
    """

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        modules, states = list(model.modules()), optimizer.state
        self._optimizer, self._groups = optimizer, optimizer.param_groups
        self._dicts: list[dict[Any, Any]] = [states, *states.values()]
        self._dicts += [optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks]
        for module in modules:
            self._dicts += [vars(module), module._modules, module._parameters, module._buffers]
            self._dicts += [module._forward_pre_hooks, module._forward_hooks]
            self._dicts += [module._backward_pre_hooks, module._backward_hooks]
        self._tensors = [tensor for one in modules for tensor in (*one.parameters(False), *one.buffers(False))]
        self._tensors += [parameter for group in self._groups for parameter in group["params"]]
        kept = [value for state in states.values() for value in state.values()]
        settings = [value for group in self._groups for name, value in group.items() if name not in _OWN]
        # Others may change in place.
        self._is_known = not any(map(is_lazy, self._tensors)) and all(map(_is_fixed, [*settings, *kept]))
        self._kept = [value for value in kept if isinstance(value, torch.Tensor)]
        self._objects, self._places = self._look(), self._lie() if self._is_known else []

    def same(self) -> bool:
        """Whether nothing was replaced; False also where that is not known."""
        if not self._is_known:
            return False
        now = self._look()
        return len(now) == len(self._objects) and all(map(is_, now, self._objects)) and self._lie() == self._places

    def _look(self) -> list[Any]:
        groups = self._groups
        settings = [value for group in groups for name, value in group.items() if name not in _OWN]
        parameters = chain.from_iterable(group["params"] for group in groups)
        own = self._optimizer.state, self._optimizer.param_groups
        return [*own, *groups, *settings, *parameters, *chain.from_iterable(map(dict.values, self._dicts))]

    def _lie(self) -> list[Any]:
        return [*map(_place, self._tensors), *map(torch.Tensor.data_ptr, self._kept)]


def _is_fixed(value: Any) -> bool:
    """Whether what :func:`_plain` makes of an object is the same as long as it is that object, and a tensor where it lies."""
    if type(value) is tuple:
        return all(map(_is_fixed, value))
    if isinstance(value, torch.Tensor):
        return not (value.is_cpu and value.numel() == 1)
    return value is None or type(value) in _PLAIN


def _of(tensor: torch.Tensor) -> Any:
    """Where a parameter or buffer lies, whether it learns, and its hooks; a lazy one lies nowhere yet."""
    return None if is_lazy(tensor) else _place(tensor)


def _place(tensor: torch.Tensor) -> Any:
    return tensor.data_ptr(), tensor.requires_grad, *(tensor._backward_hooks or ()), *(tensor._post_accumulate_grad_hooks or ())


def _plain(value: Any) -> Any:
    """A tensor is what lies at an address, but one number on the CPU is that number: a graph has it as such."""
    kind = type(value)
    if value is None or kind in _PLAIN:
        return value
    if kind is tuple:
        return tuple(map(_plain, value))
    if not isinstance(value, torch.Tensor):
        return repr(value)
    return value.item() if value.is_cpu and value.numel() == 1 else value.data_ptr()


def modes() -> dict[str, Any]:
    """Those of torch that a step depends on."""
    return {
        "autocast": torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda"),
        "gradients": torch.is_grad_enabled(),
        "matmul precision": torch.get_float32_matmul_precision(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
    }


def difference(before: Key, after: Key) -> str:
    """What is not the same in two of them, as a sentence calls it: ``momentum of SGD``."""
    if [kind for kind, _ in before] != [kind for kind, _ in after]:
        return "the modules of the model or the groups of the optimizer"
    for (kind, one), (_, other) in zip(before, after, strict=True):
        for name in {**one, **other}:
            if one.get(name) != other.get(name):
                return f"{name[0] if isinstance(name, tuple) else name} of {kind}"
    return "nothing"
