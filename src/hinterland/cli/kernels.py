"""``hinterland kernels build``: compiles kernels for given architectures, with or without a GPU, and says what came of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from .output import emit, say
from .parameters import Json


def register(app: typer.Typer) -> None:
    kernels = typer.Typer(help="The GPU kernels: compile them ahead of their first use.", no_args_is_help=True)
    kernels.command("build")(build)
    app.add_typer(kernels, name="kernels")


def build(
    arch: Annotated[str, typer.Option(help="Architectures, separated by commas: sm_80,sm_90,sm_100.")] = "sm_90",
    only: Annotated[str, typer.Option(help="Kernel files, separated by commas: graph/bfs,memory/gather; all by default.")] = "",
    output: Annotated[
        Path | None, typer.Option(help="Folder for the compiled kernels; without it they go to the cache.")
    ] = None,
    report: Annotated[bool, typer.Option("--report", help="Print the registers and memory that each kernel takes.")] = False,
    dump: Annotated[
        Path | None, typer.Option(help="Folder for the kernels' text: PTX, and SASS where nvdisasm is found.")
    ] = None,
    json: Json = False,
) -> None:
    """Compile every kernel of the library. Needs NVRTC (pip install 'hinterland[cuda]'), but no GPU."""
    from ..runtime import inspection, jit

    register_all()
    archs, files = _parts(arch), _parts(only)
    built: list[dict[str, Any]] = []
    taken: list[dict[str, Any]] = []
    start = time.perf_counter()
    for path, target, entry in jit.build_all(archs, output, files):
        print(f"{target}  {path}  {entry.stat().st_size:,} bytes", file=sys.stderr)
        built.append({"kernel": path, "arch": target, "file": str(entry), "bytes": entry.stat().st_size})
        if report:
            taken += [{"file": path, "arch": target, **asdict(each)} for each in inspection.resources(entry)]
    seconds = time.perf_counter() - start
    result: dict[str, Any] = {"kernels": built, "seconds": round(seconds, 3)}
    lines = [f"{len(built)} modules in {seconds:.1f} s"]
    if report:
        result["resources"] = taken
        lines = [*_table(taken), *lines]
    if dump is not None:
        if inspection.disassembler() is None:
            say("hinterland: no SASS is written, for nvdisasm is not there: pip install nvidia-cuda-nvdisasm")
        result["dumped"] = [str(written) for written in inspection.dump(archs, dump, files)]
        lines.append(f"{len(result['dumped'])} files in {dump}")
    emit(result, json, "\n".join(lines))


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


_COLUMNS = {
    "registers": "registers",
    "stack_bytes": "stack",
    "spill_store_bytes": "spilled",
    "spill_load_bytes": "reloaded",
    "shared_bytes": "shared",
    "instructions": "instructions",
}


def _table(taken: Sequence[dict[str, Any]]) -> list[str]:
    """A line for each kernel, under the names of the columns; a heading for each file and architecture."""
    lines: list[str] = []
    head = ""
    for kernel in taken:
        if head != (head := f"{kernel['file']} for {kernel['arch']}"):
            lines += ["", "  ".join(_COLUMNS.values()) + f"  {head}"]
        lines.append("  ".join(f"{kernel[key]:>{len(name)},}" for key, name in _COLUMNS.items()) + f"  {kernel['kernel']}")
    return [*lines[1:], "", "Bytes; registers and stack are a thread's, shared memory is a block's."]


def register_all() -> None:
    """A kernel is known once its module is imported."""
    import hinterland

    # Nothing that users call imports these: they are measured alone.
    from ..fullgraph import attention  # noqa: F401

    for name in hinterland.__all__:
        getattr(hinterland, name)
