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
from typing import Unpack

import torch

from ... import _core
from ...runtime import arguments
from ...runtime.errors import ConfigError, FormatError, GraphError, HinterlandError, OutOfMemory
from ...runtime.files import check_place
from ...runtime.units import parse_bytes
from ...table import StorageArray
from ...table.device import InPlace, opener
from ..arrays import WEIGHT_TYPES, check_neighbors, pieces, placements
from ..graph import Graph, require_graph
from ..reorder import restored
from . import bel, edges, gap, gr, hl, metis, mtx, npy, npz, ogb
from .content import Content, LoadOptions, check_weights, survey
from .made import graph_of
from .sniff import sniff

__all__ = ["FORMATS", "GraphFormat", "check_target", "detect", "files_of", "load_graph", "save_graph", "survey"]


@dataclass(frozen=True)
class GraphFormat:
    """One format: its name, the endings that ask for it when a file is written, its reader and its writer."""

    name: str
    title: str
    endings: tuple[str, ...]
    read: Callable[[str, LoadOptions], Content]
    write: Callable[[Graph, str], None] | None


_TEXT = (".txt", ".el", ".wel", ".csv", ".tsv", ".edges")
FORMATS = {
    entry.name: entry
    for entry in (
        GraphFormat("hl", "Hinterland", (".hl",), hl.read, hl.write),
        GraphFormat("mtx", "Matrix Market", (".mtx", ".mtx.gz"), mtx.read, mtx.write),
        GraphFormat("edges", "edge list", _TEXT + tuple(end + ".gz" for end in _TEXT), edges.read, edges.write),
        GraphFormat("gr", "DIMACS", (".gr", ".gr.gz"), gr.read, gr.write),
        GraphFormat("metis", "METIS", (".graph", ".graph.gz", ".metis", ".metis.gz"), metis.read, None),
        GraphFormat("sg", "GAP", (".sg",), gap.read, gap.write),
        GraphFormat("wsg", "GAP, weighted", (".wsg",), partial(gap.read, weighted=True), gap.write),
        GraphFormat("bel", "EMOGI", (".bel",), bel.read, bel.write),
        GraphFormat("npz", "SciPy sparse matrix", (".npz",), npz.read, npz.write),
        GraphFormat("npy", "NumPy edge array", (".npy",), npy.read, npy.write),
        GraphFormat("ogb", "OGB data set", (), ogb.read, None),
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


def _format(name: str, path: str) -> tuple[GraphFormat, str | None]:
    """The format called ``name``, and the layout that ``npy[...]`` adds."""
    base, bracket, layout = name.partition("[") if isinstance(name, str) else ("", "", "")
    if base not in FORMATS or (bracket and name not in ("npy[2,E]", "npy[E,2]")):
        raise ConfigError(f"{path}: no format is called {arguments.repr_of(name)}; known are {', '.join(FORMATS)}")
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
    ids: str | None = None,
    **in_place: Unpack[InPlace],
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
            who reads it. What needs all of it at once (``reorder``, say) reads it into host memory, and a warning says so.
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
            takes as much memory once more. True: it is read where the file carries it (``.sg``, ``.wsg``, and ``.hl`` that
            ``save_graph`` wrote with it), and built otherwise. None takes it from the file where that is at most a quarter of
            the free memory, or where it stays in the file (``"storage"``). False leaves it there.
        ids: ``"any"``: vertices of an edge list or edge array may be called anything, by texts or by any integers of 64 bits.
            They are numbered in the order of these names, integers by their value and texts by their UTF-8 bytes, and
            ``graph.labels`` has them: integers if all are whole numbers, else texts. ``graph.labels[v]`` is what vertex v is
            called, ``graph.labels.index(name)`` the vertex of a name.
        host_budget: with placement ``"storage"``: bytes of host memory for pages of the file and what finds them, as in
            ``"32MiB"``; by default 256 MiB. Where there is a GPU, half of that is for pages on their way to it; those it keeps
            lie in its own memory, within ``gpu_budget``. Offsets, 8 bytes a vertex, and what an algorithm takes come on top.
        cache: with placement ``"storage"``: which keeps the pages, and may keep others', instead of one of ``host_budget``. A
            GPU takes as much host memory again for pages on their way.

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
    symmetrize, remove_self_loops, remove_duplicates = arguments.switches(
        symmetrize=symmetrize, remove_self_loops=remove_self_loops, remove_duplicates=remove_duplicates
    )
    entry, layout = _format(detect(path) if format is None else format, path)
    # Lists that become others have another inverse.
    others = symmetrize or remove_self_loops or remove_duplicates or sort_neighbors or directed is False
    shape = {"symmetrize": symmetrize, "remove_self_loops": remove_self_loops, "remove_duplicates": remove_duplicates}
    placed = placements(placement, in_place=True)
    options = LoadOptions(placed, weight_dtype, layout, False if others else transpose)
    options = replace(options, opener=_opener(placed, in_place), copies=tuple(copies), named=_named(ids, entry, path))
    _require_in_place(path, entry, options, {**shape, "sort_neighbors": sort_neighbors, "weight_dtype": weight_dtype})
    if weight_dtype is None and sort_neighbors is not False:  # else a list of edges is made, in the file's order
        rules = [_core.EdgeRules(mirror=mirror, drop_loops=remove_self_loops) for mirror in (symmetrize, True)]
        options = replace(options, rules=rules[0], mirrored=rules[1])
    with _naming(path):
        graph = graph_of(path, entry.read(path, options), options, directed, sort_neighbors, **shape)
        if transpose:
            graph.transpose()
        return graph


def _named(ids: object, entry: GraphFormat, path: str) -> bool:
    """Whether vertices may be called anything."""
    if ids is not None and not (isinstance(ids, str) and ids == "any"):
        raise ConfigError(f"ids={arguments.repr_of(ids)} is neither None, where vertices are numbered from 0, nor 'any'")
    if ids is not None and entry.name not in ("edges", "npy"):
        raise ConfigError(
            f"{path}: ids='any' is for edge lists and edge arrays; this file ({entry.title}) numbers its vertices itself"
        )
    return ids is not None


def _copies(path: object) -> list[str]:
    """The names of a file, or of its copies."""
    given = path if isinstance(path, list | tuple) else [path]
    if not given:
        raise ConfigError("path is an empty list of files; name a file, or copies of one")
    return [arguments.path("path", one) for one in given]


def _require_usable(weight_dtype: object, **flags: object) -> None:
    if weight_dtype is not None and (not isinstance(weight_dtype, torch.dtype) or weight_dtype not in WEIGHT_TYPES):
        raise ConfigError(
            f"weight_dtype={arguments.repr_of(weight_dtype)}: weights are integers or real numbers, as torch.float32"
        )
    for name, given in flags.items():
        if given is not None and not isinstance(given, bool):
            raise ConfigError(f"{name}={arguments.repr_of(given)} is none of True, False and None")


def save_graph(
    graph: Graph,
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    transpose: bool = False,
    host_budget: int | str = "1GiB",
) -> None:
    """Writes a graph; the ending of ``path``, or ``format``, chooses the format.

    Only ``.hl`` holds packed lists and the order of a reordered graph. Into other formats a compressed graph goes as a plain
    one, and a reordered graph under its vertices' first numbers. A graph on storage passes through memory a piece at a time on
    its way to ``.hl``.

    The file appears under its name when it is complete, and whatever was there before stays until then: a full disk or an
    interruption leaves no half file. What a format cannot hold (weights in ``.sg``, fractions in ``.gr``) is refused.

    Args:
        graph: any graph.
        path: the file; see ``load_graph``.
        format: a name in ``FORMATS`` instead of what the ending says.
        transpose: an ``.hl`` file of a directed graph also gets the lists of in-neighbours, by which
            ``load_graph(path, "storage")`` searches in both directions and ranks.
        host_budget: host memory in which these are built, a part at a time; the more, the fewer passes over the edges. Those of
            a compressed graph are built whole.

    Raises:
        ConfigError: no such format, or the format cannot hold this graph.
        GraphError: the graph's arrays were changed since it was made, or the file that they lie in is damaged.
        StorageError: the disk is full, or the place cannot be written.
    """
    require_graph(graph)
    path, write = arguments.path("path", path), check_target(path, format)
    _require_usable(None, transpose=transpose)
    budget = parse_bytes(host_budget)
    if transpose and write is not hl.write:
        raise ConfigError(f"{path}: only .hl holds lists of in-neighbours by request; let the name end with .hl")
    _check_weights(path, graph)
    graph = graph if write is hl.write else restored(graph)
    _check_arrays(graph)
    if transpose:
        hl.write(graph, path, budget)
    else:
        write(graph, path)


def _check_weights(path: str, graph: Graph) -> None:
    """ConfigError for weights that no reader would take from a file."""
    begin, held = 0, graph.neighbor_lists.arrays.get("weights")
    for weights in () if held is None else pieces(held):
        try:
            check_weights(path, weights, begin)
        except FormatError as error:
            raise ConfigError(str(error)) from None
        begin += len(weights)


def _check_arrays(graph: Graph) -> None:
    """Raises GraphError where the arrays were changed since the graph was made, so that nobody could read the file."""
    lists = graph.neighbor_lists
    if graph.is_compressed:
        lists.packed_lists().check()
        return
    lists.checked_offsets()
    begin = 0
    for part in pieces(lists.arrays["indices"]):
        check_neighbors(part, graph.num_vertices, begin)
        begin += len(part)


def check_target(path: str | os.PathLike[str], format: str | None = None) -> Callable[[Graph, str], None]:
    """The writer that ``save_graph`` will use; a name or place that cannot be written is refused before a long load."""
    path = arguments.path("path", path)
    name = _by_name(path) if format is None else format
    if name is None:
        endings = ", ".join(entry.endings[0] for entry in FORMATS.values() if entry.write)
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


def _opener(placed: Mapping[str, str], in_place: InPlace) -> Callable[..., StorageArray] | None:
    """Opens arrays that stay in their file; None where none does."""
    stays, budget = "storage" in placed.values(), in_place.get("host_budget")
    if in_place.get("cache") is not None and (budget is not None or not stays):
        raise ConfigError("cache= keeps pages of a graph on storage within its own budget; leave out host_budget")
    if budget is not None and not stays:
        raise ConfigError(
            f"host_budget={arguments.repr_of(budget)} bounds the pages of a graph on storage; give placement='storage', or "
            "leave it out"
        )
    return opener(**in_place) if stays else None


def _require_in_place(path: str, entry: GraphFormat, options: LoadOptions, changes: Mapping[str, object]) -> None:
    """ConfigError unless the file can be read where it lies, if it stays there, and nothing is asked for that would be another
    graph."""
    if options.opener is None:
        if options.copies:
            raise ConfigError(f"{path}: of several copies of a file some stay unread unless placement='storage'; name one")
        return
    if entry.name != "hl":
        target = f"{os.path.splitext(path)[0]}.hl"
        raise ConfigError(
            f"{path}: placement 'storage' reads .hl files where they lie, and this one's format is {entry.name}; make one "
            f"with: hinterland convert {path} {target} --placement storage"
        )
    for name, asked in changes.items():
        if asked is not None and asked is not False:
            raise ConfigError(
                f"{path}: {name} makes another graph of the file, but with placement 'storage' it is read as it lies; load it "
                f"with {name} and placement 'host', and save that with save_graph"
            )
