"""The options that several commands share. Nothing here imports torch, so that ``--help`` answers at once."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from .moved import refuse_access


def named_path(text: str | Path) -> Path:
    """An argument that names a file or folder; an empty one, which pathlib takes for this folder, does not."""
    if not str(text):
        raise typer.BadParameter("it is empty; name a file or folder")
    return Path(text)


GraphFile = Annotated[
    Path, typer.Argument(metavar="GRAPH", help="A graph file of any format that convert reads.", parser=named_path)
]
Sources = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Begin at each vertex in this file: one number or name a line, or .npy.")
]
Jumps = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Jump only to the vertices in this file: one number or name a line, or .npy."),
]
Count = Annotated[int | None, typer.Option(min=1, help="Begin at so many random vertices; 64 without --sources.")]
CountOfAll = Annotated[int | None, typer.Option(min=1, help="Estimate from so many random vertices, not from all.")]
MOST_RUNS = 1_000_000  # each is a line of the report
Repeats = Annotated[int, typer.Option("--runs", min=1, max=MOST_RUNS, help="Times to run.")]
Seed = Annotated[int, typer.Option(help="Draws the random sources, among vertices that have neighbours.")]
RandomWeights = Annotated[
    str | None, typer.Option(metavar="TYPE", help="Draw weights first: uint8 or int32 from 1 to 255, or float32 below 1.")
]
Mode = Annotated[str, typer.Option(help="auto, or one of the modes on the algorithm's page.")]
Access = Annotated[str | None, typer.Option(hidden=True, callback=refuse_access)]
Device = Annotated[str | None, typer.Option(help="cpu or cuda; by default the GPU, if there is one.")]
Ids = Annotated[
    str | None,
    typer.Option(metavar="any", help="any: texts or any integers name the vertices of an edge list; .hl keeps these names."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]


@dataclass(frozen=True)
class Start:
    """Where the runs of a search begin."""

    source: Annotated[str, typer.Option(help="The vertex to begin at, by its name if it has one, or random.")] = "random"
    sources: Sources = None
    runs: Annotated[
        int, typer.Option(min=1, max=MOST_RUNS, help="Times to run; each from a new vertex if the source is random.")
    ] = 1
    seed: Seed = 1


@dataclass(frozen=True)
class RunOptions:
    """How an algorithm is run, and what is done with its result."""

    gpu_budget: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Most GPU memory to take, as 4GiB; 0 runs on the CPU.")
    ] = None
    device: Device = None
    ids: Ids = None
    placement: Annotated[
        str,
        typer.Option(help="Where the graph lies: host, pageable, gpu, ..., or storage, which leaves edges in an .hl file."),
    ] = "host"
    host_budget: Annotated[
        str | None, typer.Option(metavar="SIZE", help="With --placement storage: most host memory for its pages, as 32MiB.")
    ] = None
    verify: Annotated[bool, typer.Option("--verify", help="Check every result by the properties that define it.")] = False
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the result: a table as .parquet, or one array as .npy.")
    ] = None
    stats: Annotated[bool, typer.Option("--stats", help="Also report each level or iteration.")] = False
    json: Json = False


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` as typer reads it: each dataclass among its parameters becomes options, one for each field."""
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {
        name: of.annotation for name, of in signature.parameters.items() if dataclasses.is_dataclass(of.annotation)
    }
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        if name not in groups:
            parameters.append(parameter)
            continue
        types = get_type_hints(groups[name], include_extras=True)
        parameters += [
            inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=types[field.name])
            for field in dataclasses.fields(groups[name])
        ]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in dataclasses.fields(group)})
        command(**given)

    vars(run)["__signature__"] = signature.replace(parameters=parameters)
    return run
