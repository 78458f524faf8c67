"""``hinterland probe``: what this machine's memories, links and disks give."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .output import emit, print_table
from .parameters import Json

if TYPE_CHECKING:
    from ..machine import Machine


def probe(
    full: Annotated[bool, typer.Option("--full", help="Larger tables and longer runs: minutes instead of seconds.")] = False,
    refresh: Annotated[bool, typer.Option("--refresh", help="Measure again even if a measurement is kept.")] = False,
    disk_path: Annotated[
        Path | None, typer.Option(help="Folder whose disk is measured; without it, the cache folder's.")
    ] = None,
    managed_limit: Annotated[
        str | None, typer.Option(help="Keep this as the most managed host memory on this machine, as 64GiB, or unlimited.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with the curves, complete in one file.")] = None,
    json: Json = False,
) -> None:
    """Measure this machine, or show what was measured before. Planners read the result."""
    from ..probe.measure import probe as run_probe
    from ..probe.page import page
    from ..runtime.files import check_place, replacing

    if html:
        check_place(html)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the doubts, which are printed below
        machine = run_probe(
            full,
            refresh,
            disk_path=disk_path,
            managed_limit=managed_limit,
            progress=lambda phrase: print(phrase, file=sys.stderr),
        )
    if html:
        with replacing(html) as output:
            output.write(page(machine).encode())
        print(f"wrote {html}", file=sys.stderr)
    if json:
        emit(machine.to_json(), True, "")
    else:
        _print(machine)


def _print(machine: Machine) -> None:
    from ..probe.report import sections

    for section in sections(machine):
        right = [i > 0 and any(section.columns) for i in range(len(section.columns))]
        print_table(section.title, list(zip(section.columns, right, strict=True)), section.rows)
    for sentence in machine.left_out:
        print(f"Left out: {sentence}")
    for sentence in machine.doubts:
        print(f"In doubt: {sentence}")
