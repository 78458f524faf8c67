"""The probe: what this machine can do, measured once and kept."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ..machine import cache
from ..machine.model import Machine
from ..memory.mapping import parse_limit
from ..runtime import arguments, devices
from ..runtime.errors import HinterlandError, StorageError
from . import disk, host, link, peers, rows


def probe(
    full: bool = False,
    refresh: bool = False,
    *,
    disk_path: str | Path | None = None,
    mapped_limit: int | str | None = None,
    progress: Callable[[str], None] | None = None,
) -> Machine:
    """What this machine can do, measured now or, if it has been measured before, read from ``machine.json``.

    Args:
        full: measure larger tables and for longer (minutes instead of seconds). A kept quick measurement does not do.
        refresh: measure again even if a measurement is kept.
        disk_path: the folder whose disk is measured; without it, the cache folder's.
        mapped_limit: most bytes of mapped host memory on this machine (:func:`hinterland.memory.set_mapped_limit`), kept with
            the measurement; None leaves it as it is.
        progress: called with a phrase as each part begins.

    Returns:
        The machine; ``left_out`` says in sentences what could not be measured. Rates are in bytes a second, times in
        seconds.
    """
    say = progress or (lambda phrase: None)
    arguments.function("progress", progress)
    folder = _folder(disk_path) if disk_path is not None else cache.path().parent / "tmp"
    kept = cache.load()
    limit = kept.mapped_limit if kept is not None and mapped_limit is None else parse_limit(mapped_limit)
    machine = None if refresh else kept
    if machine is None or (full and not machine.full):
        machine = _measure(full, folder, say)
    elif disk_path and (machine.disk is None or machine.disk.path != str(folder)):
        say(f"disk under {folder}")
        measured, sentences = disk.measure(folder, full)
        others = [sentence for sentence in machine.left_out if not sentence.startswith("disk ")]
        machine = dataclasses.replace(machine, disk=measured, left_out=(*others, *sentences))
    elif machine.mapped_limit == limit:
        return machine
    machine = dataclasses.replace(machine, mapped_limit=limit)
    try:
        cache.store(machine)
    except HinterlandError as error:
        machine = dataclasses.replace(machine, left_out=(*machine.left_out, str(error)))
    return machine


def _folder(path: str | Path) -> Path:
    try:
        return Path(arguments.path("disk_path", path)).resolve()
    except (OSError, RuntimeError) as error:  # a loop of links is the latter to Python 3.11 and 3.12
        raise StorageError(f"{path}: cannot be reached: {error}; name a folder whose disk is to be measured") from error


def _measure(full: bool, folder: Path, say: Callable[[str], None]) -> Machine:
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
    attempt("rows", f"rows from host memory to {first}", lambda: rows.on_gpu(first, full))
    attempt("sort", f"sorting on {first}", lambda: rows.sort_seconds(first))
    if len(found) > 1:
        attempt("peers", "GPUs reading each other", lambda: peers.measure(full))
    else:
        left_out.append("one GPU: peers were not measured")
    return fields
