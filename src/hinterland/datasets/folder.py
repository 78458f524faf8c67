"""Hinterland's own data sets: a folder of files that are read straight to their place, by many threads.

Layout::

    dataset.json          written last: format, version, name, counts, classes, arrays; with a checksum of itself
    checksums.npy         int64: a checksum for each MiB of each .npy file, in the header's order; the header has theirs
    graph.hl              lists of in-neighbours; of several types graph.<source>.<relation>.<target>.hl
    features.npy          [V, F]; of several types features.<type>.npy
    labels.npy            int64 [V], -1 for none
    train.npy, valid.npy, test.npy    int64
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..graph import Graph, load_graph, save_graph, simplify
from ..graph.formats.files import read_head
from ..runtime.checksums import checksum
from ..runtime.errors import ConfigError, FormatError, StorageError
from ..runtime.files import check_folder_place, replacing, replacing_folder
from ..runtime.progress import progress as progress_line
from ..runtime.thresholds import COPIED_BYTES, DATASET_HEADER
from ..runtime.units import format_bytes
from . import summed
from .source import FLOATS, FeatureSource, Placement, RelationSource, Source, Vertices, check_label_count, labels_of, split_of
from .summed import SummedRows, TrailingArray, located

VERSION = 2
HEADER = "dataset.json"
SUMS = "checksums.npy"
_FORMAT = "hinterland dataset"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_OURS = re.compile(r"dataset\.json|graph(\.[\w.-]+)?\.hl|[\w.-]+\.npy|\..+\.part|\.hinterland-writes-here")

Progress = Callable[[str, int, int], None]


def matches(path: str | os.PathLike[str]) -> bool:
    """Whether ``path`` is a folder of ours."""
    return os.path.isfile(os.path.join(path, HEADER))


def read(path: str, num_classes: int | None) -> Source:
    """The data set in the folder ``path``."""
    header = read_header(path)
    several = header["heterogeneous"]
    arrays = _arrays(path, header)
    vertices = {}
    for kind, held in header["vertices"].items():
        vertices[kind] = Vertices(held["count"], _rows(arrays[_features(kind, several)]) if held["features"] else None)
        vertices[kind].check(kind)
    relations = {}
    for edges in header["edges"]:
        file = os.path.join(path, _graph(tuple(edges["type"]), several))
        relations[tuple(edges["type"])] = RelationSource(file, partial(_read_graph, file), in_place=True)
        read_head(file, 1)  # a missing file is found now
    places = {name: os.path.join(path, f"{name}.npy") for name in ("labels", *header["splits"])}
    return Source(
        path,
        header["name"],
        vertices,
        relations,
        header["target"],
        _read_labels(arrays["labels.npy"], vertices[header["target"]].count),
        {name: split_of(places[name], arrays[f"{name}.npy"].whole()) for name in header["splits"]},
        header["num_classes"],
        several,
        places,
    )


def _read_graph(path: str, symmetrize: bool, placement: Placement) -> Graph:
    graph = load_graph(path, placement)
    if not (symmetrize and graph.directed):
        return graph
    return simplify(graph, symmetrize=True, remove_duplicates=True)


def _arrays(path: str, header: dict[str, Any]) -> dict[str, SummedRows]:
    """The arrays of the folder, by the names of their files."""
    names = _array_names(header)
    places = {name: os.path.join(path, name) for name in names}
    if header["version"] == 1:  # without checksums
        return {name: SummedRows(place, located(place), None) for name, place in places.items()}
    layouts = {name: TrailingArray.from_json(header["arrays"][name]) for name in names}
    blocks = [layout.blocks for layout in layouts.values()]
    sums = SummedRows(os.path.join(path, SUMS), TrailingArray.from_json(header["arrays"][SUMS]), None).whole()
    if sums.dtype != torch.int64 or sums.shape != (sum(blocks),) or checksum(sums) != header["checksums"]:
        raise FormatError(f"{path}/{SUMS}: damaged: its own checksum does not match; convert or generate the data set again")
    parts = zip(layouts.items(), sums.split(blocks), strict=True)
    return {name: SummedRows(places[name], layout, part) for (name, layout), part in parts}


def _array_names(header: dict[str, Any]) -> list[str]:
    """The files whose checksums the folder has, in their order."""
    several = header["heterogeneous"]
    features = [_features(kind, several) for kind, held in header["vertices"].items() if held["features"]]
    return [*features, "labels.npy", *(f"{name}.npy" for name in header["splits"])]


def _rows(array: SummedRows) -> FeatureSource:
    """An array as features."""
    if len(array.shape) != 2 or array.dtype not in FLOATS:
        raise FormatError(
            f"{array.path}: an array of {array.dtype} and shape {array.shape}; features are float16, 32 or 64 of [vertices, "
            "columns]: convert or generate the data set again"
        )
    return array


def _read_labels(array: SummedRows, vertices: int) -> torch.Tensor:
    check_label_count(array.path, math.prod(array.shape), vertices)
    return labels_of(array.path, array.whole())


def read_header(path: str) -> dict[str, Any]:
    """What ``dataset.json`` says, with everything in it that is relied on."""
    place = os.path.join(path, HEADER)
    try:
        header = json.loads(read_head(place, DATASET_HEADER))
    except (ValueError, RecursionError) as error:  # the latter from brackets in brackets without end
        raise FormatError(f"{place}: damaged: {error}; convert or generate the data set again") from error
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise FormatError(f"{place}: describes no data set of this library; convert the original files")
    version = header.get("version")
    if version not in (1, VERSION):
        raise FormatError(f"{place}: version {version!r} of the format; this library reads up to {VERSION}: update it")
    try:
        good = _is_good(header)
    except (KeyError, TypeError, AttributeError):
        good = False
    if not good:
        raise FormatError(f"{place}: damaged: a field is missing or of the wrong kind; convert or generate the data set again")
    if version != 1 and header.pop("checksum", None) != _checksum(header):
        raise FormatError(
            f"{place}: damaged: its checksum does not match; restore it, or convert or generate the data set again"
        )
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
        and (
            header["version"] == 1
            or all(TrailingArray.from_json(header["arrays"][name]) for name in (*_array_names(header), SUMS))
        )
    )


def _checksum(header: dict[str, Any]) -> str:
    """Of a header without its own."""
    return checksum(torch.frombuffer(bytearray(json.dumps(header, sort_keys=True).encode()), dtype=torch.uint8))


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
    foreign = sorted(file.name for file in folder.iterdir() if not _OURS.fullmatch(file.name))
    if foreign:
        raise ConfigError(f"{folder}: holds {foreign[0]}, which is no part of a data set, so it stays; move that away first")
    return True


def write(source: Source, target: str, *, symmetrize: bool, overwrite: bool, progress: Progress | None) -> None:
    """Writes the data set to the folder ``target``, which appears when it is whole."""
    for name in (*source.vertices, *(part for kind in source.relations for part in kind)):
        if not _is_name(name):
            raise ConfigError(f"{target}: a type called {name!r}; names that files can have are letters, digits, _ and -")
    with replacing_folder(target, partial(_replaceable, overwrite)) as folder:
        _require_room(source, target, folder)
        several = source.heterogeneous
        held: dict[str, tuple[TrailingArray, torch.Tensor]] = {}
        for kind, vertices in source.vertices.items():
            rows, name = vertices.features, _features(kind, several)
            if rows is not None:
                parts = _blocks(rows, f"features of {kind}" if several else "features", progress)
                held[name] = summed.write(folder / name, rows.dtype, rows.shape, parts)
        for name, values in {"labels": source.labels, **source.splits}.items():
            name += ".npy"
            held[name] = summed.write(folder / name, values.dtype, tuple(values.shape), [values.contiguous()])
        sums = torch.cat([found for _, found in held.values()])
        held[SUMS] = summed.write(folder / SUMS, sums.dtype, tuple(sums.shape), [sums])
        edges = []
        for relation, graph in source.graphs(symmetrize, "pageable"):
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
            "arrays": {name: layout.to_json() for name, (layout, _) in held.items()},
            "checksums": checksum(sums),
        }
        header["checksum"] = _checksum(header)
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


def fill(
    rows: FeatureSource, what: str, progress: Progress | None, place: Callable[[int, int], torch.Tensor]
) -> Iterator[torch.Tensor]:
    """Reads all rows, block by block, each to ``place(begin, end)``; yields the blocks."""
    count, row = rows.shape[0], rows.shape[1] * rows.dtype.itemsize
    step = max(COPIED_BYTES // max(row, 1), 1)
    with _steps(what, count * row, progress) as done:
        for begin in range(0, count, step):
            block = place(begin, min(begin + step, count))
            rows.read(block)
            yield block
            done(len(block) * row)


@contextmanager
def _steps(what: str, total: int, progress: Progress | None) -> Iterator[Callable[[int], None]]:
    """Progress on the terminal's line, and to the caller's function."""
    with progress_line(what, total) as line:
        done = 0

        def step(count: int) -> None:
            nonlocal done
            done += count
            line(count)
            if progress is not None:
                progress(what, done, total)

        yield step


def _blocks(rows: FeatureSource, what: str, progress: Progress | None) -> Iterator[torch.Tensor]:
    """All rows, block by block, through one piece of memory."""
    block = torch.empty(0, rows.shape[1], dtype=rows.dtype)

    def place(begin: int, end: int) -> torch.Tensor:
        nonlocal block
        if len(block) < end - begin:
            block = torch.empty(end - begin, rows.shape[1], dtype=rows.dtype)
        return block[: end - begin]

    return fill(rows, what, progress, place)
