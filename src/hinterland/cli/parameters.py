"""The options that several commands share. Nothing here imports torch, so that ``--help`` answers at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

GraphFile = Annotated[Path, typer.Argument(metavar="GRAPH", help="A graph file of any format that convert reads.")]
Source = Annotated[str, typer.Option(help="The vertex to begin at, or random.")]
Sources = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Begin at each vertex in this file: one number a line, or .npy.")
]
MOST_RUNS = 1_000_000  # each is a line of the report
Runs = Annotated[int, typer.Option(min=1, max=MOST_RUNS, help="Times to run; each from a new vertex if the source is random.")]
Repeats = Annotated[int, typer.Option("--runs", min=1, max=MOST_RUNS, help="Times to run.")]
Seed = Annotated[int, typer.Option(help="Draws the random sources, among vertices that have neighbours.")]
RandomWeights = Annotated[
    str | None, typer.Option(metavar="TYPE", help="Draw weights first: uint8 or int32 from 1 to 255, or float32 below 1.")
]
Mode = Annotated[str, typer.Option(help="auto, or one of the modes on the algorithm's page.")]
GpuBudget = Annotated[str | None, typer.Option(metavar="SIZE", help="Most GPU memory to take, as 4GiB; 0 runs on the CPU.")]
Device = Annotated[str | None, typer.Option(help="cpu or cuda; by default the GPU, if there is one.")]
Verify = Annotated[bool, typer.Option("--verify", help="Check every result by the properties that define it.")]
Output = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the result: a table as .parquet, else one array as .npy.")
]
Stats = Annotated[bool, typer.Option("--stats", help="Also report each level or iteration.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]


@dataclass(frozen=True)
class Options:
    """The options of the same names; ``mode`` is None for an algorithm that has but one."""

    mode: str | None = "auto"
    gpu_budget: str | None = None
    device: str | None = None
    verify: bool = False
    output: Path | None = None
    stats: bool = False
    json: bool = False
