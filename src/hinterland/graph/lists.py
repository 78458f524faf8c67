"""Neighbour lists as they lie in memory, plain or packed: what Graph and ``sampling.Adjacency`` stand on."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import torch

from ..runtime import arguments, devices
from ..runtime.annotations import IfRequested
from ..runtime.units import format_bytes
from ..runtime.warned import warn_once
from ..table.device import StoredArrays
from . import arrays
from .arrays import Array
from .packed import PackedLists, pack

ARRAYS = (*arrays.NAMES, "packed", "packed_offsets")


class NeighborLists:
    """A list for each vertex: that of v is ``indices[indptr[v]:indptr[v + 1]]``, or packed.

    Listed vertices may be of another type, and have no lists here. The arrays are known to be right, of the right types and in
    their places; ``checked`` takes those that are not.

    Args:
        held: the arrays by name: ``indptr``, ``indices``, perhaps ``weights``; or in place of ``indices`` those of packed
            lists, ``packed`` and ``packed_offsets`` (see :func:`.compress`).
        is_sorted: whether each list ascends, if that is known.
        num_edges: what all lists hold together; of packed ones None is what their offsets end with.
    """

    def __init__(self, held: Mapping[str, Array], is_sorted: bool | None = None, num_edges: int | None = None) -> None:
        self.arrays = dict(held)
        self.known_sorted = is_sorted
        if not self.is_compressed:
            num_edges = int(held["indices"].shape[0])
        self.num_edges = int(self.indptr[-1]) if num_edges is None else num_edges

    @classmethod
    def checked(
        cls,
        indptr: Array,
        indices: Array,
        weights: Array | None,
        placement: str | Mapping[str, str],
        num_sources: int | None = None,
        mirrored: bool = False,
    ) -> NeighborLists:
        """Plain lists of arrays from elsewhere, once they are known to be right, each in its place; arguments and errors as for
        :class:`Graph`.

        ``num_sources``: how many vertices can be listed; None are those that have lists. ``mirrored``: the reverse of every
        edge must be there, with the same weight.
        """
        places = arrays.placements(placement)
        indptr, indices = arrays.integers("indptr", indptr), arrays.integers("indices", indices)
        offsets, listed = arrays.tensor_of(indptr), arrays.tensor_of(indices)
        on_cpu, ascend = offsets.to("cpu", torch.int64), None
        arrays.check_offsets(on_cpu, listed.numel())
        if num_sources is None:
            num_sources = offsets.numel() - 1
            ascend = arrays.check_lists(on_cpu, listed, num_sources)
        else:
            arrays.check_neighbors(listed, num_sources)
        if weights is not None:
            arrays.require_array("weights", weights)
            weights = weights.contiguous() if isinstance(weights, torch.Tensor) else weights
            arrays.check_weights(arrays.tensor_of(weights), listed.numel())
        if mirrored:
            arrays.check_mirrored(offsets, listed, None if weights is None else arrays.tensor_of(weights))
        held = {
            "indptr": arrays.placed(indptr, torch.int64, places["indptr"]),
            "indices": arrays.placed(indices, arrays.index_dtype(num_sources), places["indices"]),
        }
        if weights is not None:
            held["weights"] = arrays.placed(weights, weights.dtype, places["weights"])
        return cls(held, ascend)

    def over(self, held: Mapping[str, Array], is_sorted: bool | None = None) -> NeighborLists:
        """The same lists in other arrays; ``is_sorted`` is by default what is known of these."""
        return NeighborLists(held, self.known_sorted if is_sorted is None else is_sorted, self.num_edges)

    @property
    def num_lists(self) -> int:
        """Vertices that have a list, perhaps an empty one."""
        return int(self.arrays["indptr"].shape[0]) - 1

    @cached_property
    def num_isolated(self) -> int:
        """How many lists are empty; counted once and kept."""
        return arrays.count_empty_lists(self.indptr)

    @property
    def indptr(self) -> torch.Tensor:
        """Offsets, int64 ``[num_lists + 1]``: a view."""
        return arrays.tensor_of(self.arrays["indptr"])

    @property
    def indices(self) -> torch.Tensor:
        """What is listed, int32 or int64 ``[num_edges]``: a view; packed lists are decoded at each call, on the CPU."""
        return self.packed_lists().unpacked().cpu() if self.is_compressed else self.listed

    @property
    def listed(self) -> torch.Tensor:
        """The array that holds the lists, in either form: a view of ``indices`` or ``packed``."""
        return arrays.tensor_of(self._listed)

    @property
    def _listed(self) -> Array:
        return self.arrays["packed" if self.is_compressed else "indices"]

    @property
    def listed_type(self) -> torch.dtype:
        """The type of ``listed``."""
        return self._listed.dtype

    @property
    def weight_type(self) -> torch.dtype | None:
        """The type of the weights, or None without any."""
        held = self.arrays.get("weights")
        return None if held is None else held.dtype

    @property
    def weights(self) -> torch.Tensor | None:
        """Edge weights ``[num_edges]`` or None: a view."""
        held = self.arrays.get("weights")
        return None if held is None else arrays.tensor_of(held)

    @cached_property
    def weight_range(self) -> arrays.WeightRange | None:
        """The least and the largest weight and about their mean, or None without weights; looked at once and kept."""
        held = self.arrays.get("weights")
        return None if held is None else arrays.weight_range(held)

    @property
    def is_compressed(self) -> bool:
        """Whether the lists are packed."""
        return "packed" in self.arrays

    @property
    def is_sorted(self) -> bool:
        """Whether every list ascends; looked at once and kept."""
        if self.known_sorted is None:
            self.known_sorted = arrays.lists_ascend(self.indptr, self.indices)
        return self.known_sorted

    @property
    def on_gpu(self) -> bool:
        """Whether the lists lie in a GPU's memory; their offsets and weights may lie elsewhere."""
        return isinstance(self._listed, torch.Tensor) and self._listed.is_cuda

    @property
    def stored(self) -> StoredArrays:
        """The arrays that lie on storage."""
        return StoredArrays(file for array in self.arrays.values() if (file := arrays.file_of(array)) is not None)

    @property
    def placement(self) -> dict[str, str]:
        """Where each array lies, by its name."""
        return {name: arrays.place_of(array) for name, array in self.arrays.items()}

    @property
    def places(self) -> dict[str, str]:
        """The placement to ask for, for the arrays of plain lists to lie where these do."""
        found = {name: arrays.place_like(array) for name, array in self.arrays.items() if name in arrays.NAMES}
        return {"indices": arrays.place_like(self.arrays["packed"]), **found} if self.is_compressed else found

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays together."""
        return sum(array.nbytes for array in self.arrays.values())

    def array(self, name: str, device: torch.device | str | int | None = "cpu") -> IfRequested[torch.Tensor]:
        """An array as ``device`` addresses it; see :meth:`.Graph.array`."""
        device = devices.as_device(device)
        arguments.one_of("array", name, ARRAYS)
        if name == "indices" and self.is_compressed:
            return self.indices.to(device)
        held = self.arrays.get(name)
        return None if held is None else arrays.in_memory(held).to(device)

    def checked_offsets(self) -> torch.Tensor:
        """Offsets on the CPU, once they are known to be right still."""
        indptr = self.indptr.cpu()
        arrays.check_offsets(indptr, self.num_edges)
        return indptr

    def checked_rows(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Offsets, neighbours and weights on the CPU, once the offsets are known to be right still; see
        :meth:`.Graph.checked_rows`. What lies on storage is read whole, and a warning says so."""
        indptr = self.checked_offsets()
        for cache in self.stored.caches:
            path, taken = self.stored[0].path, format_bytes(sum(array.nbytes for array in self.stored))
            warn_once(
                f"{path} in memory",
                f"{taken} of {path} are read into host memory, since this needs all of it at once: "
                f"host_budget={format_bytes(cache.host_budget)} bounds the pages of the file alone",
            )
        return indptr, self.indices.cpu(), self.array("weights", "cpu")

    def packed_lists(self) -> PackedLists:
        """The arrays of packed lists, on the CPU."""
        offsets, starts, stream = (
            arrays.in_memory(self.arrays[name]).to("cpu") for name in ("indptr", "packed_offsets", "packed")
        )
        return PackedLists(offsets, starts, stream, self.num_edges)

    def packed(self, places: Mapping[str, str]) -> NeighborLists | None:
        """Plain lists packed, where ``places`` says for the arrays of plain ones; None where a list does not ascend, or names
        a vertex that has none. GraphError where the offsets are wrong by now."""
        indptr, indices, _ = self.checked_rows()
        made = pack(indptr, indices, arrays.host_places(places))
        if made is None:
            return None
        return self._with({"packed_offsets": made[0], "packed": made[1]}).moved(places)

    def plain(self, places: Mapping[str, str]) -> NeighborLists:
        """Packed lists decoded, where ``places`` says. GraphError where a list is damaged."""
        unpacked = self.packed_lists().unpacked(arrays.host_place(places["indices"]))
        return self._with({"indices": unpacked}).moved(places)

    def _with(self, lists: Mapping[str, Array]) -> NeighborLists:
        """The same lists in their other form, which is sorted, beside these offsets and weights."""
        weights = {"weights": self.arrays["weights"]} if "weights" in self.arrays else {}
        return self.over({"indptr": self.arrays["indptr"], **lists, **weights}, is_sorted=True)

    def moved(self, places: Mapping[str, str]) -> NeighborLists:
        """These lists where ``places`` says for the arrays of plain ones; arrays that lie there already are shared."""
        home = {"packed": "indices", "packed_offsets": "indptr"}
        return self.over({name: _moved(array, places[home.get(name, name)]) for name, array in self.arrays.items()})


class OverLists:
    """What a class that stands on lists, as Graph does, shows of them."""

    neighbor_lists: NeighborLists

    @property
    def num_edges(self) -> int:
        """Stored edges: those of an undirected graph count once for each direction."""
        return self.neighbor_lists.num_edges

    @property
    def indptr(self) -> torch.Tensor:
        """Offsets, int64, one more than there are lists: a view, on the CPU unless they are placed on a GPU."""
        return self.neighbor_lists.indptr

    @property
    def indices(self) -> torch.Tensor:
        """Neighbours, int32 or int64 ``[num_edges]``: a view, on the CPU unless they are placed on a GPU.

        Those of a compressed graph are decoded at each call, on the CPU: ``decompress`` once where they are needed often.
        """
        return self.neighbor_lists.indices

    @property
    def weights(self) -> IfRequested[torch.Tensor]:
        """Edge weights ``[num_edges]`` or None: a view, on the CPU unless they are placed on a GPU."""
        return self.neighbor_lists.weights


def _moved(array: Array, placement: str) -> Array:
    """``array`` where ``placement`` says; itself if it lies there already."""
    array = arrays.in_memory(array)
    lies = arrays.place_of(array)
    best = {"managed", "split", "pinned", "system"} | (set() if devices.cuda_available() else {"pageable"})
    if lies == placement or (placement == "host" and lies in best):
        return array
    tensor = arrays.tensor_of(array)
    return arrays.placed(tensor, tensor.dtype, placement)
