"""Hinterland's own data sets: a folder of files that are read straight to their place, by many threads.

Layout::

    dataset.json          written last: format, version, name, counts, classes
    graph.hl              lists of in-neighbours; of several types graph.<source>.<relation>.<target>.hl
    features.npy          [V, F]; of several types features.<type>.npy
    labels.npy            int64 [V], -1 for none
    train.npy, valid.npy, test.npy    int64
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..graph import Graph, load_graph, save_graph, simplify
from ..graph.formats.arrays import open_npy
from ..graph.formats.files import read_head, require_memory
from ..runtime.errors import ConfigError, FormatError, StorageError
from ..runtime.files import check_folder_place, replacing, replacing_folder
from ..runtime.progress import progress as shown
from ..runtime.units import format_bytes
from .source import ArrayRows, Placement, Relation, Rows, Source, Vertices, array_labels, split_of

VERSION = 1
HEADER = "dataset.json"
_FORMAT = "hinterland dataset"
_BLOCK = 64 << 20
_LARGEST_HEADER = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

Progress = Callable[[str, int, int], None]


def matches(path: str | os.PathLike[str]) -> bool:
    """Whether ``path`` is a folder of ours."""
    return os.path.isfile(os.path.join(path, HEADER))


def read(path: str, num_classes: int | None) -> Source:
    """The data set in the folder ``path``."""
    header = read_header(path)
    several = header["heterogeneous"]
    vertices = {}
    for kind, held in header["vertices"].items():
        rows = ArrayRows(open_npy(os.path.join(path, _features(kind, several)))) if held["features"] else None
        vertices[kind] = Vertices(held["count"], rows)
        vertices[kind].check(kind)
    relations = {}
    for edges in header["edges"]:
        file = os.path.join(path, _graph(tuple(edges["type"]), several))
        relations[tuple(edges["type"])] = Relation(file, partial(_read_graph, file))
        read_head(file, 1)  # a missing file is found now
    places = {name: os.path.join(path, f"{name}.npy") for name in ("labels", *header["splits"])}
    return Source(
        path,
        header["name"],
        vertices,
        relations,
        header["target"],
        array_labels(open_npy(places["labels"]), vertices[header["target"]].count),
        {name: _read_split(places[name]) for name in header["splits"]},
        header["num_classes"],
        several,
        places,
    )


def _read_graph(path: str, symmetrize: bool, placement: Placement) -> Graph:
    graph = load_graph(path, placement)
    if not (symmetrize and graph.directed):
        return graph
    return simplify(graph, symmetrize=True, remove_duplicates=True)


def _read_split(path: str) -> torch.Tensor:
    array = open_npy(path)
    if len(array.shape) != 1:
        raise FormatError(f"{path}: the shape is {array.shape}; a split is a list of vertex numbers")
    require_memory(path, array.name, array.count * array.dtype.itemsize)
    return split_of(path, array.integers(array.count))


def read_header(path: str) -> dict[str, Any]:
    """What ``dataset.json`` says, with everything in it that is relied on."""
    place = os.path.join(path, HEADER)
    try:
        header = json.loads(read_head(place, _LARGEST_HEADER))
    except ValueError as error:
        raise FormatError(f"{place}: damaged: {error}; convert or generate the data set again") from error
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise FormatError(f"{place}: describes no data set of this library; convert the original files")
    if header.get("version") != VERSION:
        raise FormatError(f"{place}: version {header.get('version')!r} of the format; this library reads {VERSION}: update it")
    try:
        good = _is_good(header)
    except (KeyError, TypeError, AttributeError):
        good = False
    if not good:
        raise FormatError(f"{place}: damaged: a field is missing or of the wrong kind; convert or generate the data set again")
    return header


def _is_good(header: dict[str, Any]) -> bool:
    """Whether each field that is relied on is there and of its kind."""
    kinds, edges = header["vertices"], header["edges"]
    types = [found["type"] for found in edges]
    return (
        isinstance(header["name"], str)
        and isinstance(header["heterogeneous"], bool)
        and _is_count(header["num_classes"])
        and all(
            _is_name(kind) and _is_count(held["count"]) and isinstance(held["features"], bool) for kind, held in kinds.items()
        )
        and all(len(found) == 3 and all(map(_is_name, found)) and {*found[::2]} <= {*kinds} for found in types)
        and all(map(_is_name, header["splits"]))
        and header["target"] in kinds
        and (header["heterogeneous"] or (len(kinds) == len(edges) == 1 and kinds[header["target"]]["features"]))
    )


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 48


def _graph(kind: tuple[str, ...], several: bool) -> str:
    return f"graph.{'.'.join(kind)}.hl" if several else "graph.hl"


def _features(kind: str, several: bool) -> str:
    return f"features.{kind}.npy" if several else "features.npy"


def check_place(target: str, overwrite: bool) -> None:
    """Refuses a place that ``write`` will refuse, before anything is read."""
    check_folder_place(target, partial(_replaceable, overwrite))


def _replaceable(overwrite: bool, folder: Path) -> bool:
    if not matches(folder):
        raise ConfigError(f"{folder}: is there, and no data set of this library, so it stays; choose another name")
    if not overwrite:
        raise ConfigError(f"{folder}: is there already; choose another name, or overwrite it (overwrite=True, --overwrite)")
    return True


def write(source: Source, target: str, *, symmetrize: bool, overwrite: bool, progress: Progress | None) -> None:
    """Writes the data set to the folder ``target``, which appears when it is whole."""
    for name in (*source.vertices, *(part for kind in source.relations for part in kind), *source.splits):
        if not _is_name(name):
            raise ConfigError(f"{target}: a type called {name!r}; names that files can have are letters, digits, _ and -")
    with replacing_folder(target, partial(_replaceable, overwrite)) as folder:
        _require_room(source, target, folder)
        several = source.heterogeneous
        for kind, vertices in source.vertices.items():
            if vertices.features is not None:
                what = f"features of {kind}" if several else "features"
                _write_rows(vertices.features, folder / _features(kind, several), what, progress)
        _write_array(source.labels, folder / "labels.npy")
        for name, part in source.splits.items():
            _write_array(part, folder / f"{name}.npy")
        edges = []
        for relation, graph in source.graphs(symmetrize, "heap"):
            file = folder / _graph(relation, several)
            save_graph(graph, file)
            edges.append({"type": list(relation), "count": graph.num_edges})
            if progress is not None:
                size = file.stat().st_size
                progress(f"edges {' '.join(relation)}" if several else "edges", size, size)
        header = {
            "format": _FORMAT,
            "version": VERSION,
            "name": source.name,
            "heterogeneous": several,
            "target": source.target,
            "num_classes": source.num_classes,
            "vertices": {k: {"count": v.count, "features": v.features is not None} for k, v in source.vertices.items()},
            "edges": edges,
            "splits": {name: len(part) for name, part in source.splits.items()},
        }
        with replacing(folder / HEADER) as output:
            output.write(json.dumps(header, indent=1).encode() + b"\n")


def _require_room(source: Source, target: str, folder: Path) -> None:
    """Refuses a disk without room for the features, before hours are spent."""
    tables = (vertices.features for vertices in source.vertices.values())
    needed = sum(rows.shape[0] * rows.shape[1] * rows.dtype.itemsize for rows in tables if rows is not None)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise StorageError(
            f"{target}: cannot be written: the features take {format_bytes(needed)}, but {format_bytes(free)} are free on the "
            "disk; free space or write elsewhere"
        )


def fill(rows: Rows, what: str, progress: Progress | None, place: Callable[[int, int], torch.Tensor]) -> Iterator[torch.Tensor]:
    """Reads all rows, block by block, each to ``place(begin, end)``; yields the blocks."""
    count, row = rows.shape[0], rows.shape[1] * rows.dtype.itemsize
    step = max(_BLOCK // max(row, 1), 1)
    with _steps(what, count * row, progress) as done:
        for begin in range(0, count, step):
            block = place(begin, min(begin + step, count))
            rows.read(block)
            yield block
            done(len(block) * row)


@contextmanager
def _steps(what: str, total: int, progress: Progress | None) -> Iterator[Callable[[int], None]]:
    """Progress on the terminal's line, and to the caller's function."""
    with shown(what, total) as line:
        done = 0

        def step(count: int) -> None:
            nonlocal done
            done += count
            line(count)
            if progress is not None:
                progress(what, done, total)

        yield step


def _write_rows(rows: Rows, path: Path, what: str, progress: Progress | None) -> None:
    block = torch.empty(0, rows.shape[1], dtype=rows.dtype)

    def place(begin: int, end: int) -> torch.Tensor:
        nonlocal block
        if len(block) < end - begin:
            block = torch.empty(end - begin, rows.shape[1], dtype=rows.dtype)
        return block[: end - begin]

    with replacing(path) as output:
        at = _write_npy_header(output, rows.dtype, rows.shape)
        for part in fill(rows, what, progress, place):
            output.write_tensor(part, at)
            at += part.nbytes
        output.resize(at)


def _write_array(values: torch.Tensor, path: Path) -> None:
    with replacing(path) as output:
        at = _write_npy_header(output, values.dtype, tuple(values.shape))
        output.write_tensor(values.contiguous(), at)
        output.resize(at + values.nbytes)


def _write_npy_header(output: Any, dtype: torch.dtype, shape: tuple[int, ...]) -> int:
    """Returns where the elements begin."""
    descr = np.lib.format.dtype_to_descr(torch.empty(0, dtype=dtype).numpy().dtype)
    np.lib.format.write_array_header_1_0(output, {"descr": descr, "fortran_order": False, "shape": shape})
    return output.file.tell()
