"""Graph files: known by their ending or their content, read straight to their place, written whole or not at all.

Each format is one file beside this one. A reader returns an edge list or CSR arrays (``content.py``); ``load_graph`` makes
the graph of them and applies the options, the same for every format.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import torch

from ... import _core
from ...memory import UnifiedTensor
from ...runtime import arguments, devices
from ...runtime.errors import ConfigError, FormatError, GraphError, HinterlandError, OutOfMemory
from ...runtime.files import check_place
from ...runtime.units import parse_bytes
from ...storage import StorageArray, StorageCache
from ..arrays import WEIGHT_TYPES, Array, check_mirrored, check_neighbors, check_offsets, placements, tensor_of
from ..compress import from_packed
from ..edges import from_edges, from_runs, simplify
from ..graph import Graph, require_graph
from ..lists import NeighborLists
from ..order import checked as checked_order
from ..reorder import restored
from . import bel, edges, gap, gr, hl, mtx, npy, npz, ogb
from .content import CsrArrays, EdgeList, EdgeRuns, Options, PackedArrays, cast_weights, check_weights, survey
from .sniff import sniff

__all__ = ["FORMATS", "Format", "check_target", "detect", "files_of", "load_graph", "save_graph", "survey"]


@dataclass(frozen=True)
class Format:
    """One format: its name, the endings that ask for it when a file is written, its reader and its writer."""

    name: str
    title: str
    endings: tuple[str, ...]
    read: Callable[[str, Options], EdgeList | EdgeRuns | CsrArrays | PackedArrays]
    write: Callable[[Graph, str], None] | None


_HOST_BUDGET = "256MiB"  # chosen, not measured
# Bytes of a page by those of the budget, the first that is reached: docs/storage.md has times of the first two. A cache needs
# some pages for each of its threads.
_LINES = ((16 << 20, 16384), (256 << 10, 4096), (0, 512))
_TEXT = (".txt", ".el", ".wel", ".csv", ".tsv", ".edges")
FORMATS = {
    entry.name: entry
    for entry in (
        Format("hl", "Hinterland", (".hl",), hl.read, hl.write),
        Format("mtx", "Matrix Market", (".mtx", ".mtx.gz"), mtx.read, mtx.write),
        Format("edges", "edge list", _TEXT + tuple(end + ".gz" for end in _TEXT), edges.read, edges.write),
        Format("gr", "DIMACS", (".gr", ".gr.gz"), gr.read, gr.write),
        Format("sg", "GAP", (".sg",), gap.read, gap.write),
        Format("wsg", "GAP, weighted", (".wsg",), partial(gap.read, weighted=True), gap.write),
        Format("bel", "EMOGI", (".bel",), bel.read, bel.write),
        Format("npz", "SciPy sparse matrix", (".npz",), npz.read, npz.write),
        Format("npy", "NumPy edge array", (".npy",), npy.read, npy.write),
        Format("ogb", "OGB data set", (), ogb.read, None),
    )
}


def detect(path: str | os.PathLike[str]) -> str:
    """The name of the format of a file or folder: by its ending, or by its content where the ending names none.

    Raises:
        StorageError: it is missing or cannot be read.
        FormatError: its content is of no format that is known here, or of another than its ending says.
    """
    path = arguments.path("path", path)
    return sniff(path, _by_name(path))


def _by_name(path: str) -> str | None:
    """The format whose ending ``path`` has."""
    for entry in FORMATS.values():
        if path.lower().endswith(entry.endings):
            return entry.name
    return None


def _format(name: str, path: str) -> tuple[Format, str | None]:
    """The format called ``name``, and the layout that ``npy[...]`` adds."""
    base, bracket, layout = name.partition("[") if isinstance(name, str) else ("", "", "")
    if base not in FORMATS or (bracket and name not in ("npy[2,E]", "npy[E,2]")):
        raise ConfigError(f"{path}: no format is called {arguments.shown(name)}; known are {', '.join(FORMATS)}")
    return FORMATS[base], bracket + layout or None


def load_graph(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    placement: str | Mapping[str, str] = "host",
    *,
    directed: bool | None = None,
    symmetrize: bool = False,
    remove_self_loops: bool = False,
    remove_duplicates: bool = False,
    sort_neighbors: bool | None = None,
    weight_dtype: torch.dtype | None = None,
    format: str | None = None,
    transpose: bool | None = None,
    host_budget: int | str | None = None,
) -> Graph:
    """Reads a graph from a file of any format in ``FORMATS``, or from an OGB data set's folder.

    Args:
        path: the file; the format follows from its ending or, where that is none in ``FORMATS`` or an edge list's, from its
            content. ``x.bel`` stands for ``x.bel.col``, ``.dst`` and ``.val``. With placement ``"storage"`` also a list of
            copies of one ``.hl`` file, on several disks: a page is read from one of them, and from another if that fails.
        placement: where the arrays go, as in ``Graph``; of an ``.hl`` file also ``"storage"``: neighbours and weights stay in
            the file and are read a page at a time as a traversal comes to them, while offsets go to ``"host"``. A mapping may
            say so of ``indices`` or ``weights`` alone. What stays in the file is not looked at here: its checksums, and
            whether an undirected graph has every reverse, are taken on trust, and a neighbour that is no vertex is found by
            who reads it. What needs whole arrays (verifiers, ``reorder``, samplers) reads them into host memory.
        directed: None takes what the file says (edge lists: directed). True marks the graph as directed. False demands a
            graph whose edges all have their reverse, and refuses any other.
        symmetrize: adds the reverse of every edge; the graph becomes undirected.
        remove_self_loops, remove_duplicates: as in ``from_edges``.
        sort_neighbors: None sorts the neighbours of text and edge arrays, and keeps the order that CSR files have.
        weight_dtype: type of the weights. Without it a text's weights take the smallest of int32, int64, float32 and
            float64 that holds each as written, and other files' weights keep their type. For ``.bel``, which does not say
            what its weights are, ``torch.float32`` reads them as floats.
        format: a name in ``FORMATS`` instead of what ending and content say; ``npy[2,E]`` or ``npy[E,2]`` for an edge array of
            the shape [2, 2].
        transpose: whether the graph comes with its transpose, by which a directed one is searched in both directions, and which
            takes as much memory once more. True: it is read where the file carries it (``.sg`` and ``.wsg``), and built
            otherwise. None takes it from the file where that is at most a quarter of the free memory. False leaves it there.
        host_budget: with placement ``"storage"``: bytes of host memory for pages of the file and what finds them, as in
            ``"32MiB"``; by default 256 MiB. Where there is a GPU, half of that is for pages on their way to it; those it keeps
            lie in its own memory, within ``gpu_budget``. Offsets, 8 bytes a vertex, and what an algorithm takes come on top.

    Returns:
        The graph: int64 offsets, int32 neighbours below 2^31 vertices.

    Raises:
        FormatError: the content is not what its format promises; names the file, the line or offset, and the value.
        StorageError: the file is missing or cannot be read.
        OutOfMemory: the graph does not fit, found before it is allocated.
        ConfigError: an option that cannot be used for this file.
    """
    path, *copies = _copies(path)
    _require_usable(weight_dtype, directed=directed, sort_neighbors=sort_neighbors, transpose=transpose)
    entry, layout = _format(detect(path) if format is None else format, path)
    # Lists that become others have another inverse.
    others = symmetrize or remove_self_loops or remove_duplicates or sort_neighbors or directed is False
    shape = {"symmetrize": symmetrize, "remove_self_loops": remove_self_loops, "remove_duplicates": remove_duplicates}
    placed = placements(placement, in_place=True)
    options = Options(placed, weight_dtype, layout, False if others else transpose)
    options = replace(options, cache=_cache(placed, host_budget), copies=tuple(copies))
    _require_in_place(path, entry, options, {**shape, "sort_neighbors": sort_neighbors, "weight_dtype": weight_dtype})
    if weight_dtype is None and sort_neighbors is not False:
        rules = [_core.EdgeRules(mirror=mirror, drop_loops=remove_self_loops) for mirror in (symmetrize, True)]
        options = replace(options, rules=rules[0], mirrored=rules[1])
    with _naming(path):
        content = entry.read(path, options)
        if isinstance(content, CsrArrays) and content.columns:
            content = _transposed(content)
        if not isinstance(content, EdgeRuns):
            content.weights = _weights(path, content, options)
        if isinstance(content, CsrArrays) and content.inverse is not None:
            content.inverse.weights = _weights(path, content.inverse, options)  # type: ignore[assignment]  # as above
        graph = _made(content, options, sort_neighbors, **shape)
        if directed is not None and directed != graph.directed:
            graph = _redirected(graph, directed)
        if transpose:
            graph.transpose()
        return graph


def _copies(path: object) -> list[str]:
    """The names of a file, or of its copies."""
    given = path if isinstance(path, list | tuple) else [path]
    if not given:
        raise ConfigError("path is an empty list of files; name a file, or copies of one")
    return [arguments.path("path", one) for one in given]


def _require_usable(weight_dtype: object, **flags: object) -> None:
    if weight_dtype is not None and (not isinstance(weight_dtype, torch.dtype) or weight_dtype not in WEIGHT_TYPES):
        raise ConfigError(
            f"weight_dtype={arguments.shown(weight_dtype)}: weights are integers or real numbers, as torch.float32"
        )
    for name, given in flags.items():
        if given is not None and not isinstance(given, bool):
            raise ConfigError(f"{name}={arguments.shown(given)} is none of True, False and None")


def _made(
    content: EdgeRuns | EdgeList | CsrArrays | PackedArrays,
    options: Options,
    sort_neighbors: bool | None,
    *,
    symmetrize: bool,
    remove_self_loops: bool,
    remove_duplicates: bool,
) -> Graph:
    """The graph of what a file holds."""
    if isinstance(content, EdgeRuns):
        return from_runs(
            content.parser,
            content.num_vertices,
            directed=content.directed and not symmetrize,
            remove_duplicates=remove_duplicates,
            placement=options.placement,
        )
    if isinstance(content, EdgeList):
        return from_edges(
            content.sources,
            content.targets,
            content.weights,
            num_vertices=content.num_vertices,
            directed=content.directed,
            symmetrize=symmetrize or content.symmetric,
            remove_self_loops=remove_self_loops,
            remove_duplicates=remove_duplicates,
            sort_neighbors=sort_neighbors is not False,
            placement=options.placement,
        )
    graph = _held(content, options) if options.cache is None else _in_place(content)
    sort = isinstance(content, CsrArrays) and bool(sort_neighbors) and not content.sorted
    if not (symmetrize or remove_self_loops or remove_duplicates or sort):
        return graph
    return simplify(
        graph,
        symmetrize=symmetrize and graph.directed,
        remove_self_loops=remove_self_loops,
        remove_duplicates=remove_duplicates,
        sort_neighbors=sort_neighbors is not False,
    )


def save_graph(graph: Graph, path: str | os.PathLike[str], format: str | None = None) -> None:
    """Writes a graph; the ending of ``path``, or ``format``, chooses the format.

    Only ``.hl`` holds packed lists and the order of a reordered graph. Into other formats a compressed graph goes as a plain
    one, and a reordered graph under its vertices' first numbers.

    The file appears under its name when it is complete, and whatever was there before stays until then: a full disk or an
    interruption leaves no half file. What a format cannot hold (weights in ``.sg``, fractions in ``.gr``) is refused.

    Raises:
        ConfigError: no such format, or the format cannot hold this graph.
        GraphError: the graph's arrays were changed since it was made.
        StorageError: the disk is full, or the place cannot be written.
    """
    require_graph(graph)
    path, write = arguments.path("path", path), check_target(path, format)
    weights = graph.array("weights", "cpu")
    if weights is not None:
        try:
            check_weights(path, weights)
        except FormatError as error:  # no reader would take the file
            raise ConfigError(str(error)) from None
    graph = graph if write is hl.write else restored(graph)
    _check_arrays(graph)
    write(graph, path)


def _check_arrays(graph: Graph) -> None:
    """Raises GraphError where the arrays were changed since the graph was made, so that nobody could read the file."""
    if graph.is_compressed:
        graph.neighbor_lists.packed_lists().check()
    else:
        check_neighbors(graph.checked_rows()[1], graph.num_vertices)


def check_target(path: str | os.PathLike[str], format: str | None = None) -> Callable[[Graph, str], None]:
    """The writer that ``save_graph`` will use; a name or place that cannot be written is refused before a long load."""
    path = arguments.path("path", path)
    name = _by_name(path) if format is None else format
    if name is None:
        endings = ", ".join(entry.endings[0] for entry in FORMATS.values() if entry.endings)
        raise ConfigError(f"{path}: the ending names no format; use one of {endings}, or name the format")
    entry, _ = _format(name, path)
    if entry.write is None:
        raise ConfigError(f"{path}: {entry.title} is read, not written; use another format")
    check_place(path)
    return entry.write


def files_of(path: str | os.PathLike[str]) -> list[str]:
    """The files that a graph called ``path`` consists of, those that are there."""
    path = os.fsdecode(path)
    if os.path.isdir(path):
        folder = ogb.raw_folder(path) or path
        parts = [os.path.join(folder, name) for name in ("edge.csv.gz", "num-node-list.csv.gz", "data.npz")]
    else:
        base = bel.stem(path)
        parts = [path] if base is None else [base + part for part in bel.PARTS]
    return [part for part in parts if os.path.exists(part)]


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Errors about arrays and memory become errors about the file that they come from."""
    try:
        yield
    except GraphError as error:
        raise FormatError(f"{path}: {error}") from error
    except OutOfMemory as error:
        raise error if str(error).startswith(path) else OutOfMemory(f"{path}: {error}") from error
    except HinterlandError:
        raise
    except (MemoryError, RuntimeError) as error:
        # torch's CPU allocator raises a RuntimeError when the system refuses memory.
        if isinstance(error, MemoryError) or "allocate memory" in str(error):
            raise OutOfMemory(f"{path}: not enough host memory for this graph; free some or take a larger machine") from error
        raise


def _held(content: CsrArrays | PackedArrays, options: Options) -> Graph:
    """The graph of arrays that were read to their places."""
    order = None if content.order is None else checked_order(content.order, content.indptr.shape[0] - 1)
    weights = None if content.weights is None else options.handed("weights", content.weights)
    if isinstance(content, PackedArrays):
        assert isinstance(content.packed, UnifiedTensor)
        return from_packed(
            content.indptr,
            content.packed_offsets,
            content.packed,
            weights,
            directed=content.directed,
            order=order,
            placement=options.placement,
        )
    graph = Graph(
        options.handed("indptr", content.indptr),
        options.handed("indices", content.indices),
        weights,
        directed=content.directed,
        placement=options.placement,
    )
    if content.sorted and not graph.has_sorted_lists:
        raise GraphError("the header says that neighbours ascend, but some do not; convert the original file again")
    held = Graph.of(graph.neighbor_lists, graph.directed, order)
    if content.inverse is not None:
        held.join(_held(content.inverse, options))
    return held


def _weights(path: str, content: EdgeList | CsrArrays | PackedArrays, options: Options) -> Array | None:
    """The weights, checked and in the type that the caller wants."""
    weights = content.weights
    if weights is None or isinstance(weights, StorageArray):
        return weights
    plain = weights if isinstance(weights, torch.Tensor) else weights.cpu()
    check_weights(path, plain)
    if options.weight_dtype is None or options.weight_dtype == plain.dtype:
        return weights
    if isinstance(weights, torch.Tensor):
        return cast_weights(path, plain, options.weight_dtype)
    cast = UnifiedTensor.empty(tuple(plain.shape), options.weight_dtype, options.place("weights"))
    cast_weights(path, plain, options.weight_dtype, cast.cpu())
    return cast


def _cache(placed: Mapping[str, str], host_budget: int | str | None) -> StorageCache | None:
    """Of the pages of what stays in its file; None where nothing does."""
    if "storage" in placed.values():
        budget = parse_bytes(_HOST_BUDGET if host_budget is None else host_budget)
        here = budget // 2 if devices.cuda_available() else budget  # the rest is for pages on their way to a GPU
        return StorageCache(here, next(line for least, line in _LINES if budget >= least))
    if host_budget is not None:
        raise ConfigError(
            f"host_budget={arguments.shown(host_budget)} bounds the pages of a graph on storage; give placement='storage', or "
            "leave it out"
        )
    return None


def _require_in_place(path: str, entry: Format, options: Options, changes: Mapping[str, object]) -> None:
    """ConfigError unless the file can be read where it lies, if it stays there, and nothing is asked for that would be another
    graph."""
    if options.cache is None:
        if options.copies:
            raise ConfigError(f"{path}: of several copies of a file some stay unread unless placement='storage'; name one")
        return
    if entry.name != "hl":
        target = f"{os.path.splitext(path)[0]}.hl"
        raise ConfigError(
            f"{path}: placement 'storage' reads .hl files where they lie, and this one's format is {entry.name}; make one "
            f"with: hinterland convert {path} {target}"
        )
    for name, asked in changes.items():
        if asked is not None and asked is not False:
            raise ConfigError(
                f"{path}: {name} makes another graph of the file, but with placement 'storage' it is read as it lies; load it "
                f"with {name} and placement 'host', and save that with save_graph"
            )


def _in_place(content: CsrArrays | PackedArrays) -> Graph:
    """The graph of a file of ours of which some arrays stay there. The others are checked, each for itself."""
    offsets = content.indptr.cpu()
    order = None if content.order is None else checked_order(content.order, len(offsets) - 1)
    held: dict[str, Array] = {"indptr": content.indptr}
    if isinstance(content, PackedArrays):
        check_offsets(offsets, int(offsets[-1]))
        starts = content.packed_offsets.cpu()
        last = int(starts[-1])
        check_offsets(starts, last)
        if _core.packed_bytes(last) != len(content.packed):
            raise GraphError(f"packed_offsets ends with {last}, but the packed lists take {len(content.packed)} bytes")
        held |= {"packed_offsets": content.packed_offsets, "packed": content.packed}
    else:
        check_offsets(offsets, len(content.indices))
        held["indices"] = content.indices
        if isinstance(content.indices, UnifiedTensor):
            check_neighbors(content.indices.cpu(), len(offsets) - 1)
    if content.weights is not None:
        held["weights"] = content.weights
    lists = NeighborLists(held, isinstance(content, PackedArrays) or content.sorted)
    return Graph.of(lists, content.directed, order)


def _transposed(content: CsrArrays) -> EdgeList:
    """The edges of CSC arrays, whose rows are the targets."""
    graph = Graph(content.indptr, content.indices, content.weights, placement="heap")  # checks the arrays
    targets = torch.arange(graph.num_vertices, dtype=content.indices.dtype).repeat_interleave(graph.degrees().cpu())
    weights = None if content.weights is None else tensor_of(content.weights)
    return EdgeList(tensor_of(content.indices), targets, weights, graph.num_vertices)


def _redirected(graph: Graph, directed: bool) -> Graph:
    """The same arrays under another flag; undirected only if every edge has its reverse."""
    if not directed and graph.neighbor_lists.caches:
        raise ConfigError(
            "directed=False of a directed graph on storage asks whether each edge has its reverse, for which all of it would "
            "be read; load it with placement='host', and save that with save_graph"
        )
    if not directed:
        check_mirrored(graph.indptr, graph.indices, graph.weights)
    return Graph.of(graph.neighbor_lists, directed, graph.numbering)
