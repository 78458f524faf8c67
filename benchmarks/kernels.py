"""Kernels of one's own in each tier: array<T> beside raw pointers and torch; functions of chunks beside torch.compile of
whole arrays.

Times are milliseconds, the least of some runs of several calls in a row, which are waited for at the end; calls that move
more than 8 GiB are run one by one. ``gbs`` are 10^9
bytes a second that the first way of a line moves at least, and ``of_ceiling`` its share of what the paths give: the link what
the copy engine brings from the host, GPU memory (or the CPU's) what torch's copy of a tensor moves. A random element costs a
sector, or on a CPU a line. Answers are compared before they are timed. torch and torch.compile read a UnifiedTensor by its
view; rows in tiers and files they cannot, and have no figure there.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

import hinterland as hl
from hinterland.kernels import filter_chunks, map_chunks, reduce_chunks
from hinterland.memory.limits import host_memory
from hinterland.probe.link import copy_rates
from hinterland.runtime import devices

from ._rows import Rows
from ._timing import REPEATS, milliseconds

GIB = 1 << 30
CALLS = 5  # in a row
LARGE = 8 * GIB  # bytes of a call that is long enough by itself
PART = 1 << 22  # rows that are written, or compared, at a time
WIDTH = 16  # elements of a row
PICKED = 1 << 24  # elements that are read at random, at most
TIERS = ("memory", "host", "half in memory")
ADD = """
__global__ void add(%s a, %s b, %s c, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}"""
PICK = """
__global__ void pick(%s a, const int64_t* at, float* c, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[at[i]];
}"""
ARRAYS = ("array<const float>", "array<const float>", "array<float>")
POINTERS = ("const float*", "const float*", "float*")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gib", type=float, help="of an array in the device's memory (1; --small: 1/256)")
    parser.add_argument("--host-gib", type=float, help="of an array in host memory, which may exceed the GPU's (as --gib)")


def run(options: argparse.Namespace) -> dict[str, Any]:
    """All figures, on the first GPU, or on the CPU without one."""
    device = devices.as_device(None)
    gib = options.gib or (1 / 256 if options.small else 1)
    near, far = (round(size * GIB) // 4 // WIDTH * WIDTH for size in (gib, options.host_gib or gib))
    if 3 * 4 * far > host_memory(0)[0]:
        raise SystemExit(f"three arrays of {4 * far / GIB:g} GiB do not fit into host memory; name less by --host-gib")
    paths = {"memory": _memory_rate(device, near)}
    paths["link"] = copy_rates(device)[0] if device.type == "cuda" else paths["memory"]
    results: dict[str, Any] = {"device": str(device), "elements": near, "host_elements": far}
    results |= {f"{path}_gbs": rate / 1e9 for path, rate in paths.items()}
    arrays, functions = Rows(), Rows()
    for tier in TIERS:
        case = Case.of(tier, near if tier == "memory" else far, device, paths)
        _add(case, arrays)
        _pick(case, arrays)
        _functions(case, functions)
        del case  # of a tier's arrays there is room for one set
    results |= {"arrays": arrays, "functions": functions}
    return results


def _memory_rate(device: torch.device, elements: int) -> float:
    """Bytes a second of a copy, read and written."""
    a = torch.ones(elements, device=device)
    b = torch.empty_like(a)
    return 2e3 * a.nbytes / _time(lambda: b.copy_(a), device)


def _time(work: Callable[[], Any], device: torch.device, moved: int = 0) -> float:
    calls = 1 if moved > LARGE else CALLS

    def several() -> None:
        for _ in range(calls):
            work()

    return milliseconds(several, [device], repeats=2 if calls == 1 else REPEATS) / calls


@dataclass
class Case:
    """Three arrays ``[rows, WIDTH]`` in a tier, of which the third is written.

    Attributes:
        a, b, out: as our kernels take them.
        views: as torch takes them; none of rows in tiers.
        host: the first two in host memory, to compare with.
        link: the share of a and b that comes over the link.
        paths: bytes a second.
    """

    tier: str
    a: Any
    b: Any
    out: Any
    views: tuple[torch.Tensor, ...]
    host: list[torch.Tensor]
    link: float
    device: torch.device
    paths: dict[str, float]

    @classmethod
    def of(cls, tier: str, elements: int, device: torch.device, paths: dict[str, float]) -> Case:
        tables = [_table(elements, seed) for seed in (1, 2)]
        host = [table.cpu() for table in tables]
        if tier == "memory":
            a, b, out = (*(one.to(device, copy=True) for one in host), torch.empty(host[0].shape, device=device))
            return cls(tier, a, b, out, (a, b, out), host, 0, device, paths)
        written = hl.UnifiedTensor.empty(tables[0].shape)
        if tier == "host":
            views = tuple(one.to(device) for one in (*tables, written))
            return cls(tier, *tables, written, views, host, 1, device, paths)
        tiers = [one.tiered(local=one.nbytes // 2 + 8 * len(one), devices=device) for one in tables]
        return cls(tier, *tiers, written, (), host, 0.5, device, paths)

    def row(self, work: str, read: int, written: int, ways: dict[str, Callable[[], Any]]) -> dict[str, Any]:
        """Times of some ways to do the same, the first of them ours. ``read``: bytes of a and b; ``written``: at least."""
        found: dict[str, Any] = {"work": work, "tier": self.tier}
        first = next(iter(ways))
        for name, way in ways.items():
            try:
                found[f"{name}_ms"] = _time(way, self.device, read + written)
            except Exception as error:  # torch.compile without its compiler, or memory: the others are measured all the same
                if name == first:
                    raise
                found[f"{name}_ms"] = type(error).__name__
        ours = found[f"{first}_ms"]
        near = read * (1 - self.link) + (0 if self.link else written)
        ideal = 1e3 * max(read * self.link / self.paths["link"], near / self.paths["memory"])
        return {**found, "gbs": (read + written) / ours / 1e6, "of_ceiling": ideal / ours}


def _table(elements: int, seed: int) -> hl.UnifiedTensor:
    """Whole numbers from 0 to 96, whose products' sums are exact."""
    made = hl.UnifiedTensor.empty((elements // WIDTH, WIDTH))
    for begin in range(0, len(made), PART):
        part = made.cpu()[begin : begin + PART]
        part.copy_((torch.arange(begin, begin + len(part))[:, None] * 31 + torch.arange(WIDTH) * 7 + seed * 5) % 97)
    return made


def _add(case: Case, rows: Rows) -> None:
    """Listing 5.3 of the dissertation."""
    n = case.host[0].numel()
    by_array, by_pointer = (hl.kernel(ADD % kinds) for kinds in (ARRAYS, POINTERS))
    ways = {"array": lambda: by_array(case.a, case.b, case.out, n, device=case.device)}
    if case.views:
        ways["pointer"] = lambda: by_pointer(case.a, case.b, case.out, n, grid=-(-n // 256), device=case.device)
        ways["torch"] = lambda: torch.add(*case.views[:2], out=case.views[2])
    ways["map"] = lambda: map_chunks(lambda a, b: a + b, case.a, case.b, out=case.out, device=case.device)
    for way in ways.values():
        (case.out if isinstance(case.out, torch.Tensor) else case.out.cpu()).zero_()
        way()
        devices.idle_at(case.device)
        assert torch.equal(case.out.cpu()[-999:], case.host[0][-999:] + case.host[1][-999:])
    rows.append(case.row("add", 8 * n, 4 * n, ways))


def _pick(case: Case, rows: Rows) -> None:
    """Elements at random."""
    n = min(case.host[0].numel(), PICKED)
    at = torch.randint(0, case.host[0].numel(), (n,), device=case.device)
    out, grid = torch.empty(n, device=case.device), -(-n // 256)
    by_array, by_pointer = (hl.kernel(PICK % kind) for kind in ("array<const float>", "const float*"))
    ways: dict[str, Callable[[], Any]] = {"array": lambda: by_array(case.a, at, out, n, grid=grid)}
    if case.views:
        ways["pointer"] = lambda: by_pointer(case.a, at, out, n, grid=grid)
        ways["torch"] = lambda: torch.take(case.views[0], at, out=out)
    for way in ways.values():
        out.zero_()
        way()
        assert torch.equal(out[:999].cpu(), case.host[0].view(-1)[at[:999].cpu()])
    sector = 32 if case.device.type == "cuda" else 64
    rows.append(case.row("random elements", sector * n, 12 * n, ways))


def _functions(case: Case, rows: Rows) -> None:
    """The same in Python: ours in every tier, and eager and compiled by torch where it can."""
    n, views = case.host[0].numel(), case.views[:2]

    def length(a: Any, b: Any) -> Any:
        return torch.sqrt(a * a + b * b)

    def product(a: Any, b: Any) -> Any:
        return a * b

    def holds(a: Any, b: Any) -> Any:
        return (a > 95) & (b < 9)

    def given(**options: Any) -> dict[str, Any]:
        return {**options, "device": case.device}

    lines = (
        (
            "map sqrt(a a + b b)",
            8,
            4,
            lambda: map_chunks(length, case.a, case.b, **given(out=case.out)),
            length,
            case.views[2:],
        ),
        ("sum a b", 8, 0, lambda: reduce_chunks("sum", product, case.a, case.b, **given()), _total, ()),
        ("filter rows", 8, 0, lambda: filter_chunks(_any(holds), case.a, case.b, **given()), _numbers(holds), ()),
        ("rows' lengths", 4, 4 / WIDTH, lambda: map_chunks(_norm, case.a, **given()), lambda a, b: (a * a).sum(1).sqrt(), ()),
        (
            "rows' greatest",
            4,
            4 / WIDTH,
            lambda: map_chunks(lambda rows: rows.amax(1), case.a, **given()),
            lambda a, b: a.amax(1),
            (),
        ),
    )
    for name, read, written, ours, theirs, out in lines:
        ways: dict[str, Callable[[], Any]] = {"ours": ours}
        if case.views:
            written_by_torch = _into(theirs, out)
            ways["torch"] = partial(written_by_torch, *views)
            ways["compiled"] = partial(torch.compile(written_by_torch, dynamic=False), *views)
            found = ours()
            _compare(found if isinstance(found, torch.Tensor) else found.to(case.device), theirs, views)
        rows.append(case.row(name, read * n, round(written * n), ways))


def _into(function: Callable[..., Any], out: tuple[torch.Tensor, ...]) -> Callable[..., Any]:
    """The function, with its values left where ours are left; the compiler makes one of both."""
    return (lambda a, b: out[0].copy_(function(a, b))) if out else function


def _compare(ours: torch.Tensor, theirs: Callable[..., Any], views: tuple[torch.Tensor, ...]) -> None:
    """With what torch answers to parts of the arrays, since it may have no room for what lies in between of all: a value of
    each row, numbers of rows in order, or a sum."""
    rows, total, length = len(views[0]), 0.0, 0
    for begin in range(0, rows, PART):
        part = slice(begin, min(begin + PART, rows))
        wanted = theirs(*(view[part] for view in views))
        if ours.dim() == 0:
            total += wanted.item()
            continue
        length += len(wanted)
        if wanted.dtype == torch.int64:
            first, last = torch.searchsorted(ours, torch.tensor([part.start, part.stop], device=ours.device)).tolist()
            assert torch.equal(ours[first:last] - begin, wanted)
        else:
            torch.testing.assert_close(ours[part], wanted, rtol=1e-6, atol=0)
    assert len(ours) == length if ours.dim() > 0 else math.isclose(ours.item(), total, rel_tol=1e-6)


def _norm(rows: torch.Tensor) -> torch.Tensor:
    return (rows * rows).sum(1).sqrt()


def _total(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a * b).sum(dtype=torch.float64)


def _any(holds: Callable[..., Any]) -> Callable[..., Any]:
    """For any element of a row."""
    return lambda a, b: holds(a, b).any(1)


def _numbers(holds: Callable[..., Any]) -> Callable[..., torch.Tensor]:
    return lambda a, b: torch.nonzero(holds(a, b).any(1)).view(-1)
