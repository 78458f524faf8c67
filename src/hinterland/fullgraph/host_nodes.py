"""What rows that were put off (:mod:`.host`) are made of: functions of each row, and reductions of neighbours' rows."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.func import functional_call
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from ..runtime import devices
from ..runtime.errors import ConfigError
from ..table import StorageArray

if TYPE_CHECKING:
    from .host_passes import Reduction

SAMPLED = 64  # rows on which a function is tried when it is put off: it shows widths and errors


@dataclass(eq=False, repr=False)
class Node:
    """Rows of all parts.

    Attributes:
        sample: a few of them, of zeros; what counts are the type and the width.
        needs: whether they depend on something that has a gradient.
    """

    sample: Tensor
    needs: bool = field(init=False)


@dataclass(eq=False, repr=False)
class InputRows(Node):
    """Rows that are there: a tensor for each of this process's parts, or a file. ``versions``: of the tensors as they were put
    off."""

    tensors: list[Tensor]
    files: list[StorageArray] = field(default_factory=list)
    versions: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.needs = torch.is_grad_enabled() and any(one.requires_grad for one in self.tensors)
        self.versions = [one._version for one in self.tensors]


@dataclass(eq=False, repr=False)
class Made(Node):
    """Rows that are made of others and of ``parameters``, tensors that have no rows."""

    inputs: tuple[Node, ...]
    parameters: tuple[Tensor, ...]

    def __post_init__(self) -> None:
        of_these = any(one.requires_grad for one in self.parameters) or any(one.needs for one in self.inputs)
        self.needs = torch.is_grad_enabled() and of_these


@dataclass(eq=False, repr=False)
class Reduced(Made):
    """What a reduction makes of its inputs."""

    reduction: Reduction


@dataclass(eq=False, repr=False)
class RowWise(Made):
    """A function of each row by itself.

    Attributes:
        fn: takes rows of the inputs and, behind them, the parameters; a module's parameters have these ``names``.
        seed: of what it draws, together with the first row of a block: computed anew, it draws the same. None: draws none.
        autocast: the type to which the state in which it was put off casts, if it does.
        taken: bytes of a row that it takes until its gradient.
        passing: bytes of a row that come on top while it is computed.
        writes: whether it writes to the rows that it is given.
        was: the ``state()`` when it was put off.
    """

    fn: Callable[..., Tensor]
    names: tuple[str, ...]
    seed: int | None
    autocast: torch.dtype | None
    taken: int = 0
    passing: int = 0
    writes: bool = False
    was: tuple[Any, ...] = ()

    def __call__(self, values: Sequence[Tensor], parameters: Sequence[Tensor], begin: int) -> Tensor:
        on = values[0].device
        if self.writes:
            values = [one.clone() for one in values]
        if self.seed is not None:
            devices.generator(on).manual_seed(self.seed + begin)
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.needs):
            if self.autocast is None:
                return self._called(values, parameters, on)
            with torch.autocast(on.type, self.autocast):
                return self._called(values, parameters, on)

    def _called(self, values: Sequence[Tensor], parameters: Sequence[Tensor], on: torch.device) -> Tensor:
        made: Tensor
        if not isinstance(self.fn, torch.nn.Module):
            made = self.fn(*values, *parameters)
        elif all(map(operator.is_, parameters, self.parameters)) and all(one.device == on for one in self.fn.buffers()):
            made = self.fn(*values)
        else:
            refuse_repeated(self.fn)
            held = {name: one.to(on) for name, one in self.fn.named_buffers()}
            made = functional_call(self.fn, {**held, **dict(zip(self.names, parameters, strict=True))}, tuple(values))
        return made

    def state(self) -> tuple[Any, ...]:
        """What results depend on besides rows: how often parameters and buffers were written, and the modes of modules."""
        versions = [one._version for one in self.parameters]
        if not isinstance(self.fn, torch.nn.Module):
            return (*versions,)
        return (*versions, *(one._version for one in self.fn.buffers()), *(one.training for one in self.fn.modules()))


def refuse_repeated(module: torch.nn.Module) -> None:
    """Refuses what torch's functional_call would leave without its parameters.

    Raises:
        ConfigError: a module that is to be copied to another device has one in it twice.
    """
    if len(list(module.modules())) < len([one for _, one in module.named_modules(remove_duplicate=False)]):
        raise ConfigError(
            f"{type(module).__name__} has the same module in it twice, and lies on another device than the rows; move it there"
        )


def stored(nodes: Iterable[Node]) -> list[InputRows | Reduced]:
    """The rows that these nodes are functions of, each once."""
    return [one for one in _below(nodes) if isinstance(one, InputRows | Reduced)]


def row_wise(nodes: Iterable[Node]) -> list[RowWise]:
    """The functions by which these nodes come from stored rows, each once."""
    return [one for one in _below(nodes) if isinstance(one, RowWise)]


def parameters_of(nodes: Iterable[Node]) -> list[Tensor]:
    """Those of all functions by which these nodes come from stored rows, each once."""
    return list({id(one): one for function in row_wise(nodes) for one in function.parameters}.values())


def _below(nodes: Iterable[Node]) -> list[Node]:
    """These nodes, and what functions of rows among them are made of."""
    found: dict[Node, None] = {}
    waiting = list(nodes)[::-1]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found[node] = None
            waiting += node.inputs[::-1] if isinstance(node, RowWise) else ()
    return list(found)


@dataclass
class Values:
    """The rows of a block, as they are asked for.

    Attributes:
        found: of stored nodes; others are added.
        parameter: a parameter as functions are to have it.
        begin: the block's first row.
    """

    found: dict[Node, Tensor]
    parameter: Callable[[Tensor], Tensor]
    begin: int

    def of(self, node: Node) -> Tensor:
        if node not in self.found:
            assert isinstance(node, RowWise)  # all others are there
            values = [self.of(one) for one in node.inputs]
            self.found[node] = node(values, [self.parameter(one) for one in node.parameters], self.begin)
        return self.found[node]


def tried(node: RowWise) -> None:
    """Calls a function with samples: finds its own sample, what it takes for a row until its gradient, whether it draws, and
    whether it writes to its rows.

    Raises:
        ConfigError: it does not give a row for each row, or has parameters of its own.
    """
    samples = [one.sample.detach() for one in node.inputs]
    on, kept = samples[0].device, {}
    leaves = [one.requires_grad_(one.is_floating_point()) for one in samples]
    given = [one.clone() for one in leaves]  # no leaves, which no function may write to

    def keep(one: Tensor) -> Tensor:
        if one.dim() and len(one) == SAMPLED:
            kept[one.untyped_storage()._cdata] = one
        return one

    parameters = [one if one.device == on else one.detach().to(on) for one in node.parameters]
    with torch.random.fork_rng([on.index] if on.type == "cuda" else []):
        before = devices.generator(on).get_state()
        seed, needs, node.seed, node.needs = node.seed, node.needs, None, True
        with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep, lambda one: one), _Live(given) as live:
            made = node(given, parameters, 0)
        node.needs = needs
        node.seed = None if torch.equal(before, devices.generator(on).get_state()) else seed
    named = getattr(node.fn, "__name__", type(node.fn).__name__)
    if not isinstance(made, Tensor) or made.dim() != 2 or len(made) != SAMPLED:
        shown = list(made.shape) if isinstance(made, Tensor) else type(made).__name__
        raise ConfigError(f"{named} of [{SAMPLED}, ...] rows gave {shown}; a function of rows gives a row [width] for each")
    known = {id(one) for one in (*leaves, *parameters)}
    above = {id(one) for parameter in parameters for one in _leaves(parameter)}
    if any(id(leaf) not in known | above for leaf in _leaves(made)):
        raise ConfigError(f"{named} has parameters of its own, which would get no gradient; pass a torch.nn.Module of them")
    for one in (*given, made):
        kept.pop(one.untyped_storage()._cdata, None)
    node.writes = any(one._version for one in given)
    node.taken = sum(one.nbytes for one in (*kept.values(), made)) // SAMPLED
    node.passing = max(live.most // SAMPLED - node.taken, 0)
    node.sample = made.new_zeros(made.shape)


class _Live(TorchDispatchMode):
    """Adds up what torch's functions make that has a row for each sample, for as long as it is there.

    Attributes:
        most: bytes at most, those ``given`` not counted.
    """

    def __init__(self, given: Iterable[Tensor]) -> None:
        super().__init__()
        self.most = self._now = 0
        self._there = {one.untyped_storage()._cdata for one in given}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for one in pytree.tree_leaves(made):
            if isinstance(one, Tensor) and one.dim() and len(one) == SAMPLED:
                self._add(one.untyped_storage())
        self.most = max(self.most, self._now)
        return made

    def _add(self, storage: torch.UntypedStorage) -> None:
        number, nbytes = storage._cdata, storage.nbytes()
        if number in self._there:
            return
        self._there.add(number)
        self._now += nbytes
        weakref.finalize(storage, self._drop, number, nbytes).atexit = False

    def _drop(self, number: int, nbytes: int) -> None:
        self._there.discard(number)
        self._now -= nbytes


def _leaves(made: Tensor) -> list[Tensor]:
    """Tensors that get a gradient from one."""
    found, waiting, seen = [], [made.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.append(node.variable)
        waiting += [one for one, _ in node.next_functions]
    return found
