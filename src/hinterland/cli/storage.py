"""``hinterland storage``: ``bench``, what a file's disk gives, and what is reached through an array; ``cufile``, whether cuFile
could read it peer to peer; ``transpose``, a file written so that it can be read in place."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from .output import emit, print_table, say
from .parameters import Json, named_path


def register(app: typer.Typer) -> None:
    storage = typer.Typer(help="Files that are read in place: what disks give, how files must lie.", no_args_is_help=True)
    storage.command("bench")(bench)
    storage.command("cufile")(cufile)
    storage.command("transpose")(transpose)
    app.add_typer(storage, name="storage")


def bench(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Any large file on the disk in question.", parser=named_path)],
    writes: Annotated[
        bool, typer.Option("--writes", help="Write as well: the file's content is LOST. Without, it is only read.")
    ] = False,
    blocks: Annotated[int, typer.Option(min=2, help="Blocks of each run.")] = 20_000,
    pairs: Annotated[int, typer.Option(min=1, help="Runs of each kind, with and without the library by turns.")] = 9,
    host_budget: Annotated[str, typer.Option(metavar="SIZE", help="Of the cache, as 1GiB.")] = "128MiB",
    engine: Annotated[str, typer.Option(help="auto, io_uring or threads.")] = "auto",
    json: Json = False,
) -> None:
    """Compare reads through an array with reads of the same file without one, and say how many a disk needs at a time."""
    from ..probe.storage import compare, under_way

    cases = [(4096, False, 0), (65536, True, 0)]
    if writes:
        cases += [(4096, False, 1), (65536, True, 1), (4096, False, 3)]
    found = []
    for block_bytes, sequential, write_every in cases:
        say(f"{block_bytes} bytes at a time, {'sequential' if sequential else 'random'}{', with writes' * bool(write_every)}")
        given = {"blocks": min(blocks, (4096 * blocks) // block_bytes), "pairs": pairs, "host_budget": host_budget}
        kinds = {"sequential": sequential, "write_every": write_every, "engine": engine}
        found.append(compare(file, block_bytes=block_bytes, **given, **kinds))  # type: ignore[arg-type]
    say("4096 bytes at a time, random, by how many are under way")
    roof = under_way(file, engine=engine)
    if json:
        shown = {**asdict(roof), "little": roof.little, "needed": roof.needed}
        emit({"file": str(file), "runs": [asdict(one) for one in found], "roofline": shown}, True, "")
        return
    print_table(
        f"{file}: medians of {pairs} pairs",
        [("", False), ("block", True), ("a second", True), ("of the disk", True), ("CPU us", True), ("without", True)],
        [
            (
                one.pattern,
                f"{one.block_bytes:,}",
                f"{one.requests:,.0f}",
                f"{one.ratio:.2f} of {one.raw_requests:,.0f}",
                f"{one.cpu_us:.1f}",
                f"{one.raw_cpu_us:.1f}",
            )
            for one in found
        ],
    )
    print_table(
        f"{roof.little:.0f} are under way by Little's law, and queues should have room for {roof.needed}",
        [("under way", True), ("a second", True), ("of the roofline", True)],
        [(f"{n}", f"{rate:,.0f}", f"{rate / roof.at(n):.2f} of {roof.at(n):,.0f}") for n, rate in roof.measured.items()],
    )


def cufile(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A file or folder on the disk in question.", parser=named_path)
    ] = Path("."),
    json: Json = False,
) -> None:
    """Say whether cuFile could move data straight between this disk and a GPU (PCIe peer to peer), and if not, why."""
    from ..probe.cufile import detect
    from ..runtime.files import opening

    with opening(path, "read"):
        path.stat()
    found = detect(path)
    if json:
        emit(found.to_json(), True, "")
        return
    answers = {True: "yes", False: "no", None: "unknown"}
    rows = [(one.name, answers[one.holds], one.found) for one in found.conditions]
    rows += [
        ("libcufile", "", found.libcufile or "not found"),
        ("nvidia-fs", "", "loaded" if found.nvidia_fs else "not loaded"),
    ]
    print_table("cuFile with PCIe peer-to-peer", [("", False), ("", False), ("", False)], rows)
    for one in found.conditions:
        if one.remedy:
            emit({}, False, f"{one.name}: {one.remedy}.")
    verdict = {True: "could be used here", False: "cannot be used here", None: "may be possible here; what is unknown decides"}
    emit({}, False, f"cuFile with PCIe peer-to-peer {verdict[found.possible]}. Hinterland itself reads disks without cuFile.")


def transpose(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .npy file in Fortran order.", parser=named_path)],
    output: Annotated[
        Path, typer.Argument(metavar="OUT", help="What to write: .npy, .safetensors, or raw binary.", parser=named_path)
    ],
    json: Json = False,
) -> None:
    """Write a .npy in Fortran order row by row, so that StorageArray reads it where it lies. OUT may be FILE."""
    from ..storage.transpose import transpose as write

    made = write(file, output)
    shape, dtype = list(made.shape), str(made.dtype).removeprefix("torch.")
    emit({"file": str(output), "shape": shape, "dtype": dtype, "bytes": made.nbytes}, json, f"{output}: {dtype} {shape}")
