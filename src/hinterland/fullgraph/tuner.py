"""Finds how launches of an operation on a graph best divide their work, by timing the operation itself (MGG, section 6).

MGG begins with all parameters at 1 and raises one after another for as long as that helps. Here the search begins with the
default, which was measured too, and goes along one number of the shape after another, either way: it takes what is better and
closes in on it from both sides. It goes round again from the best as long as that gets better, which is MGG's retreat. It takes
12 steps at most: 11 shapes, never one that the model of :mod:`.space` finds impossible or poor, and a last step that times the
default and the best once more, so that noise and a processor that was not awake yet decide little. What is found is used by the
graph's aggregations from then on, and kept on disk for this graph, partition and machine.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..machine import cache
from ..runtime import arguments
from ..runtime.checksums import checksum
from ..runtime.errors import ConfigError, StorageError
from ..runtime.repr import Repr, type_name
from ..runtime.warned import warn_once
from .aggregate import REDUCES, aggregate
from .aggregate_launch import LaunchShape, RowEntries, compute_type, dense
from .partitioned import PartitionedGraph, identity
from .plan import choose, repeats, room_of, seconds
from .space import ORDER, LaunchWork, Space
from .strategies import STRATEGIES

STEPS = 11  # shapes that are timed; the last step is between two of them
_GAIN = 0.02  # of the default's time: what is not better by more is taken for noise, and the default stays
_VERSION = 1  # of what is kept on disk: another one where kernels change so that what was found for them no longer holds


class Trial(NamedTuple):
    """A shape that was tried: what a step of the operation took the slowest process, and what trying it took this one, the
    cutting of lists anew, compiling and all repetitions included; and what the model says of its kernels, 0 on a CPU."""

    shape: LaunchShape
    seconds: float
    spent: float
    predicted: float


@dataclass(frozen=True, repr=False)
class Tuned(Repr):
    """What was found for an operation.

    Attributes:
        what: the operation, width and type of rows.
        strategy: by which rows of other parts are read.
        shape: the best; of launches whose default is another than ``table[0].shape``, what it changes is changed.
        table: what was tried, the default first.
        left_out: why numbers of the shape had one value alone.
        partitioned: seconds that dividing the graph took the slowest process.
        cached: whether it was found in an earlier process, and read from disk.
    """

    what: str
    strategy: str
    shape: LaunchShape
    table: tuple[Trial, ...]
    left_out: tuple[str, ...]
    partitioned: float
    cached: bool = False

    @property
    def default(self) -> float:
        """Seconds of a step by default."""
        return self.table[0].seconds

    @property
    def seconds(self) -> float:
        """Seconds of a step as it is now."""
        return next(trial.seconds for trial in self.table if trial.shape == self.shape)

    @property
    def spent(self) -> float:
        """Seconds that the search took."""
        return sum(trial.spent for trial in self.table)

    def explain(self) -> str:
        """What was chosen, a line for each shape tried, and after how many steps the search, and dividing, have paid."""
        lines = [f"{self.what} by {self.strategy}: {_named(self.shape)}, {_compared(self.seconds, self.default)}"]
        for trial in self.table:
            marks = ["default"] * (trial is self.table[0]) + ["chosen"] * (trial.shape == self.shape)
            took = f"{1e3 * trial.seconds:.3f} ms, tried in {trial.spent:.3f} s"
            lines.append("  " + ", ".join([_named(trial.shape), took, *marks]))
        lines += [f"  left out: {why}" for why in self.left_out]
        where = "found earlier, and read from disk" if self.cached else "searched here"
        lines.append(f"  {len(self.table)} steps, {self.spent:.2f} s: {where}{self._pays(self.spent)}")
        lines.append(
            f"  dividing the graph took {self.partitioned:.2f} s, as long as {_steps(self.partitioned / self.seconds)}"
        )
        return "\n".join(lines)

    def _pays(self, cost: float) -> str:
        gain = self.default - self.seconds
        return f"; it pays after {_steps(cost / gain)}" if gain > 0 else ""


def _named(shape: LaunchShape) -> str:
    return ", ".join(f"{name} {value}" for name, value in shape._asdict().items())


def _compared(now: float, default: float) -> str:
    return f"{1e3 * now:.3f} ms a step, {default / now:.2f} times as fast as by default"


def _steps(count: float) -> str:
    return f"{math.ceil(count):,} steps"


def tune(p: PartitionedGraph, x: Any, reduce: str = "sum", *, strategy: str = "auto", again: bool = False) -> Tuned:
    """Finds the quickest shape for ``aggregate(p, x, reduce, strategy=strategy)``, which this calls up to 280 times; all
    calls of that kind then use it: those of this graph with the same kernel, strategy, and width and type of rows, gradients of
    sums on undirected graphs included (of directed ones those of ``p.transposed`` are tuned).

    The default stays unless another is over 2 % quicker. What was found for the same graph, partition, devices and
    operation on this machine is read from disk; a reordered graph or another partition is searched anew. All ranks of a process
    group call it together, and use the same shape, whose time is that of the slowest.

    Args:
        p, x, reduce, strategy: as of :func:`.aggregate`.
        again: search, whatever was found before.

    Raises:
        ConfigError: arguments that are none of these; the graph has a budget, whose rows go through the device in blocks.
        OutOfMemory: no strategy fits.
        RankLost: another rank died, or gave no answer within the timeout of the process group.
    """
    again, bench = arguments.switch("again", again), _Bench.of(p, x, reduce, strategy)
    found: dict[Any, Tuned] = p.kept("tuned", dict)
    name = (bench.what, bench.strategy)
    if again or name not in found:
        found[name] = (None if again else bench.known()) or bench.searched()
    return found[name]


def tuned(p: PartitionedGraph) -> list[Tuned]:
    """What was found so far."""
    return list(p.kept("tuned", dict).values())


@dataclass
class _Bench:
    """An operation whose shape can be changed, and timed."""

    p: PartitionedGraph
    what: str
    strategy: str
    key: tuple[str, int, torch.dtype]
    run: Callable[[], Any]
    entries: list[RowEntries]
    space: Space
    repeats: int = 0

    @classmethod
    def of(cls, p: PartitionedGraph, x: Any, reduce: str, strategy: str) -> _Bench:
        arguments.instance("p", p, PartitionedGraph, "make one with PartitionedGraph.from_graph(graph)")
        arguments.one_of("reduce", reduce, REDUCES)
        arguments.one_of("strategy", strategy, ("auto", *STRATEGIES))
        if p.in_blocks:
            raise ConfigError(
                "rows of a graph with a budget go through the device in blocks, whose launches are not tuned; tune one without"
            )
        rows = [one.detach() for one in dense(p.each(x))]
        width, dtype, weighted = rows[0].shape[1], rows[0].dtype, reduce in ("sum", "gcn") and p.has_weights
        kernel = "max" if reduce == "max" else "sum"

        def by(name: str) -> Any:
            with torch.no_grad():
                return aggregate(p, p.as_given(rows), reduce, strategy=name)

        what = f"weighted {kernel}" if weighted else kernel
        if strategy == "auto":
            strategy = choose(p, what, rows, by)
        entries, works = _launches(p, rows, strategy, compute_type(dtype) if weighted else None)
        space = Space.of(works, width, dtype, min(p.world.gathered([room_of(on) for on in p.world.devices])))
        what = f"{what} of {width} x {type_name(dtype)}"
        return cls(p, what, strategy, (kernel, width, dtype), partial(by, strategy), entries, space)

    def use(self, shape: LaunchShape) -> None:
        """Has the operation's launches be of a shape."""
        changes = self.space.changes(shape)
        for entries in self.entries:
            entries.tuned.pop(self.key, None)
            if changes:
                entries.tuned[self.key] = changes

    @contextmanager
    def restored(self) -> Iterator[None]:
        """A with-block after which entries have the shapes and the pieces that they had."""
        before = [(dict(entries.tuned), entries.cuts) for entries in self.entries]
        try:
            yield
        finally:
            for entries, (tuned, cuts) in zip(self.entries, before, strict=True):
                entries.tuned = tuned
                entries.forget_pieces(cuts)

    def tried(self, shape: LaunchShape) -> Trial:
        self.use(shape)
        begin = time.perf_counter()
        if not self.repeats:
            self.repeats = repeats(seconds(self.p, self.run, 1))
        took = seconds(self.p, self.run, self.repeats)
        return Trial(shape, took, time.perf_counter() - begin, self.space.predicted(shape))

    def searched(self) -> Tuned:
        """Searches, and keeps on disk what is found."""
        space, table = self.space, dict[LaunchShape, Trial]()

        def cost(shape: LaunchShape) -> float:
            trial, before = self.tried(shape), table.get(shape)
            least = trial.seconds if before is None else min(trial.seconds, before.seconds)
            table[shape] = Trial(shape, least, trial.spent + (before.spent if before is not None else 0), trial.predicted)
            return trial.seconds

        with self.restored():
            best = settled(space.start, search(space, cost))
            if best != space.start:
                best = settled(space.start, {shape: cost(shape) for shape in (space.start, best)})
                best = settled(space.start, {shape: table[shape].seconds for shape in (space.start, best)})
        self.use(best)
        result = self._tuned(best, tuple(table.values()))
        self._keep(result)
        return result

    def _tuned(self, shape: LaunchShape, table: tuple[Trial, ...], cached: bool = False) -> Tuned:
        took = max(self.p.world.gathered([self.p.seconds] * len(self.p.parts)))
        return Tuned(self.what, self.strategy, shape, table, self.space.left_out, took, cached)

    def known(self) -> Tuned | None:
        """What an earlier process found, if all ranks read the same, and it can be used here."""
        table, shape = _read(cache.read(self._file)) or ([], None)
        usable = shape is not None and table[0].shape == self.space.start and shape in set(self.space.shapes())
        of_all = self.p.world.gathered([tuple(shape) if shape is not None and usable else None] * len(self.p.parts))
        if shape is None or set(of_all) != {tuple(shape)}:
            return None
        self.use(shape)
        return self._tuned(shape, tuple(table), cached=True)

    def _keep(self, found: Tuned) -> None:
        table = [[*trial.shape, *trial[1:]] for trial in found.table]
        about = {"what": found.what, "strategy": found.strategy, "columns": [*LaunchShape._fields, *Trial._fields[1:]]}
        try:
            cache.write(self._file, {**about, "version": _VERSION, "shape": list(found.shape), "table": table})
        except (ConfigError, StorageError) as error:
            warn_once("tuned", f"{error}; the search begins anew in the next process")

    @property
    def _file(self) -> Path:
        known = {**_partition(self.p), "machine": cache.fingerprint(), "version": _VERSION}
        known |= {"what": self.what, "strategy": self.strategy}
        return cache.path("tuned") / f"{hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:32]}.json"


def _launches(
    p: PartitionedGraph, x: Sequence[Tensor], strategy: str, weights: torch.dtype | None
) -> tuple[list[RowEntries], list[list[LaunchWork]]]:
    """What the launches of a strategy read in this process, and what those of all parts do."""
    entries: list[RowEntries] = []
    works: list[list[LaunchWork]] = [[] for _ in x]
    with p.world.turn([]):
        for stage in STRATEGIES[strategy](p, x, weights):
            for i, (read, rows) in enumerate(stage.reads):
                with p.world.on(i):
                    works[i].append(LaunchWork.of(read, rows, x[i].shape[1]))
                entries.append(read)
    return entries, p.world.gathered(works)


def _partition(p: PartitionedGraph) -> dict[str, Any]:
    """What a graph and its parts have in common with those for which the same is best: all that decides what is read when."""

    def made() -> dict[str, Any]:
        split, known = p.split, p._graph.numbering
        arrays = {"order": split.order, "hubs": split.hubs, "numbers": None if known is None else known.original_ids}
        sums = {name: checksum(array.cpu()) for name, array in arrays.items() if array is not None and array.numel()}
        facts = {name: str(value) for name, value in identity(p._graph).items()}
        return {"bounds": list(split.bounds), **sums, **facts}

    def all_made() -> dict[str, Any]:
        on = p.world.gathered([str(device) for device in p.world.devices])
        return {**p.world.agreed(made), "devices": on}

    return p.kept("partition", all_made)


def _read(content: Mapping[str, Any] | None) -> tuple[list[Trial], LaunchShape] | None:
    """The table and the best of a file; None where it is none of this version."""
    try:
        if content is None or content["version"] != _VERSION:
            return None
        table = [Trial(LaunchShape(*map(int, row[:4])), *map(float, row[4:])) for row in content["table"]]
        shape = LaunchShape(*map(int, content["shape"]))
    except (KeyError, TypeError, ValueError, IndexError):
        return None
    return (table, shape) if any(trial.shape == shape for trial in table) else None


def search(space: Space, cost: Callable[[LaunchShape], float], most: int = STEPS) -> dict[LaunchShape, float]:
    """What was tried of a space, and its cost, from its start on along one number after another; ``most`` shapes at most."""
    best = space.start
    found, before = {best: cost(best)}, None

    def costs(shape: LaunchShape) -> float:
        """Infinite where there are no steps left."""
        if shape not in found and len(found) < most:
            found[shape] = cost(shape)
        return found.get(shape, math.inf)

    while best != before and len(found) < most:
        before = best
        for name in ORDER:
            best = _lowest(space.line(best, name), best, costs, space.predicted)
    return found


def _lowest(
    line: Sequence[LaunchShape],
    best: LaunchShape,
    costs: Callable[[LaunchShape], float],
    predicted: Callable[[LaunchShape], float],
) -> LaunchShape:
    """The lowest of a line that falls and then rises, from one of it on, whose cost is known."""
    low, at, high = -1, line.index(best), len(line)  # the lowest lies between low and high
    while low + 1 < at or at + 1 < high:
        before, behind = at - low - 1, high - at - 1
        up = behind > before or (behind == before and predicted(line[at + 1]) <= predicted(line[at - 1]))
        to = at + (1 if up else -1) * (1 if max(before, behind) < 4 else 2)
        if costs(line[to]) < costs(line[at]):
            low, at, high = (at, to, high) if up else (low, to, at)
        else:
            low, high = (low, to) if up else (to, high)
    return line[at]


def settled(start: LaunchShape, found: Mapping[LaunchShape, float]) -> LaunchShape:
    """The best, or the start where that is hardly slower."""
    best = min(found, key=lambda shape: found[shape])
    return best if found[best] < (1 - _GAIN) * found[start] else start
