"""``hinterland dataset convert | generate | info``: data sets for graph neural networks, as folders of this library."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..runtime.units import format_bytes, format_rate
from .output import emit
from .parameters import Device, Json

_OVERWRITE = typer.Option("--overwrite", help="Replace a data set of this library that is there.")
_SYMMETRIZE = typer.Option("--symmetrize", help="Add the reverse of every edge; between two types, as relations of their own.")
_CLASSES = typer.Option(help="Which labels of IGB: 19 or 2983.")
_FORMAT = typer.Option(help="Read as this, whatever the content says: hinterland, mag240m, igbh, igb, ogb, shchur.")


if TYPE_CHECKING:
    from ..datasets import Dataset, HeteroDataset


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="Data sets with features and labels: convert once, generate, describe.")
    for command in (convert, generate, info):
        group.command(command.__name__)(command)
    app.add_typer(group, name="dataset")


def convert(
    source: Annotated[str, typer.Argument(metavar="IN", help="The original files: a folder of OGB, MAG240M or IGB, or .npz.")],
    target: Annotated[str, typer.Argument(metavar="OUT", help="The folder to make.")],
    symmetrize: Annotated[bool, _SYMMETRIZE] = False,
    num_classes: Annotated[int | None, _CLASSES] = None,
    format: Annotated[str | None, _FORMAT] = None,
    overwrite: Annotated[bool, _OVERWRITE] = False,
    json: Json = False,
) -> None:
    """Convert a data set as it was downloaded to a folder that opens fastest. Done once; nothing is fetched."""
    from .. import datasets

    start = time.perf_counter()
    datasets.convert(source, target, symmetrize=symmetrize, num_classes=num_classes, format=format, overwrite=overwrite)
    _report({"input": source}, target, time.perf_counter() - start, "written", json)


def generate(
    output: Annotated[Path, typer.Option(help="The folder to make.")],
    shape: Annotated[
        str, typer.Argument(help="Whose sizes: products, papers100M, igb, igb-medium, wikipedia, amazon, mag240m, igbh.")
    ] = "papers100M",
    scale: Annotated[float, typer.Option(help="What counts of vertices and edges are multiplied by.")] = 0.01,
    seed: Annotated[int, typer.Option(help="The same seed gives the same data set on every machine.")] = 1,
    symmetrize: Annotated[bool, _SYMMETRIZE] = False,
    device: Device = None,
    overwrite: Annotated[bool, _OVERWRITE] = False,
    json: Json = False,
) -> None:
    """Make a data set of the shape of a known one, at any scale: hubs, communities, features, labels that can be learned."""
    from .. import datasets

    datasets.check_target(output, overwrite)
    start = time.perf_counter()
    made = datasets.generate(shape, scale=scale, seed=seed, symmetrize=symmetrize, placement="pageable", device=device)
    seconds = time.perf_counter() - start
    datasets.save(made, output, overwrite=overwrite)
    del made
    _report({"shape": shape, "scale": scale, "seed": seed}, str(output), seconds, "made", json)


def info(
    path: Annotated[str, typer.Argument(metavar="DATASET", help="A folder of this library, or the original files.")],
    num_classes: Annotated[int | None, _CLASSES] = None,
    format: Annotated[str | None, _FORMAT] = None,
    json: Json = False,
) -> None:
    """Describe a data set: all of it is read and checked."""
    from .. import datasets

    kind = format or datasets.detect(path)
    held = datasets.open(path, "pageable", num_classes=num_classes, format=format)
    emit({"dataset": path, "format": kind, **_summary(held)}, json, repr(held))


def _summary(held: Dataset | HeteroDataset) -> dict[str, Any]:
    from ..datasets import HeteroDataset

    if isinstance(held, HeteroDataset):
        vertices: Any = dict(held.num_vertices)
        edges: Any = {" ".join(kind): graph.num_edges for kind, graph in held.graphs.items()}
        tables = held.features
    else:
        vertices, edges, tables = held.num_vertices, held.graph.num_edges, {"": held.features}
    features = {
        kind: {"columns": table.shape[1], "dtype": str(table.dtype).removeprefix("torch."), "bytes": table.nbytes}
        for kind, table in tables.items()
    }
    return {
        "name": held.name,
        "vertices": vertices,
        "edges": edges,
        "features": features if isinstance(held, HeteroDataset) else features[""],
        "classes": held.num_classes,
        "labelled": int((held.labels >= 0).sum()),
        "splits": {name: len(part) for name, part in held.splits.items()},
    }


def _report(what: dict[str, Any], folder: str, seconds: float, done: str, json: bool) -> None:
    size = sum(entry.stat().st_size for entry in Path(folder).iterdir())
    result = {**what, "output": folder, "bytes": size, "seconds": round(seconds, 4)}
    rate = format_rate(size / max(seconds, 1e-9))
    emit(result, json, f"{folder}: {format_bytes(size)}, {done} in {seconds:.2f} s ({rate})")
