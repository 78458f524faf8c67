"""What samplers that are one loop over what they draw share: the call on either processor."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from ..graph.prepare import Prepared
from ..graph.traversal import BLOCK, csr_type, graph_type
from ..runtime.errors import GraphError
from ..runtime.jit import KernelFile
from ..runtime.launch import launch, resident_blocks
from .batch import _TEAM_WORDS

NONE = 2**63 - 1  # kNone of the control blocks


def kernel_file(name: str) -> KernelFile:
    """``sampling/NAME.cu``, whose kernel ``NAME_kernel`` takes lists of every form."""
    forms = (csr_type(edge, packed=packed) for edge in (4, 8) for packed in (False, True))
    return KernelFile(f"sampling/{name}.cu", tuple(f"{name}_kernel<{form}>" for form in forms), apart=True)


def call(
    prepared: Prepared, kernels: KernelFile, on_cpu: Callable[..., None], words: Sequence[int], items: int, *more: int
) -> None:
    """One call of ``on_cpu``, or one cooperative launch of the kernel that takes the same arguments.

    Args:
        prepared: the graph and the device.
        kernels: what :func:`kernel_file` made.
        words: what the kernel's parameter block holds: integers and addresses.
        items: what the loop goes over, which bounds the grid.
        more: arguments besides.
    """
    device = prepared.device
    block = torch.tensor([0] * _TEAM_WORDS + list(words), dtype=torch.int64).to(device)
    arguments = (prepared.out.words, block.data_ptr() + 8 * _TEAM_WORDS, block.data_ptr(), *more)
    if device.type == "cpu":
        on_cpu(*arguments)
        return
    instance = next(name for name in kernels.instances if name.endswith(f"<{graph_type(prepared)}>"))
    grid = min(resident_blocks(kernels, instance, device, BLOCK), 1 + items // BLOCK)
    launch(kernels, instance, device, grid, BLOCK, *arguments, cooperative=True)


def check_list(prepared: Prepared, bad: int) -> None:
    """Raises GraphError where ``bad`` is a vertex, as the device numbers it, and not ``NONE``."""
    if bad == NONE:
        return
    graph = prepared.graph
    vertex = bad if graph.outer is None else int(graph.outer[bad])
    raise GraphError(
        f"the neighbour list of vertex {vertex} is broken: its offsets do not lie in order, or it names a vertex outside "
        f"[0, {graph.num_vertices}); check the file it came from"
    )
