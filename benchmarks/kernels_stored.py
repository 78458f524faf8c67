"""Regular workloads over storage as kernels of one's own (Mailthody 2022, section 7.3): c = a + b, and sums of segments, of
files that no cache holds, with write-back that nobody waits for.

Beside them, in turns: native io_uring, of the same bytes and the same mix of two reads and a write (fio where it is installed,
to see that ours is no slow one), by the block that is quickest for it, to a c that is there and to one that is a hole, as a new
file is; the same sum in tiles, by hand, where tile k + 1 is read while tile k is added and tile k - 1 written; and the sum with
c in memory. GB/s are of what has to be moved, a, b and c, until all is on the disk. Ratios are of native seconds to ours, of
the same kind of c. Kernels were compiled before; their caches and queues are made, and pinned, within the time.
"""

from __future__ import annotations

import argparse
import mmap
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

import hinterland as hl
from hinterland import _core
from hinterland.probe.storage import DEPTH
from hinterland.runtime import devices

from ._rows import Rows, add_seconds, in_time, told
from .storage import fio

_ADD = """
__global__ void add(array<const double> a, array<const double> b, array<double> c) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < c.size()) c[i] = a[i] + b[i];
}
"""
# Whole warps ask for what those will read that are `ahead` elements further on.
_ADD_AHEAD = """
__global__ void add_ahead(array<const double> a, array<const double> b, array<double> c, int64_t ahead) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= c.size()) return;
  a.prefetch(i + ahead, 1);
  b.prefetch(i + ahead, 1);
  c.prefetch(i + ahead, 1);
  c[i] = a[i] + b[i];
}
"""
_SEGMENT = 512
# A block for a segment of twice its threads, in shared memory, as the dissertation has it (Harris, "Optimizing parallel
# reduction in CUDA"); where threads do not wait for each other, a thread for a segment.
_SUM_BLOCKS = """
__global__ void sums(array<const double> x, array<double> out) {
  __shared__ double own[256];
  const int64_t i = int64_t{blockIdx.x} * 512 + threadIdx.x;
  own[threadIdx.x] = x[i] + x[i + 256];
  for (unsigned width = 128; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x < width) own[threadIdx.x] += own[threadIdx.x + width];
  }
  if (threadIdx.x == 0) out[blockIdx.x] = own[0];
}
"""
# The first warp of each block asks for the segment of the block that is `ahead` elements further on.
_SUM_BLOCKS_AHEAD = """
__global__ void sums(array<const double> x, array<double> out, int64_t ahead) {
  __shared__ double own[256];
  const int64_t i = int64_t{blockIdx.x} * 512 + threadIdx.x;
  if (threadIdx.x < 32) x.prefetch(int64_t{blockIdx.x} * 512 + ahead, 512);
  own[threadIdx.x] = x[i] + x[i + 256];
  for (unsigned width = 128; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x < width) own[threadIdx.x] += own[threadIdx.x + width];
  }
  if (threadIdx.x == 0) out[blockIdx.x] = own[0];
}
"""
_SUM_THREADS = """
__global__ void sums(array<const double> x, array<double> out) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= out.size()) return;
  x.prefetch((i + 64) * 512, 512);
  auto segment = x.reader(i * 512, i * 512 + 512);
  double sum = 0;
  for (int64_t k = 0; k < 512; ++k) sum += segment[i * 512 + k];
  out[i] = sum;
}
"""
_HITS = 16  # elements of a lane that are under way at once: a line of 4 KiB for a warp
# What is there already, in order: by a warp's reference, by a thread's, by the array, and by a pointer. A turn of a warp reads
# 16 elements a lane, of a thread as many that follow each other.
_HIT_KERNELS = {
    "a warp's reference": """
__global__ void hits(array<const double> x, double* out, int64_t turns, int64_t rounds) {
  warp_ref ref(&x);
  const int64_t warp = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / ref.kWidth;
  const int64_t warps = int64_t{gridDim.x} * blockDim.x / ref.kWidth;
  double own[16], sum = 0;
  for (int64_t round = 0; round < rounds; ++round)
  for (int64_t i = warp; i < turns / ref.kWidth; i += warps) {
    ref.read(i * 16 * ref.kWidth, own);
    for (const double each : own) sum += each;
  }
  out[int64_t{blockIdx.x} * blockDim.x + threadIdx.x] = sum;
}""",
    "a thread's reference": """
__global__ void hits(array<const double> x, double* out, int64_t turns, int64_t rounds) {
  array_ref ref(&x);
  const int64_t thread = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, threads = int64_t{gridDim.x} * blockDim.x;
  double sum = 0;
  for (int64_t round = 0; round < rounds; ++round)
  for (int64_t i = thread; i < turns; i += threads)
    for (int64_t k = 0; k < 16; ++k) sum += ref[16 * i + k];
  out[thread] = sum;
}""",
    "an array": """
__global__ void hits(array<const double> x, double* out, int64_t turns, int64_t rounds) {
  const int64_t thread = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, threads = int64_t{gridDim.x} * blockDim.x;
  double sum = 0;
  for (int64_t round = 0; round < rounds; ++round)
  for (int64_t i = thread; i < 16 * turns; i += threads) sum += x[i];
  out[thread] = sum;
}""",
    "a pointer": """
__global__ void hits(const double* x, double* out, int64_t turns, int64_t rounds) {
  const int64_t thread = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, threads = int64_t{gridDim.x} * blockDim.x;
  double sum = 0;
  for (int64_t round = 0; round < rounds; ++round)
  for (int64_t i = thread; i < 16 * turns; i += 16 * threads)
    for (int64_t k = 0; k < 16; ++k) sum += x[i + k * threads];
  out[thread] = sum;
}""",
}
# Lines that a kernel has asked for ahead, of all that it reads together: deep enough for a disk, and well below the places that
# its queues give to such (three quarters of 1,024), beyond which what is asked for ahead is refused and comes late. And a part
# of the cache's, in which it must still be when it is wanted.
_AHEAD, _PART_AHEAD = 256, 8
_TILE, _PIECE = 16 << 20, 1 << 20
PARTS = ("hits", "added", "reduced", "fio")
_FEW = 1 << 17  # elements of a call that has a kernel compiled


class _Took(dict[tuple[str, int], list[float]]):
    """Seconds of each variant, by its name and the bytes of a line. Each is told as it comes."""

    def add(self, name: str, line: int, seconds: float) -> None:
        self.setdefault((name, line), []).append(seconds)
        told({"took": name, "line": line, "s": seconds})


def add_options(parser: argparse.ArgumentParser) -> None:
    add_seconds(parser)
    parser.add_argument("--device", default=None, help="cpu or cuda; by default the GPU, if there is one")
    parser.add_argument("--mib", type=int, default=4096, help="of each array; with --small, and on a CPU, 24")
    parser.add_argument("--lines", type=int, nargs="+", default=[4096, 65536], help="bytes of a line, each of which is tried")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="which tables to make")
    parser.add_argument("--pairs", type=int, default=5, help="how often everything is measured, in turns")
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="where the measured files go: the disk in question")


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Kernels have a cache of a quarter of an array, and half where it is small."""
    device, lines, pairs = devices.as_device(options.device), options.lines, 1 if options.small else options.pairs
    nbytes = (24 if options.small or device.type == "cpu" else options.mib) << 20
    cache = nbytes // (4 if nbytes >= 1 << 30 else 2)
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="hinterland-bench-") as name:
        files = _Files(Path(name), nbytes)
        parts: dict[str, Callable[[], list[dict[str, Any]]]] = {
            "hits": lambda: _hits(files, device, pairs),
            "added": lambda: _added(files, device, cache, lines, pairs),
            "reduced": lambda: _reduced(files, device, cache, lines, pairs),
            "fio": lambda: _fio(files, lines),
        }
        return {part: parts[part]() for part in in_time(options.parts)}


class _Files:
    """a, b and c, one after the other in a file."""

    def __init__(self, folder: Path, nbytes: int) -> None:
        self.folder, self.nbytes, self.path = folder, nbytes, folder / "abc.bin"
        with self.path.open("wb") as file:
            for number in range(3):
                for begin in range(0, nbytes // 8, 1 << 20):
                    some = torch.arange(begin, min(begin + (1 << 20), nbytes // 8), dtype=torch.float64)
                    file.write((some * (number + 1)).numpy().data)
            os.fsync(file.fileno())

    def array(self, number: int, line_bytes: int, mode: str = "r", elements: int | None = None) -> hl.StorageArray:
        where = {"dtype": torch.float64, "shape": (elements or self.nbytes // 8,), "offset": number * self.nbytes}
        return hl.StorageArray.open(self.path, mode, cache=self._cache(line_bytes), **where)

    def _cache(self, line_bytes: int) -> hl.StorageCache:
        """In host memory, of which a kernel's queues have as much, which is pinned anew for each call that writes."""
        return hl.StorageCache(min(max(self.nbytes // 8, 4 << 20), 128 << 20), line_bytes)

    @contextmanager
    def target(self, new: bool, elements: int, line_bytes: int) -> Iterator[tuple[hl.StorageArray, Path, int]]:
        """A file that is made for it, or c, which is there; and where its bytes lie."""
        path = self.folder / "new.bin"
        if new:
            made = hl.StorageArray.create(path, (elements,), torch.float64, cache=self._cache(line_bytes))
        else:
            made = self.array(2, line_bytes, "r+")
        try:
            yield (made, path, 0) if new else (made, self.path, 2 * self.nbytes)
        finally:
            made.close()
            path.unlink(missing_ok=True)

    def native(self, block: int, writes: bool, new: bool = False) -> float:
        """Seconds of two reads, of a and b, for each write, of c, which is a hole if it is ``new``; or of the reads alone."""
        if new:
            os.truncate(self.path, 2 * self.nbytes)
            os.truncate(self.path, 3 * self.nbytes)
        each = torch.arange(0, self.nbytes, block)
        parts = ([each + 2 * self.nbytes] if writes else []) + [each, each + self.nbytes]
        offsets = torch.stack(parts, dim=1).reshape(-1).contiguous()
        threads = torch.get_num_threads()
        given = (offsets.data_ptr(), len(offsets), block, 3 if writes else 0, threads, DEPTH, "auto")
        ns, _ = _core.run_raw(str(self.path), *given)
        return float(ns) / 1e9


def _ahead(cache: int, line: int) -> int:
    """Elements."""
    return min(_AHEAD * line, cache // _PART_AHEAD) // 8


def _seconds(work: Callable[[], Any], device: torch.device) -> float:
    begin = devices.idle_at(device)
    work()
    return devices.idle_at(device) - begin


def _checked(path: Path, offset: int, elements: int, wanted: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """That a few thousand elements of a file are what they should be."""
    at = torch.randint(0, elements, (2000,))
    found = torch.from_file(str(path), shared=False, size=offset // 8 + elements, dtype=torch.float64)[offset // 8 + at]
    assert torch.equal(found, wanted(at)), "a wrong number was written"


def _added(files: _Files, device: torch.device, cache: int, lines: list[int], pairs: int) -> list[dict[str, Any]]:
    elements, found = files.nbytes // 8, Rows()
    everything, read = 3 * files.nbytes, 2 * files.nbytes
    took = _Took()

    def call(text: str, line: int, new: bool | None, elements: int) -> float:
        add = hl.kernel(text, cache=cache)
        ahead = (_ahead(cache, line) // 2,) if text is _ADD_AHEAD else ()
        with files.array(0, line, elements=elements) as a, files.array(1, line, elements=elements) as b:
            if new is None:
                c = torch.empty(elements, dtype=torch.float64, device=device)
                seconds = _seconds(lambda: add(a, b, c, *ahead), device)
                assert torch.equal(c[::997].cpu(), 3 * torch.arange(0, elements, 997).double())
                return seconds
            with files.target(new, elements, line) as (c, path, offset):
                seconds = _seconds(lambda: (add(a, b, c, *ahead, device=device), c.flush()), device)
                _checked(path, offset, elements, lambda at: 3 * at.double())
            return seconds

    kernels = (
        ("kernel, c is new", _ADD, True),
        ("kernel with prefetch, c is new", _ADD_AHEAD, True),
        ("kernel, c is overwritten", _ADD, False),
        ("kernel with prefetch, c is overwritten", _ADD_AHEAD, False),
        ("kernel with prefetch, c in memory", _ADD_AHEAD, None),
    )
    natives = {"native": (True, False), "native, c is new": (True, True), "native reads": (False, False)}
    blocks = (*lines, _PIECE)
    for _, text, new in kernels:
        call(text, lines[0], new if new is None else True, _FEW)  # compiles
    for _ in in_time(range(pairs), least=1):
        for block in blocks:
            for name, how in natives.items():
                took.add(name, block, files.native(block, *how))
        took.add("in tiles, by hand", _PIECE, _tiled(files, device))
        for line in lines:
            for name, text, new in kernels:
                took.add(name, line, call(text, line, new, elements))
    best = {name: min(statistics.median(took[name, block]) for block in blocks) for name in natives}
    for (name, line), seconds in took.items():
        only_read = name == "native reads" or name.endswith("in memory")
        beside = "native reads" if only_read else "native, c is new" if name.endswith("is new") else "native"
        median = statistics.median(seconds)
        moved = read if only_read else everything
        found.append({"sum": name, "line": line, "GB/s": moved / median / 1e9, "of native": best[beside] / median})
    return found


def _reduced(files: _Files, device: torch.device, cache: int, lines: list[int], pairs: int) -> list[dict[str, Any]]:
    """Sums of a's segments to a new file, and to memory, beside native reads of a and b, which are two of it."""
    on_gpu = device.type == "cuda"
    kernels = {"kernel with prefetch": _SUM_THREADS}
    if on_gpu:
        kernels = {"kernel": _SUM_BLOCKS, "kernel with prefetch": _SUM_BLOCKS_AHEAD}

    def wanted(at: torch.Tensor) -> torch.Tensor:
        return (at.double() * _SEGMENT + (_SEGMENT - 1) / 2) * _SEGMENT

    def call(text: str, line: int, elements: int, stores: bool) -> float:
        segments = elements // _SEGMENT
        ahead = (_ahead(cache, line),) if text is _SUM_BLOCKS_AHEAD else ()
        launch = {"grid": segments if on_gpu else -(-segments // 256), "block": 256, "device": device}
        sums = hl.kernel(text, cache=cache)
        with files.array(0, line, elements=elements) as x:
            if not stores:
                near = torch.empty(segments, dtype=torch.float64, device=device)
                seconds = _seconds(lambda: sums(x, near, *ahead, **launch), device)
                assert torch.equal(near.cpu(), wanted(torch.arange(segments)))
                return seconds
            with files.target(True, segments, line) as (out, path, offset):
                seconds = _seconds(lambda: (sums(x, out, *ahead, **launch), out.flush()), device)
                _checked(path, offset, segments, wanted)
            return seconds

    took = _Took()
    for text in kernels.values():
        for stores in (True, False):
            call(text, lines[0], _FEW, stores)  # compiles
    for _ in in_time(range(pairs), least=1):
        for line in lines:
            took.add("native", line, files.native(line, False) / 2)
            for name, text in kernels.items():
                took.add(name, line, call(text, line, files.nbytes // 8, True))
                took.add(f"{name}, sums in memory", line, call(text, line, files.nbytes // 8, False))
    medians = {key: statistics.median(seconds) for key, seconds in took.items()}
    best, found = min(medians["native", line] for line in lines), Rows()
    for (name, line), seconds in medians.items():
        found.append({"sums": name, "line": line, "GB/s": files.nbytes / seconds / 1e9, "of native": best / seconds})
    return found


def _hits(files: _Files, device: torch.device, pairs: int) -> list[dict[str, Any]]:
    """Sums of what lies in a cache with twice the room, by lines of 4 KiB, which the first call fills; beside a tensor's."""
    blocks = 4 * (devices.sm_count(device) if device.type == "cuda" else torch.get_num_threads())
    threads = blocks * 256
    rounds = 16 if device.type == "cuda" else 1  # of a call, whose beginning and end take as long as a round
    turns = min(files.nbytes, 1 << 30) // 8 // _HITS // threads * threads
    near = torch.arange(turns * _HITS, dtype=torch.float64, device=device)
    out, took = torch.empty(threads, dtype=torch.float64, device=device), _Took()
    with files.array(0, 4096, elements=turns * _HITS) as x:
        calls = {name: hl.kernel(text, cache=2 * near.nbytes + (64 << 20)) for name, text in _HIT_KERNELS.items()}

        def call(name: str) -> float:
            of = near if name == "a pointer" else x
            return _seconds(lambda: calls[name](of, out, turns, rounds, grid=blocks, block=256, device=device), device)

        for name in calls:
            call(name)
            assert torch.isclose(out.sum(), rounds * near.sum(), rtol=1e-12), f"{name} gives a wrong sum"
        for _ in in_time(range(pairs), least=1):
            for name in calls:
                took.add(name, 4096, call(name))
    found, raw = Rows(), statistics.median(took["a pointer", 4096])
    for (name, line), seconds in took.items():
        median = statistics.median(seconds)
        found.append({"hits by": name, "line": line, "GB/s": rounds * near.nbytes / median / 1e9, "of a pointer": raw / median})
    return found


def _tiled(files: _Files, device: torch.device) -> float:
    """Seconds of the sum by hand: three sets of tiles in pinned memory, and a pool of threads that move pieces of them."""
    size = min(_TILE, files.nbytes // 4)
    tiles = -(-files.nbytes // size)
    sets = [[_aligned(size, device) for _ in range(3)] for _ in range(3)]
    near = [[torch.empty_like(tile, device=device) for tile in own[:2]] for own in sets] if device.type == "cuda" else []
    file = os.open(files.path, os.O_RDWR | os.O_DIRECT)

    def moved(pool: ThreadPoolExecutor, writes: bool, tile: int, number: int) -> list[Future[int]]:
        begin, end = tile * size, min((tile + 1) * size, files.nbytes)
        view = memoryview(sets[tile % 3][number].numpy()).cast("B")
        move = os.pwritev if writes else os.preadv
        return [
            pool.submit(move, file, [view[at - begin : min(at + _PIECE, end) - begin]], number * files.nbytes + at)
            for at in range(begin, end, _PIECE)
        ]

    def work() -> None:
        with ThreadPoolExecutor(max(8, torch.get_num_threads())) as pool:
            reads = [moved(pool, False, 0, 0) + moved(pool, False, 0, 1)]
            writes: list[list[Future[int]]] = []
            for tile in range(tiles):
                if tile >= 2:  # the set that is read into next
                    _awaited(writes[tile - 2])
                if tile + 1 < tiles:
                    reads.append(moved(pool, False, tile + 1, 0) + moved(pool, False, tile + 1, 1))
                _awaited(reads[tile])
                a, b, c = sets[tile % 3]
                if device.type == "cuda":
                    there = near[tile % 3]
                    for to, tile_of in zip(there, (a, b), strict=True):
                        to.copy_(tile_of, non_blocking=True)
                    torch.add(*there, out=there[0])
                    c.copy_(there[0], non_blocking=True)
                    torch.cuda.current_stream(device).synchronize()
                else:
                    torch.add(a, b, out=c)
                writes.append(moved(pool, True, tile, 2))
            for one in writes:
                _awaited(one)
        os.fdatasync(file)

    seconds = _seconds(work, device)
    os.close(file)
    _checked(files.path, 2 * files.nbytes, files.nbytes // 8, lambda at: 3 * at.double())
    return seconds


def _awaited(moves: list[Future[int]]) -> None:
    for move in moves:
        move.result()


def _aligned(nbytes: int, device: torch.device) -> torch.Tensor:
    """Memory that direct I/O takes."""
    if device.type == "cuda":
        return torch.empty(nbytes // 8, dtype=torch.float64, pin_memory=True)
    return torch.frombuffer(mmap.mmap(-1, nbytes), dtype=torch.float64)


def _fio(files: _Files, lines: list[int]) -> list[dict[str, Any]]:
    """GB/s of fio's own io_uring at the same mix."""
    path, found = files.folder / "fio.bin", Rows()
    for block in lines:
        given = f"--rw=rw --rwmixread=67 --bs={block} --size={files.nbytes // 4} --end_fsync=1 --numjobs=1"
        if (job := fio(path, given)) is not None:
            moved = job["read"]["io_bytes"] + job["write"]["io_bytes"]
            found.append({"block": block, "GB/s": moved / max(job["job_runtime"], 1) / 1e6})
    path.unlink(missing_ok=True)
    return found
