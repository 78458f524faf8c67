"""EMOGI's searches and components over edges on storage, with BaM's ways of giving them to warps (Mailthody 2022, section 6.3).

The ablation of :mod:`hinterland_papers.emogi` through a cache and queues. What it is measured against are
:func:`hinterland.bfs` and :func:`hinterland.connected_components` of a graph on storage.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from hinterland.graph.arrays import file_of
from hinterland.graph.bfs import check_source
from hinterland.graph.graph import Graph
from hinterland.runtime import devices
from hinterland.runtime.errors import ConfigError, GraphError
from hinterland.runtime.launch import launch, resident_blocks
from hinterland.runtime.params import Params, struct
from hinterland.storage.on_device import Backing, DeviceStore

from .. import _core, kernel_file
from ..emogi import traversal as emogi
from ..emogi.traversal import Division, EmogiResult, Traversal

ASSIGNMENTS = (*emogi.ASSIGNMENTS, "far", "odt-copied")

_POLICIES = {
    "vertices": "ConsecutiveVertices",
    "far": "FarVertices",
    "transposed": "TransposedVertices",
    "tiles": "EdgeTiles",
    "copied": "EdgeTiles",
}
_APPS = {"bfs": "EmogiBfs", "cc": "EmogiComponents"}
_PARAMS, _ARRAY = struct("bam::EmogiStoredParams"), struct("memory::ArrayWords")
_DEEP, _TEAM = struct("bam::EmogiDeepParams"), struct("TeamControl")


def _instance(algorithm: str, policy: str, edge_bytes: int, sources: str) -> str:
    copies = "true" if policy == "copied" else "false"
    return f"emogi_stored_level<{_APPS[algorithm]}, {_POLICIES[policy]}, int{8 * edge_bytes}_t, {copies}, {sources}>"


KERNELS = kernel_file(
    "bam/stored.cu",
    tuple(_instance(algorithm, policy, 4, "DeviceSources") for algorithm in _APPS for policy in _POLICIES),
    separate_module=True,
)

DEEP = kernel_file("bam/deep.cu", ("emogi_deep_search<int32_t, DeviceSources>",), separate_module=True)


class StoredEdges(NamedTuple):
    """Where the edge array lies: from a byte of what a store reads on, at the beginning of a line."""

    store: DeviceStore
    position: int

    @classmethod
    def of(cls, graph: Graph, device: Any, budget: int) -> StoredEdges:
        """Through a cache of ``budget`` bytes in the device's memory, which the caller closes.

        Raises:
            ConfigError: the graph's plain lists do not lie on storage.
        """
        plain = graph.neighbor_lists.arrays.get("indices")
        file = None if plain is None else file_of(plain)
        if file is None:
            raise ConfigError(
                "BaM's assignments read plain lists on storage; load an .hl file of these with placement='storage'"
            )
        queues = file.cache.on_devices.queues(file, budget)
        how = {"line_bytes": file.line_bytes, **queues._asdict()}
        lines = max(queues.rest_of(budget), 0)
        return cls(DeviceStore(Backing.of(file), devices.as_device(device), lines, **how), file.file_position)


def bfs(graph: Graph, source: int, edges: StoredEdges | None, assignment: str = "warp", size: int | None = None) -> EmogiResult:
    """Levels of the vertices that ``source`` reaches.

    Args:
        graph: the graph, whose offsets are copied to the store's device.
        source: a vertex number.
        edges: where the same edges are read from; None: from the graph's own array.
        assignment: those of :func:`hinterland_papers.emogi.bfs`, whose tiles and coarsening are by the store's lines; ``"far"``
            (as many vertices as ``"coarsened"``, far from each other: the control), ``"odt-copied"`` (tiles that a warp copies
            whole to shared memory, of up to 4 KiB). A search by ``"odt-active"`` is one launch, whatever the levels.
        size: the assignment's number, instead of its own.

    Returns:
        ``EmogiResult(levels int32 [V], stats)``; ``stats["lines"]``: that were read.

    Raises:
        ConfigError: an unknown assignment, or a size that cannot be used.
        IndexOutOfRange: ``source`` is no vertex.
        GraphError: a neighbour met on the way is out of range.
        StorageError: a line could not be read.
    """
    source = check_source(graph, source)
    run = _Through(graph, "bfs", edges, assignment, size)
    return run.search_by_tiles(source) if run.in_one_launch else emogi.search(run, source)


def cc(graph: Graph, edges: StoredEdges | None, assignment: str = "warp", size: int | None = None) -> EmogiResult:
    """Connected components of an undirected graph; as :func:`bfs`.

    Returns:
        ``EmogiResult(labels int64 [V], stats)``.
    """
    if graph.directed:
        raise GraphError("EMOGI finds components of undirected graphs; make the graph with directed=False or symmetrize=True")
    return emogi.label(_Through(graph, "cc", edges, assignment, size))


class _Division(Division):
    assignments = ASSIGNMENTS


class _Through(Traversal):
    """A run whose edges are read through a store."""

    kernels = KERNELS

    def __init__(self, graph: Graph, algorithm: str, edges: StoredEdges | None, assignment: str, size: int | None) -> None:
        self.through = edges
        super().__init__(graph, algorithm, "aligned", assignment, size, None if edges is None else edges.store.device)
        self._lines = 0 if edges is None else edges.store.counts()["reads"]

    def _edge_array(self, graph: Graph) -> torch.Tensor:
        """No element of it where the store has them, for its type."""
        plain = graph.neighbor_lists.arrays.get("indices")
        return super()._edge_array(graph) if self.through is None or plain is None else torch.empty(0, dtype=plain.dtype)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """The same, while the store's threads are awake."""
        with super().timed():
            if self.through is None:
                yield
                return
            with self.through.store.live():
                yield

    def stats(self, read: torch.Tensor) -> dict[str, Any]:
        lines = 0 if self.through is None else self.through.store.counts()["reads"] - self._lines
        return {**super().stats(read), "lines": lines}

    def _division(self, assignment: str, access: str, size: int | None) -> Division:
        line = emogi.LINE_BYTES if self.through is None else self.through.store.line_bytes
        edge_bytes = self.edges.element_size()
        if assignment == "odt-copied":
            line = min(line, _core.EMOGI_TILE_BYTES)
            if size is not None and size > line // edge_bytes:
                raise ConfigError(f"size={size} of the odt-copied assignment is more than the {line // edge_bytes} of a tile")
        return _Division(self.graph, self.offsets, access, assignment, size, edge_bytes, line)

    def search_by_tiles(self, source: int) -> EmogiResult:
        """A search whose levels are all in one launch, of the tiles with active vertices (Mailthody 2022, section 8.2)."""
        graph, device = self.graph, self.device
        tiles = self.division.num_tiles
        with self.timed():
            levels = torch.full((graph.num_vertices,), -1, dtype=torch.int32, device=device)
            levels[graph.to_internal(source)] = 0
            listed = torch.full((tiles,), -1, dtype=torch.int32, device=device)
            queues = torch.empty(2 * tiles, dtype=torch.int64, device=device)
            zeros = torch.zeros(3 + len(bytes(_TEAM())) // 8, dtype=torch.int64, device=device)
            params = _DEEP(
                stored=self._stored(self._params(levels)),
                source=graph.to_internal(source),
                listed=listed.data_ptr(),
                queues=queues.data_ptr(),
                counts=zeros[-3:].data_ptr(),
                team=zeros.data_ptr(),
            )
            if device.type == "cpu":
                _core.emogi_deep_search(params.address, self.edges.element_size())
            else:
                grid = min(resident_blocks(DEEP, self._deep_instance(), device, _core.EMOGI_BLOCK), 1 + tiles)
                launch(DEEP, self._deep_instance(), device, grid, _core.EMOGI_BLOCK, params, cooperative=True)
            self.launches += 1
            self._check()
        return EmogiResult(graph.to_original(levels), self.stats(levels >= 0))

    def _stored(self, params: Params) -> Params:
        through = self.through
        words = _ARRAY(home=self.edges.data_ptr()) if through is None else through.store.array(through.position)
        return _PARAMS(level=params, edges=words)

    def _serve(self, params: Params) -> None:
        policy, edge_bytes, stored = self.division.policy, self.edges.element_size(), self._stored(params)
        if self.device.type == "cpu":
            _core.emogi_stored_level(stored.address, self.algorithm, policy, edge_bytes)
            return
        blocks = _core.emogi_stored_blocks(stored.address, policy)
        if blocks > 0:
            launch(KERNELS, self._instance(), self.device, blocks, _core.EMOGI_BLOCK, stored)

    def _instance(self) -> str:
        return _instance(self.algorithm, self.division.policy, self.edges.element_size(), self._sources)

    @property
    def in_one_launch(self) -> bool:
        """A search by active tiles."""
        return self.algorithm == "bfs" and self.division.only_active

    def _compile(self) -> None:
        if self.in_one_launch:
            DEEP.kernel(self._deep_instance(), self.device)
        else:
            super()._compile()

    def _deep_instance(self) -> str:
        return f"emogi_deep_search<int{8 * self.edges.element_size()}_t, {self._sources}>"

    @property
    def _sources(self) -> str:
        return "memory::Unmetered" if self.through is None else "DeviceSources"
