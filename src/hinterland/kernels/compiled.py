"""A function of chunks as torch.compile has it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from ..runtime import arguments
from ..runtime.warned import warn_once

Function = Callable[..., torch.Tensor]
# By which a GPU's compiled code rounds each operation by itself, as torch's own kernels do.
_ROUNDED = ("emulate_precision_casts", "eager_numerics.division_rounding", "emulate_divison_rounding")
_LOOKUPS = ("aten.index", "aten.gather", "aten.embedding", "aten.scatter")


class LooksUp(Exception):
    """A function that looks up by number, for a CPU."""


def compiled(function: Function) -> Function:
    """The function as torch.compile has it; itself where there is no compiler, or where its kernel would be dangerous."""
    fast: Function = torch.compile(function, options=_options())

    def run(*chunks: torch.Tensor) -> torch.Tensor:
        nonlocal fast
        for chunk in chunks:
            torch._dynamo.maybe_mark_dynamic(chunk, 0)  # the last one is shorter, and compiles nothing either
        try:
            return fast(*chunks)
        except Exception as error:
            values, fast = function(*chunks), function  # or what the function itself raises
            if not isinstance(getattr(error, "inner_exception", None), LooksUp):
                reason = arguments.one_line(str(error))
                warn_once("torch.compile", f"torch.compile failed, so functions run as they are, and slower: {reason}")
            return values

    return run


@functools.cache
def _options() -> dict[str, Any]:
    from torch._inductor import list_options  # which imports for a second
    from torch._inductor.custom_graph_pass import CustomGraphPass

    class RefuseLookups(CustomGraphPass):
        """What torch compiles for a CPU throws among OpenMP's threads at a number out of range, which ends the process."""

        def __call__(self, graph: torch.fx.Graph) -> None:
            for node in graph.nodes:
                made = node.meta.get("val")
                if isinstance(made, torch.Tensor) and made.is_cpu and str(node.target).startswith(_LOOKUPS):
                    raise LooksUp

        def uuid(self) -> str:
            return f"hinterland refuses {_LOOKUPS}"

    known = list_options()
    return {name: True for name in _ROUNDED if name in known} | {"post_grad_custom_pre_pass": RefuseLookups()}
