"""What a file's disk gives by itself, and what is reached through an array, in turns within one run."""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import dataclass
from typing import Literal

import torch

from .. import _core
from ..runtime.engine import warn_of_threads
from ..runtime.errors import ConfigError
from ..runtime.repr import Repr
from ..storage.cache import StorageCache
from ..storage.layout import Extent, Layout, size_of
from ..storage.roofline import Roofline
from ..table import StorageArray

DEPTH = 128
_MOST_LINE = 65536  # bytes of a cache's line at the most
UNDER_WAY = (1, 4, 16, 64, 256)
_LEAST, _PER_REQUEST = 1024, 16  # reads that are timed: at least, and for each that is under way


@dataclass(frozen=True, repr=False)
class RooflineShare(Repr):
    """Medians of several pairs of runs.

    Attributes:
        pattern: what was moved: ``"random"`` or ``"sequential"``, ``"reads"`` or ``"writes"`` or both.
        block_bytes: of one transfer.
        requests: transfers a second through an array.
        raw_requests: the same without cache or rows (native/storage/raw.hpp), of the same file, threads and depth.
        ratio: the median of the pairs' ratios of the first to the second.
        cpu_us: processor microseconds for each transfer through an array; ``raw_cpu_us``: without.
    """

    pattern: str
    block_bytes: int
    requests: float
    raw_requests: float
    ratio: float
    cpu_us: float
    raw_cpu_us: float


def compare(
    path: str | os.PathLike[str],
    *,
    block_bytes: int = 4096,
    sequential: bool = False,
    write_every: int = 0,
    blocks: int = 20_000,
    pairs: int = 9,
    threads: int | None = None,
    host_budget: int | str = "128MiB",
    engine: str = "auto",
    seed: int = 1,
) -> RooflineShare:
    """Moves ``blocks`` blocks of a file through an array and without, by turns, each time others.

    Args:
        path: any file; with ``write_every`` its content is overwritten with what it held, by the array, and with other bytes
            without.
        block_bytes: of one transfer without, a power of two from 512; the cache's line up to 65536 bytes, and several above.
        sequential: blocks that follow each other, from a random one on.
        write_every: 0 reads all, 1 writes all, n writes one in n.
        blocks: of one run; no more than the file holds.
        pairs: of runs.
        threads: of both; by default torch's.
        host_budget, engine: as of StorageCache.

    Raises:
        ConfigError: the file holds no two blocks.
        StorageError: it is not there, or cannot be read or written.
    """
    cache = StorageCache(host_budget, min(block_bytes, _MOST_LINE), engine)  # type: ignore[arg-type]  # checked there
    device = _core.bare_device(path)  # open until the end
    held = _blocks_of(path, device, block_bytes)
    blocks = min(blocks, held)
    threads = torch.get_num_threads() if threads is None else threads
    generator = torch.Generator().manual_seed(seed)
    ours, raw, our_cpu, raw_cpu = [], [], [], []
    mode: Literal["r", "r+"] = "r+" if write_every else "r"
    blocks_of = Layout(os.fspath(path), torch.uint8, (held, block_bytes), (Extent(held, 0),))  # whatever the file is
    with StorageArray(blocks_of, mode, cache) as array:
        rows = torch.zeros(blocks, block_bytes, dtype=torch.uint8)
        for _ in range(pairs):
            lines, seconds, cpu = _through(array, _chosen(held, blocks, sequential, generator), rows, write_every)
            moved = lines / max(block_bytes // _MOST_LINE, 1)
            ours.append(moved / seconds)
            our_cpu.append(cpu / moved)
            offsets = _chosen(held, blocks, sequential, generator) * block_bytes
            given = (offsets.data_ptr(), blocks, block_bytes, write_every, threads, DEPTH, engine)
            ns, cpu_ns = _core.run_raw(os.fspath(path), *given)
            raw.append(blocks / ns * 1e9)
            raw_cpu.append(cpu_ns / blocks / 1e9)
    ratio = statistics.median(a / b for a, b in zip(ours, raw, strict=True))
    what = {0: "reads", 1: "writes"}.get(write_every, f"reads, one in {write_every} a write")
    medians = [statistics.median(found) for found in (ours, raw, our_cpu, raw_cpu)]
    return RooflineShare(
        f"{'sequential' if sequential else 'random'} {what}",
        block_bytes,
        medians[0],
        medians[1],
        ratio,
        medians[2] * 1e6,
        medians[3] * 1e6,
    )


def under_way(path: str | os.PathLike[str], *, engine: str = "auto", seed: int = 1) -> Roofline:
    """Random reads of 4 KiB, by one thread that has 1 to 256 of them under way.

    Args:
        path: any file of two blocks or more.
        engine: as of StorageCache.

    Raises:
        ConfigError, StorageError: as ``compare``.
    """
    device = _core.bare_device(path)  # open until the end
    blocks = _blocks_of(path, device, 4096)
    if engine == "auto":
        warn_of_threads()
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for depth in UNDER_WAY:
        offsets = torch.randint(0, blocks, (max(_LEAST, _PER_REQUEST * depth),), generator=generator) * 4096
        ns, _ = _core.run_raw(os.fspath(path), offsets.data_ptr(), len(offsets), 4096, 0, 1, depth, engine)
        found[depth] = len(offsets) / ns * 1e9
    return Roofline.of(found)


def _blocks_of(path: str | os.PathLike[str], device: _core.BlockDevice | None, block_bytes: int) -> int:
    size = device.bytes if device else size_of(os.fspath(path))[0]
    if size < 2 * block_bytes:
        raise ConfigError(f"{path} holds {size} bytes, no two blocks of {block_bytes}; take a larger file")
    return size // block_bytes


def _chosen(held: int, blocks: int, sequential: bool, generator: torch.Generator) -> torch.Tensor:
    """Different blocks, in the order in which they are asked for."""
    if sequential:
        first = int(torch.randint(0, held - blocks + 1, (), generator=generator))
        return torch.arange(first, first + blocks)
    return torch.randperm(held, generator=generator)[:blocks].sort().values


def _through(array: StorageArray, chosen: torch.Tensor, rows: torch.Tensor, write_every: int) -> tuple[int, float, float]:
    """Lines, seconds, and seconds of processor time. Writes are on the disk at the end."""
    before, begin = array.stats(), time.perf_counter()
    if write_every == 0:
        array.gather(chosen, rows)
    elif write_every == 1:
        array.scatter_(chosen, rows)
        array.flush()
    else:
        is_write = torch.arange(len(chosen)) % write_every == 0
        array.gather(chosen[~is_write], rows[: int((~is_write).sum())])
        array.scatter_(chosen[is_write], rows[: int(is_write.sum())])
        array.flush()
    seconds, after = time.perf_counter() - begin, array.stats()
    moved = after.reads + after.writes - before.reads - before.writes  # some may have been in the cache
    return max(moved, 1), seconds, after.cpu_seconds - before.cpu_seconds
