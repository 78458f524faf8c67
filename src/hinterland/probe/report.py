"""A measured machine as tables: the same rows for the terminal and for the HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..machine.model import Machine, MachineKind, RowPoint
from ..memory.mapping import UNLIMITED
from ..runtime.units import format_bytes, format_rate


@dataclass(frozen=True)
class Section:
    """One table: a title, column names and rows of text; the first column names, the others hold figures."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def sections(machine: Machine) -> Iterator[Section]:
    """The tables of a machine, in reading order; a part that was not measured has none."""
    yield _hardware(machine)
    if machine.kind:
        yield _managed_memory(machine, machine.kind)
    if machine.link:
        yield from _link(machine)
    if machine.rows:
        yield from _rows("Random rows from host memory to the GPU", machine.rows)
    if machine.helped:
        yield Section(
            f"Random rows of {format_bytes(machine.helped[0].table_bytes)} of pinned memory, with the CPU's help",
            ("row", "by the GPU", "by the CPU", "by both"),
            tuple((f"{p.row_bytes} B", *(format_rate(rate) for rate in (p.gpu, p.cpu, p.both))) for p in machine.helped),
        )
    if machine.sort:
        times = tuple((f"{keys:,} int32 keys", format_seconds(time)) for keys, time in sorted(machine.sort.items()))
        yield Section("Sorting row numbers on the GPU", ("", "time"), times)
    if machine.peers:
        yield Section(
            "GPUs reading each other",
            ("reader, owner", "in sequence", "random 64-byte rows"),
            tuple((f"{p.reader}, {p.owner}", format_rate(p.bandwidth), format_rate(p.random64)) for p in machine.peers),
        )
    yield _cpu(machine)
    yield from _rows("Random rows, CPU from its own memory", machine.cpu.rows)
    if machine.disk:
        yield _disk(machine)


def format_seconds(seconds: float) -> str:
    """A time in the unit that gives it three digits or so."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.2f} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def format_count(count: float) -> str:
    """A number or rate with three digits: ``88.3 K``."""
    for factor, letter in ((1e9, " G"), (1e6, " M"), (1e3, " K")):
        if count >= factor:
            return f"{count / factor:.3g}{letter}"
    return f"{count:.3g}"


def _hardware(machine: Machine) -> Section:
    cpu = machine.cpu
    rows = [("CPU", f"{cpu.model}, {cpu.cores} cores, {format_bytes(cpu.memory_bytes)}")]
    for i, gpu in enumerate(machine.gpus):
        rows.append((f"GPU {i}", f"{gpu.name}, {gpu.sms} SMs, {format_bytes(gpu.memory_bytes)}, {gpu.arch}"))
    if machine.driver:
        rows.append(("driver", machine.driver))
    rows.append(("measured", f"{machine.date}{', in full' if machine.full else ''}"))
    return Section("Machine", ("", ""), tuple(rows))


def _managed_memory(machine: Machine, kind: MachineKind) -> Section:
    default = (
        "the GPU's free memory" if kind.is_virtual else "what the host can give; past the GPU's free memory not measured by us"
    )
    said = machine.managed_limit
    if said is not None:
        most = "none" if said == UNLIMITED else f"{format_bytes(said)}, or {default} where that is less"
        default = f"{most}, by hinterland probe --managed-limit"
    return Section("Managed memory", ("", ""), (("this machine counts as", str(kind)), ("limit", default)))


def _link(machine: Machine) -> Iterator[Section]:
    link = machine.link
    assert link is not None
    share = f"{link.zero_copy / link.h2d:.0%} of the copy engine"
    rows = [
        ("copy engine, host to GPU", format_rate(link.h2d)),
        ("copy engine, GPU to host", format_rate(link.d2h)),
        ("kernel reads host memory in sequence", f"{format_rate(link.zero_copy)} ({share})"),
        ("one dependent read", format_seconds(link.latency)),
    ]
    for access, blocks in sorted(link.threads_to_saturate.items()):
        rows.append((f"blocks of 1024 threads that saturate it, {access}-byte loads", f"{blocks:,}"))
    yield Section("Link between host memory and GPU 0", ("", ""), tuple(rows))
    whole = [p for p in link.sequential if p.blocks == max(q.blocks for q in link.sequential)]
    cases = list(dict.fromkeys((p.access_bytes, p.shift_bytes) for p in whole))
    mappings = list(dict.fromkeys(p.mapping for p in whole))
    rate = {(p.mapping, p.access_bytes, p.shift_bytes): format_rate(p.bandwidth) for p in whole}
    yield Section(
        "Kernel reads in sequence",
        ("", *mappings),
        tuple(
            (
                f"{a}-byte loads" + (f", start {s} B past a line" if s else ""),
                *(rate.get((m, a, s), "-") for m in mappings),
            )
            for a, s in cases
        ),
    )


def _rows(title: str, points: tuple[RowPoint, ...]) -> Iterator[Section]:
    for size in sorted({p.table_bytes for p in points}):
        here = [p for p in points if p.table_bytes == size]
        mappings = list(dict.fromkeys(p.mapping for p in here))
        columns = tuple(f"{m}, {order}" for m in mappings for order in ("random", "sorted"))
        at = {(p.mapping, p.row_bytes): (format_rate(p.random), format_rate(p.sorted)) for p in here}
        rows = tuple(
            (f"{width} B", *(text for m in mappings for text in at.get((m, width), ("-", "-"))))
            for width in sorted({p.row_bytes for p in here})
        )
        yield Section(f"{title}, table of {format_bytes(size)}", ("row", *columns), rows)


def _cpu(machine: Machine) -> Section:
    cpu = machine.cpu
    rows = (
        ("read in sequence", format_rate(cpu.read)),
        ("copy", format_rate(cpu.copy)),
        ("one dependent read", format_seconds(cpu.latency)),
        ("random 64-byte rows", f"{cpu.random_rows / 1e6:.1f} M rows/s"),
    )
    return Section(f"CPU memory, {cpu.cores} cores", ("", ""), rows)


def _disk(machine: Machine) -> Section:
    disk = machine.disk
    assert disk is not None
    rows = [("read in sequence", format_rate(disk.sequential)), ("write in sequence", format_rate(disk.write))]
    for depth, rate in sorted(disk.random4k.items()):
        rows.append((f"random 4-KiB reads, {depth} at a time", f"{rate:,.0f} /s"))
    return Section(f"Disk under {disk.path}" + ("" if disk.direct else " (page cache)"), ("", ""), tuple(rows))
