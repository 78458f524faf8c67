"""The probe: what this machine can do, measured once and kept."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ..machine import cache, machine_kind
from ..machine.model import Machine
from ..memory.mapping import parse_limit
from ..runtime import arguments, devices
from ..runtime.errors import HinterlandError, StorageError
from ..runtime.warned import warn
from . import disk, host, link, peers, random_rows, twice


def probe(
    full: bool = False,
    refresh: bool = False,
    *,
    disk_path: str | Path | None = None,
    managed_limit: int | str | None = None,
    progress: Callable[[str], None] | None = None,
) -> Machine:
    """What this machine can do, measured now or, if it has been measured before, read from ``machine.json``.

    Args:
        full: measure larger tables and for longer (minutes instead of seconds). A kept quick measurement does not do.
        refresh: measure again even if a measurement is kept.
        disk_path: the folder whose disk is measured; without it, the cache folder's.
        managed_limit: most bytes of managed host memory on this machine (:func:`hinterland.memory.set_managed_limit`), kept
            with the measurement; None leaves it as it is.
        progress: called with a phrase as each part begins.

    Returns:
        The machine; ``left_out`` says in sentences what could not be measured, ``doubts`` which figures are not to be
        trusted. Rates are in bytes a second, times in seconds.

    Warns:
        UserWarning: the doubts of what is measured now, each.
    """
    say = progress or (lambda phrase: None)
    arguments.function("progress", progress)
    folder = _folder(disk_path) if disk_path is not None else cache.path().parent / "tmp"
    kept = cache.load()
    limit = kept.managed_limit if kept is not None and managed_limit is None else parse_limit(managed_limit)
    machine = None if refresh else kept
    if machine is None or (full and not machine.full):
        machine = _measure(full, folder, say)
    elif disk_path and (machine.disk is None or machine.disk.path != str(folder)):
        machine = _measure_disk(machine, full, folder, say)
    elif machine.managed_limit == limit:
        return machine
    machine = dataclasses.replace(machine, managed_limit=limit)
    for doubt in machine.doubts if machine.date != (kept and kept.date) else ():
        warn(doubt)
    try:
        cache.store(machine)
    except HinterlandError as error:
        machine = dataclasses.replace(machine, left_out=(*machine.left_out, str(error)))
    return machine


def _folder(path: str | Path) -> Path:
    try:
        folder = Path(arguments.path("disk_path", path)).resolve()
    except (OSError, RuntimeError) as error:  # a loop of links is the latter to Python 3.11 and 3.12
        raise StorageError(f"{path}: cannot be reached: {error}; name a folder whose disk is to be measured") from error
    if not folder.is_dir():
        raise StorageError(f"{path}: no folder is there; name one whose disk is to be measured")
    return folder


def _measure(full: bool, folder: Path, say: Callable[[str], None]) -> Machine:
    """Everything, twice: on a busy machine the two differ, and what lies between them is no way to tell which is right."""
    disturbed = twice.busy()
    first = _once(full, folder, say)
    second = _once(full, folder, lambda phrase: say(f"{phrase}, a second time"))
    machine, apart = twice.better(first, second)
    if machine.link is not None:
        machine = dataclasses.replace(machine, link=link.saturated(machine.link))
    left_out = min(first.left_out, second.left_out, key=len)
    return dataclasses.replace(machine, left_out=left_out, doubts=(*disturbed, *apart))


def _measure_disk(machine: Machine, full: bool, folder: Path, say: Callable[[str], None]) -> Machine:
    """``machine`` with the disk under another folder."""
    say(f"disk under {folder}")
    first, left_out = disk.measure(folder, full)
    found, doubts = (first, []) if first is None else twice.better(first, disk.measure(folder, full)[0], "disk")
    others = [[sentence for sentence in all_ if not sentence.startswith("disk")] for all_ in (machine.left_out, machine.doubts)]
    return dataclasses.replace(machine, disk=found, left_out=(*others[0], *left_out), doubts=(*others[1], *doubts))


def _once(full: bool, folder: Path, say: Callable[[str], None]) -> Machine:
    left_out: list[str] = []
    say("CPU memory")
    cpu = host.measure(full)
    say(f"disk under {folder}")
    disk_figures, sentences = disk.measure(folder, full)
    left_out += sentences
    of_gpus = _measure_gpus(full, say, left_out)
    return Machine(
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        fingerprint=cache.fingerprint(),
        full=full,
        cpu=cpu,
        disk=disk_figures,
        gpus=cache.gpus(),
        driver=cache.driver(),
        **of_gpus,
        left_out=tuple(left_out),
        kind=machine_kind(),
    )


def _measure_gpus(full: bool, say: Callable[[str], None], left_out: list[str]) -> dict[str, Any]:
    """The fields of a Machine that need a GPU; what fails is left out with a sentence, and the rest goes on."""
    found = devices.gpus()
    if not found:
        left_out.append("no GPU: link, rows, sort and peers were not measured")
        return {}
    first = found[0]
    fields: dict[str, Any] = {}

    def attempt(name: str, phrase: str, work: Callable[[], Any]) -> None:
        say(phrase)
        try:
            result = work()
            if isinstance(result, tuple):
                result, sentences = result
                left_out.extend(sentences)
            fields[name] = result
        except (HinterlandError, torch.OutOfMemoryError) as error:
            left_out.append(f"{phrase}: not measured: {error}")

    attempt("link", f"link of {first}", lambda: link.measure(first, full))
    attempt("rows", f"rows from host memory to {first}", lambda: random_rows.on_gpu(first, full))
    attempt("helped", f"rows that the CPU helps {first} with", lambda: random_rows.helped(first, full))
    attempt("sort", f"sorting on {first}", lambda: random_rows.sort_seconds(first))
    if len(found) > 1:
        attempt("peers", "GPUs reading each other", lambda: peers.measure(full))
    else:
        left_out.append("one GPU: peers were not measured")
    return fields
