"""The arrays of a graph: what types they may have, where each lies, and whether they hold what CSR promises."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import torch

from .. import _core
from ..memory.allocator import place_again
from ..memory.copies import copied, copy
from ..runtime import arguments, devices
from ..runtime.errors import ConfigError, GraphError, OutOfMemory
from ..runtime.thresholds import CHUNK, GPU_CHUNK, STORED_BYTES, WEIGHTS_SAMPLED
from ..runtime.units import format_bytes
from ..table import StorageArray, UnifiedTensor, as_table

Array = UnifiedTensor | torch.Tensor | StorageArray

NAMES = ("indptr", "indices", "weights")
PLACEMENTS = ("gpu", "host", "managed", "pinned", "system", "pageable")
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


class WeightType(NamedTuple):
    """How native code reads a weight: bytes, order (0 unsigned, 1 signed, 2 float) and, for floats, infinity's bits."""

    bytes: int
    order: int
    infinity: int = 0


WEIGHT_TYPES = {
    torch.uint8: WeightType(1, 0),
    torch.uint16: WeightType(2, 0),
    torch.uint32: WeightType(4, 0),
    torch.uint64: WeightType(8, 0),
    torch.int8: WeightType(1, 1),
    torch.int16: WeightType(2, 1),
    torch.int32: WeightType(4, 1),
    torch.int64: WeightType(8, 1),
    torch.float16: WeightType(2, 2, 0x7C00),
    torch.bfloat16: WeightType(2, 2, 0x7F80),
    torch.float32: WeightType(4, 2, 0x7F800000),
    torch.float64: WeightType(8, 2, 0x7FF0000000000000),
}


def index_dtype(num_vertices: int) -> torch.dtype:
    """The type of neighbours: int32 where every vertex number fits, which halves what a traversal reads."""
    return torch.int32 if num_vertices < 2**31 else torch.int64


def placements(placement: str | Mapping[str, str], in_place: bool = False) -> dict[str, str]:
    """Each array's placement by name; arrays that a mapping leaves out go to ``host``. Without a GPU ``gpu`` is ``pageable``.

    ``in_place``: they are those of a file, where neighbours and weights may stay (``storage``). Offsets never do.
    """
    if not isinstance(placement, str | Mapping):
        raise ConfigError(f"placement is a word, or a mapping from arrays to words, not {arguments.repr_of(placement)}")
    given = dict.fromkeys(NAMES, placement) if isinstance(placement, str) else dict(placement)
    if in_place and placement == "storage":
        del given["indptr"]
    chosen = dict.fromkeys(NAMES, "host") | given
    for name, place in chosen.items():
        if name not in NAMES:
            raise ConfigError(f"placement names {arguments.repr_of(name)}, but a graph's arrays are {', '.join(NAMES)}")
        if place == "storage" and in_place and name == "indptr":
            raise ConfigError("placement 'storage' of indptr: offsets are read all the time and stay in memory; leave them out")
        if place == "storage" and in_place:
            continue
        if place == "storage":
            raise ConfigError(
                f"placement 'storage' of {name}: only what load_graph reads from an .hl file lies there; save the graph with "
                "save_graph(graph, 'x.hl'), and read it with load_graph('x.hl', placement='storage')"
            )
        if not isinstance(place, str) or place not in PLACEMENTS:
            raise ConfigError(f"placement {arguments.repr_of(place)} of {name} is none of {', '.join(PLACEMENTS)}")
        if place == "gpu" and not devices.keeps_on_gpu(f"placement 'gpu' of {name}"):
            chosen[name] = "pageable"
    return chosen


def host_place(placement: str) -> str:
    """Where host memory is taken for an array of this placement: what goes to a GPU is made in pageable memory first."""
    return "pageable" if placement == "gpu" else placement


def host_places(places: Mapping[str, str]) -> dict[str, str]:
    """The same for several arrays, by name."""
    return {name: host_place(place) for name, place in places.items()}


def place_of(array: Array) -> str:
    """Where an array lies, in a word."""
    return "gpu" if isinstance(array, torch.Tensor) else array.placement


def file_of(array: Array) -> StorageArray | None:
    """The array itself where it lies on storage; None of one in memory."""
    return None if isinstance(array, torch.Tensor) else array.file


def place_like(array: Array) -> str:
    """The placement to ask for, for another array to lie where this one does; of one on storage host memory, since nothing is
    made there."""
    if isinstance(array, torch.Tensor):
        return "gpu"
    return "host" if file_of(array) is not None else place_again(array.placement)


def in_memory(array: Array) -> UnifiedTensor | torch.Tensor:
    """An array on storage read whole into host memory; any other as it is. Raises StorageError: its file cannot be read, or is
    shorter than it was; OutOfMemory: it does not fit."""
    return array if isinstance(array, torch.Tensor) else UnifiedTensor.holding(array)


def pieces(array: Array) -> Iterator[torch.Tensor]:
    """All elements of a one-dimensional array in order, on the CPU: at once or, of one on storage, a few MiB at a time, each of
    which is overwritten by the next. StorageError as :func:`in_memory`."""
    file = file_of(array)
    if file is None:
        yield tensor_of(array).cpu().contiguous()
        return
    step = STORED_BYTES // array.dtype.itemsize
    held = torch.empty(min(step, len(array)), dtype=array.dtype)
    for begin in range(0, len(array), step):
        part = held[: len(array) - begin]
        file.read_into(part, begin)
        yield part


def require_array(name: str, array: object) -> None:
    """ConfigError unless ``array`` is a dense tensor or a UnifiedTensor."""
    table = as_table(array)
    if table is None or table.tensor_on(torch.device("cpu")) is None:
        arguments.dense(name, array)


def tensor_of(array: Array) -> torch.Tensor:
    """The array as a tensor: on the GPU that holds it, else on the CPU. Without a copy, but one on storage is read whole."""
    held = in_memory(array)
    return held if isinstance(held, torch.Tensor) else held.cpu()


def placed(array: Array, dtype: torch.dtype, placement: str) -> Array:
    """``array`` with elements of ``dtype`` in ``placement``. A UnifiedTensor already has its place and keeps it."""
    if not isinstance(array, torch.Tensor):
        if array.dtype == dtype:
            return array
        placement = place_like(array)
    tensor = tensor_of(array)
    if placement == "gpu":
        return _on_gpu(tensor, dtype)
    if tensor.dtype == dtype and not tensor.is_cuda:
        return UnifiedTensor.from_tensor(tensor, placement=placement)
    held = UnifiedTensor.empty(tuple(tensor.shape), dtype, placement=placement)
    copy(held.cpu(), tensor)
    return held


def _on_gpu(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    device = tensor.device if tensor.is_cuda else devices.as_device("cuda")
    try:
        return copied(tensor, device, dtype).contiguous() if tensor.device != device else tensor.to(dtype).contiguous()
    except torch.OutOfMemoryError as error:
        raise OutOfMemory(
            f"{format_bytes(tensor.numel() * dtype.itemsize)} of memory asked for on {device}, but "
            f"{format_bytes(devices.free_bytes(device))} is free; place this array on the host, as in placement='host'"
        ) from error


def integers(name: str, array: Array) -> Array:
    """``array`` itself if it is one-dimensional and int32 or int64; other integers widen, other types are refused."""
    require_array(name, array)
    tensor = tensor_of(array)
    if tensor.ndim != 1:
        raise GraphError(f"{name} has shape {tuple(tensor.shape)}, but must have one dimension")
    if tensor.dtype in (torch.int32, torch.int64):
        return tensor.contiguous() if isinstance(array, torch.Tensor) else array
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise GraphError(f"{name} holds {tensor.dtype}, but vertex numbers and offsets are int32 or int64")
    return tensor.to(torch.int64).contiguous()


def rows_of(indptr: torch.Tensor, indices: torch.Tensor) -> tuple[int, int, int, int]:
    """Plain lists on the CPU as native code takes them: offsets, how many lists, neighbours, bytes of one."""
    return indptr.data_ptr(), indptr.numel() - 1, indices.data_ptr(), indices.element_size()


def weights_of(weights: torch.Tensor | None) -> tuple[int, int, int]:
    """Weights on the CPU in the same way: address, bytes and order of one; zeros without any."""
    return (0, 0, 0) if weights is None else (weights.data_ptr(), *WEIGHT_TYPES[weights.dtype][:2])


def check_offsets(indptr: torch.Tensor, num_edges: int) -> None:
    """Raises GraphError unless ``indptr`` (int64) begins with 0, never falls and ends with ``num_edges``."""
    if indptr.numel() == 0:
        raise GraphError("indptr is empty, but even a graph without vertices has one offset, 0")
    last = indptr.numel() - 1
    if indptr.is_cuda:
        parts = (indptr[begin : begin + GPU_CHUNK + 1] for begin in range(0, last, GPU_CHUNK))
        if int(indptr[0]) == 0 and int(indptr[last]) == num_edges and not any(bool((p[1:] < p[:-1]).any()) for p in parts):
            return
        indptr = indptr.cpu()
    at = _core.first_wrong_offset(indptr.data_ptr(), last, num_edges)
    if at < 0:
        return
    value = int(indptr[at])
    if at == 0:
        raise GraphError(f"indptr[0] is {value}, but offsets begin with 0")
    if value < int(indptr[at - 1]):
        raise GraphError(
            f"indptr[{at}] is {value}, less than indptr[{at - 1}] = {int(indptr[at - 1])}: offsets may not fall; "
            "build the graph from its edges with from_edges"
        )
    raise GraphError(f"indptr ends with {value} (indptr[{at}]), but indices holds {num_edges} neighbours")


def check_neighbors(indices: torch.Tensor, num_vertices: int, first: int = 0) -> None:
    """Raises GraphError unless every element of ``indices`` (int32 or int64), which are those from ``first`` on, is in [0,
    num_vertices)."""
    if indices.is_cuda:
        at = first_where(indices, lambda part: (part < 0) | (part >= num_vertices))
    else:
        at = _core.first_wrong_neighbor(indices.data_ptr(), indices.element_size(), indices.numel(), num_vertices)
    if at >= 0:
        raise GraphError(
            f"indices[{first + at}] is {int(indices[at])}, but the vertices are numbered from 0 to {num_vertices - 1}; "
            "correct it, or give indptr more rows"
        )


def check_lists(indptr: torch.Tensor, indices: torch.Tensor, num_vertices: int) -> bool | None:
    """As ``check_neighbors``. Returns whether each vertex's neighbours ascend, which the same pass sees; None on a GPU.

    ``indptr`` is right, int64, on the CPU.
    """
    if not indices.is_cuda:
        ascend = _core.check_rows(*rows_of(indptr, indices), indices.numel())
        if ascend is not None:
            return ascend
    check_neighbors(indices, num_vertices)  # says which one is wrong
    return None


def count_empty_lists(indptr: torch.Tensor) -> int:
    """How many vertices have no neighbours."""
    lists, empty = indptr.numel() - 1, 0
    for begin in range(0, lists, CHUNK):
        degrees = indptr[begin : min(lists, begin + CHUNK) + 1].diff()
        empty += degrees.numel() - int(degrees.count_nonzero())
    return empty


def lists_ascend(indptr: torch.Tensor, indices: torch.Tensor) -> bool:
    """Whether each vertex's neighbours ascend, where both arrays lie in order as CSR demands."""
    if not indices.is_cuda:
        indptr = indptr.cpu()
        return _core.rows_ascend(*rows_of(indptr, indices), indices.numel())
    indptr = indptr.to(indices.device)
    for begin in range(0, indices.numel() - 1, GPU_CHUNK):
        part = indices[begin : begin + GPU_CHUNK + 1]
        # Only the first neighbour of a vertex may be less than what stands before it.
        falls = (part[1:] < part[:-1]).nonzero()[:, 0] + begin + 1
        if not torch.equal(indptr[torch.searchsorted(indptr, falls).clamp_(max=indptr.numel() - 1)], falls):
            return False
    return True


def check_weights(weights: torch.Tensor, num_edges: int) -> None:
    """Raises GraphError unless there is one real number, and no NaN, for each edge."""
    if weights.dtype not in WEIGHT_TYPES:
        raise GraphError(f"weights hold {weights.dtype}, which is no real number type; convert them, as in weights.float()")
    if tuple(weights.shape) != (num_edges,):
        raise GraphError(f"weights have shape {tuple(weights.shape)}, but there are {num_edges} edges")
    kind = WEIGHT_TYPES[weights.dtype]
    if not kind.infinity:
        return
    if weights.is_cuda:
        at = first_where(weights, torch.isnan)
    else:
        at = _core.first_nan(weights.data_ptr(), num_edges, kind.bytes, kind.infinity)
    if at >= 0:
        raise GraphError(f"weights[{at}] is NaN; replace it, as in weights.nan_to_num(), or drop that edge")


def check_mirrored(indptr: torch.Tensor, indices: torch.Tensor, weights: torch.Tensor | None) -> None:
    """Raises GraphError unless each edge is there in both directions, with the same weight; in one parallel pass on the CPU."""
    indptr, indices = indptr.to("cpu", torch.int64), indices.cpu()
    weights = None if weights is None else weights.cpu()
    if _core.is_mirrored(*rows_of(indptr, indices), *weights_of(weights), indices.numel()):
        return
    check_offsets(indptr, indices.numel())
    vertices = indptr.numel() - 1
    ends = torch.repeat_interleave(indptr.diff()), indices.long()
    one, other = ((u * vertices + v).sort().values for u, v in (ends, ends[::-1]))
    remedy = "pass symmetrize=True to from_edges or load_graph, or directed=True"
    wrong = (one != other).nonzero()
    if not len(wrong):
        raise GraphError(f"not every edge has its reverse: some reverse has another weight; {remedy}")
    there, missing = one[wrong[0]], other[wrong[0]]
    # The lesser of the two is in one of the lists more often than in the other: an edge, or the reverse of one.
    u, v = divmod(int(torch.minimum(there, missing)), vertices)
    u, v = (u, v) if bool(there < missing) else (v, u)
    raise GraphError(f"not every edge has its reverse: {u} -> {v} is there more often than {v} -> {u}; {remedy}")


def check_inverse(lists: Mapping[str, Array], inverse: Mapping[str, Array]) -> None:
    """Raises GraphError unless the plain lists ``inverse`` hold the edges of ``lists`` turned round, with the same weights.

    By a sum of 64 bits over all edges. The offsets of both are right.
    """
    if _edge_sum(lists, turned=False) != _edge_sum(inverse, turned=True):
        raise GraphError(
            "the lists of in-neighbours do not hold the graph's edges turned round; read it without them, as in "
            "load_graph(path, transpose=False), or convert the original file again"
        )


def _edge_sum(held: Mapping[str, Array], turned: bool) -> int:
    """The sum of a random number for each edge of plain lists, ``turned`` round or not, and its weight."""
    indptr, indices = (tensor_of(held[name]).cpu() for name in ("indptr", "indices"))
    weights = tensor_of(held["weights"]).cpu() if "weights" in held else None
    return _core.sum_edges(*rows_of(indptr, indices), *weights_of(weights), indices.numel(), turned)


class WeightRange(NamedTuple):
    """The least and the largest of some weights, and the mean of a sample of those that are finite; 0 where there are none."""

    least: int | float
    most: int | float
    mean: float


def weight_range(weights: Array) -> WeightRange:
    """Looks at all weights in parallel, where they lie; at those on storage a piece at a time. Raises GraphError: a weight on
    storage is NaN; others were looked at as their graph was made."""
    if (file := file_of(weights)) is not None:
        return _stored_range(file)
    weights = tensor_of(weights)
    if not weights.numel():
        return WeightRange(0, 0, 0.0)
    ends = [_ends(weights[i : i + GPU_CHUNK]) for i in range(0, weights.numel(), GPU_CHUNK)]
    sample = weights[:: -(-weights.numel() // WEIGHTS_SAMPLED)].double()
    sample = sample[sample.isfinite()]
    mean = float(sample.mean()) if sample.numel() else 0.0
    return WeightRange(min(least for least, _ in ends), max(most for _, most in ends), mean)


def _stored_range(weights: StorageArray) -> WeightRange:
    """The same of weights on storage, with the mean of all."""
    least: list[int | float] = []
    most: list[int | float] = []
    total = count = 0.0
    begin = 0
    for part in pieces(weights):
        if part.is_floating_point() and bool(part.isnan().any()):
            at = begin + int(part.isnan().nonzero()[0])
            raise GraphError(
                f"weights[{at}] is NaN; replace it in the graph that {weights.path} was made of, and save it again"
            )
        ends = _ends(part)
        least.append(ends[0])
        most.append(ends[1])
        begin += len(part)
        finite = part.double()
        finite = finite[finite.isfinite()]
        total, count = total + float(finite.sum()), count + finite.numel()
    return WeightRange(min(least), max(most), total / count if count else 0.0) if least else WeightRange(0, 0, 0.0)


def _ends(part: torch.Tensor) -> tuple[int | float, int | float]:
    """The least and the largest element."""
    if part.dtype in _SIGNED:  # torch compares these as signed numbers only: with the highest bit turned they are in order
        signed, turn = part.view(_SIGNED[part.dtype]), -(1 << 8 * part.itemsize - 1)
        least, most = torch.aminmax(signed ^ turn)
        return int(least) - turn, int(most) - turn
    least, most = torch.aminmax(part)
    return least.item(), most.item()


def first_where(array: torch.Tensor, wrong: Callable[[torch.Tensor], torch.Tensor]) -> int:
    """The first position at which ``wrong``, of a part of the array, is true; -1 if none is."""
    for begin in range(0, array.numel(), GPU_CHUNK):
        found = wrong(array[begin : begin + GPU_CHUNK])
        if found.any():
            return begin + int(found.nonzero()[0])
    return -1
