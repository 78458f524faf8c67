"""What samplers that are one loop over what they draw share: the call on either processor."""

from __future__ import annotations

from collections.abc import Callable

from .. import _core
from ..graph.prepare import Prepared
from ..graph.traversal import BLOCK, csr_type, graph_type
from ..runtime.errors import GraphError
from ..runtime.jit import KernelFile
from ..runtime.launch import launch, resident_blocks
from ..runtime.params import Params


def kernel_file(name: str) -> KernelFile:
    """``sampling/NAME.cu``, whose kernel ``NAME_kernel`` takes lists of every form."""
    forms = (csr_type(edge, packed=packed) for edge in (4, 8) for packed in (False, True))
    return KernelFile(f"sampling/{name}.cu", tuple(f"{name}_kernel<{form}>" for form in forms), apart=True)


def call(prepared: Prepared, kernels: KernelFile, on_cpu: Callable[[int], None], params: Params, items: int) -> None:
    """One call of ``on_cpu``, or one cooperative launch of the kernel that takes the same parameters.

    Args:
        prepared: the graph and the device.
        kernels: what :func:`kernel_file` made.
        params: those of the kernel.
        items: what the loop goes over, which bounds the grid.
    """
    device = prepared.device
    if device.type == "cpu":
        on_cpu(params.address)
        return
    instance = next(name for name in kernels.instances if name.endswith(f"<{graph_type(prepared)}>"))
    grid = min(resident_blocks(kernels, instance, device, BLOCK), 1 + items // BLOCK)
    launch(kernels, instance, device, grid, BLOCK, params, cooperative=True)


def check_list(prepared: Prepared, bad: int) -> None:
    """Raises GraphError where ``bad`` is a vertex, as the device numbers it, and not ``SAMPLE_NONE``."""
    if bad == _core.SAMPLE_NONE:
        return
    graph = prepared.graph
    vertex = bad if graph.outer is None else int(graph.outer[bad])
    raise GraphError(
        f"the neighbour list of vertex {vertex} is broken: its offsets do not lie in order, or it names a vertex outside "
        f"[0, {graph.num_vertices}); check the file it came from"
    )
