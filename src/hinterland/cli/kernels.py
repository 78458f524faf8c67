"""``hinterland kernels build``: compiles every kernel for given architectures, on a machine with or without a GPU."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from .output import emit


def register(app: typer.Typer) -> None:
    kernels = typer.Typer(help="The GPU kernels: compile them ahead of their first use.", no_args_is_help=True)
    kernels.command("build")(build)
    app.add_typer(kernels, name="kernels")


def build(
    arch: Annotated[str, typer.Option(help="Architectures, separated by commas: sm_80,sm_90,sm_100.")] = "sm_90",
    output: Annotated[
        Path | None, typer.Option(help="Folder for the compiled kernels; without it they go to the cache.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
) -> None:
    """Compile every kernel of the library. Needs NVRTC (pip install 'hinterland[cuda]'), but no GPU."""
    from ..runtime import jit

    register_all()
    built = []
    start = time.perf_counter()
    for path, target, entry in jit.build_all([a.strip() for a in arch.split(",") if a.strip()], output):
        print(f"{target}  {path}  {entry.stat().st_size:,} bytes", file=sys.stderr)
        built.append({"kernel": path, "arch": target, "file": str(entry), "bytes": entry.stat().st_size})
    seconds = time.perf_counter() - start
    emit({"kernels": built, "seconds": round(seconds, 3)}, json, f"{len(built)} modules in {seconds:.1f} s")


def register_all() -> None:
    """A kernel is known once its module is imported."""
    import hinterland

    for name in hinterland.__all__:
        getattr(hinterland, name)
