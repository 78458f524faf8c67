"""What rows that were put off (:mod:`.host`) are made of: functions of each row, and reductions of neighbours' rows."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.func import functional_call

from ..runtime.errors import ConfigError

if TYPE_CHECKING:
    from .host_passes import Reduction

SAMPLED = 64  # rows on which a function is tried when it is put off: it shows widths and errors


@dataclass(eq=False)
class Node:
    """Rows of all parts. ``sample``: a few of them, of zeros; what counts are the type and the width."""

    sample: Tensor

    @property
    def row_bytes(self) -> int:
        return self.sample.shape[1] * self.sample.element_size()


@dataclass(eq=False)
class Given(Node):
    """Rows that are there: a tensor for each of this process's parts."""

    tensors: list[Tensor]


@dataclass(eq=False)
class Reduced(Node):
    """What a reduction makes of its inputs and of tensors that have no rows."""

    reduction: Reduction
    inputs: tuple[Node, ...]
    parameters: tuple[Tensor, ...] = ()


@dataclass(eq=False)
class RowWise(Node):
    """A function of each row by itself.

    Attributes:
        parameters: tensors that it takes behind the rows; of a module its parameters, by ``names``.
        seed: of what it draws, together with the first row of a block: computed anew, it draws the same. None: draws none.
        autocast: the type to which the state in which it was put off casts, if it does.
        taken: bytes of a row of all that it allocates.
    """

    fn: Callable[..., Tensor]
    inputs: tuple[Node, ...]
    parameters: tuple[Tensor, ...]
    names: tuple[str, ...]
    seed: int | None
    autocast: torch.dtype | None
    taken: int = 0

    def __call__(self, values: Sequence[Tensor], parameters: Sequence[Tensor], begin: int) -> Tensor:
        on = values[0].device
        if self.seed is not None:
            _generator(on).manual_seed(self.seed + begin)
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
            held = {name: one.to(on) for name, one in self.fn.named_buffers()}
            made = functional_call(self.fn, {**held, **dict(zip(self.names, parameters, strict=True))}, tuple(values))
        return made


def stored(nodes: Iterable[Node]) -> list[Given | Reduced]:
    """The rows that these nodes are functions of, each once."""
    found: dict[Given | Reduced, None] = {}
    for node in nodes:
        if isinstance(node, Given | Reduced):
            found[node] = None
        elif isinstance(node, RowWise):
            found.update(dict.fromkeys(stored(node.inputs)))
    return list(found)


def row_wise(nodes: Iterable[Node]) -> list[RowWise]:
    """The functions by which these nodes come from stored rows, each once."""
    found: dict[RowWise, None] = {}
    for node in nodes:
        if isinstance(node, RowWise):
            found.update(dict.fromkeys(row_wise(node.inputs)))
            found[node] = None
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
    """Calls a function with samples: finds its own sample, what it takes for a row until its gradient, and whether it draws.

    Raises:
        ConfigError: it does not give a row for each row, or has parameters of its own.
    """
    samples = [one.sample.detach().requires_grad_() for one in node.inputs]
    on, kept = samples[0].device, {}

    def keep(one: Tensor) -> Tensor:
        if one.dim() and len(one) == SAMPLED:
            kept[one.untyped_storage()._cdata] = one
        return one

    with torch.random.fork_rng([on.index] if on.type == "cuda" else []), torch.enable_grad():
        before = _generator(on).get_state()
        seed, node.seed = node.seed, None
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda one: one):
            made = node(samples, [one.detach().to(on) for one in node.parameters], 0)
        node.seed = None if torch.equal(before, _generator(on).get_state()) else seed
    named = getattr(node.fn, "__name__", type(node.fn).__name__)
    if not isinstance(made, Tensor) or made.dim() != 2 or len(made) != SAMPLED:
        shown = list(made.shape) if isinstance(made, Tensor) else type(made).__name__
        raise ConfigError(f"{named} of [{SAMPLED}, ...] rows gave {shown}; a function of rows gives a row [width] for each")
    if any(all(leaf is not one for one in samples) for leaf in _leaves(made)):
        raise ConfigError(f"{named} has parameters of its own, which would get no gradient; pass a torch.nn.Module of them")
    for one in (*samples, made):
        kept.pop(one.untyped_storage()._cdata, None)
    node.taken = sum(one.nbytes for one in (*kept.values(), made)) // SAMPLED
    node.sample = made.new_zeros(made.shape)


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


def _generator(on: torch.device) -> torch.Generator:
    if on.type != "cuda":
        return torch.default_generator
    torch.cuda.init()
    generator: torch.Generator = torch.cuda.default_generators[on.index]
    return generator
