"""What a traversal reports: totals, steps, and its share of the link's ceiling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from ..machine import measured_link
from ..memory.count import COUNTS, METERED, TIERS, Metered, no_requests
from ..memory.gather_stats import amplification, link
from ..runtime import arguments, devices
from ..table.device import FileOnDevice, moved
from .prepare import ResidentGraph
from .traversal import FIELDS, Finished, Stopwatch

_READ = FIELDS.index(f"home_{METERED[0]}")  # from there on a record has what was read
_HEAVY = 0.9  # the heavy levels are the fewest that move this share of all bytes: a definition

Result = TypeVar("Result")


class TraversalRun(NamedTuple):
    """What a run left, and what knows how long it took."""

    finished: Finished
    clock: Stopwatch


def link_ceiling() -> float | None:
    """Bytes per second that the copy engine moves from host to GPU here, if ``hinterland probe`` has measured it."""
    link = measured_link()
    return None if link is None else link.h2d


def summarise_all(
    runs: Sequence[TraversalRun], counted: Sequence[TraversalRun], prepared: ResidentGraph, mode: str
) -> dict[str, Any]:
    """The ``stats`` of several searches: totals, and those of each (``searches``)."""
    searches = [summarise(timed, before, prepared, mode) for timed, before in zip(runs, counted, strict=True)]
    fields = ("seconds", "edges", "bytes", "cached")
    total: dict[str, Any] = {field: sum(search[field] for search in searches) for field in fields}
    total |= _sum_read(searches, total["bytes"])
    where = {"held": prepared.held, "storage": None}
    return {"device": str(prepared.device), "mode": mode, **total, **where, "searches": searches}


def summarise(run: TraversalRun, counted: TraversalRun, prepared: ResidentGraph, mode: str) -> dict[str, Any]:
    """The ``stats`` of a traversal.

    ``run`` was timed, and steps past the last record share it; ``counted`` counted what it read. Where that had more steps
    (those of shortest paths on a GPU are not always the same), the last one has what is left.

    Returns:
        A dict that JSON can take: ``device``, ``mode``, ``seconds``, ``levels`` (steps), ``reached``, ``edges`` (out of
        the vertices of all frontiers; not all of them need be examined), ``tiers`` (what reading edges and their weights
        took of each of TIERS: ``bytes`` in whole 32-byte sectors, ``requests`` for cache lines, and ``hits``, the elements
        that were found there), ``bytes`` (those from where the edges lie), ``useful_bytes`` (of the elements that were asked
        for there; of packed lists words), ``amplification`` (the one over the other; on storage what the disk moved over
        the useful bytes), ``requests`` (those for lines where the edges lie, by how many bytes of a line they take), ``cached``
        (bytes from what the GPU keeps of the lists), ``held`` (bytes of GPU memory kept between runs), ``storage`` (None
        unless edges or weights lie there: ``bytes`` and ``requests`` that the disk was asked for, ``hits`` and ``misses``,
        pages that were in the cache as they were needed (on a GPU: requests of kernels for cache lines that were) and that
        were not, ``cpu_seconds`` of processor time for requests and waiting, and ``cpu_us_per_request``; ``tiers`` then has
        the first three for the whole run, and for each level what was asked of the cache), ``link`` (None unless the edges
        crossed it: ``bytes``, ``bandwidth``, ``ceiling``, ``share``, and ``heavy``, the same over the fewest levels that moved
        nine tenths of all bytes), ``per_level``.
    """
    finished, read, seconds = run.finished, counted.finished.records, run.clock.seconds()
    steps, records = len(finished.records), finished.records.clone()
    if steps:
        records[: len(read), _READ:] = read[:steps, _READ:]
        records[-1, _READ:] += read[steps:, _READ:].sum(dim=0)
    rows = records.tolist()
    starts = [*(row[FIELDS.index("start_ns")] for row in rows), finished.end_ns]
    levels: list[dict[str, Any]] = []
    home = prepared.out.home
    for number, record in enumerate(rows):
        row = dict(zip(FIELDS[:_READ], record[:_READ], strict=True))
        at_home, kept = met(record)
        row |= {"bytes": at_home.bytes, **_amplified(at_home.bytes, at_home.useful), "requests": at_home.requests}
        row |= {"cached": kept.bytes, "tiers": _by_tier(home, at_home, kept)}
        row["direction"] = "pull" if row.pop("pulled") else "push"
        start, visit = row.pop("start_ns"), row.pop("visit_ns")
        collecting = visit - start if visit else 0  # 0 where a step is one loop
        took = {"seconds": (starts[number + 1] - start) / 1e9, "collect_seconds": collecting / 1e9}
        levels.append({"level": number, **row, **took})
    total = {field: sum(level[field] for level in levels) for field in ("vertices", "edges", "bytes", "cached")}
    over_link = prepared.out.over_link
    return {
        "device": str(prepared.device),
        "mode": mode,
        "seconds": seconds,
        "levels": finished.depth,
        "reached": total["vertices"],
        "edges": total["edges"],
        "bytes": total["bytes"],
        **_sum_read(levels, total["bytes"]),
        "cached": total["cached"],
        "held": prepared.held,
        "storage": None,
        "link": _link(levels, total["bytes"], seconds) if over_link and home == "host" else None,
        "per_level": levels,
    }


def with_stats(
    run: Callable[[bool], tuple[Result, Any]],
    asked: bool,
    prepared: ResidentGraph,
    mode: str,
    summary: Callable[..., dict[str, Any]] = summarise,
) -> tuple[Result, dict[str, Any] | None]:
    """The result of ``run`` and, if they are asked for, its stats: of one run that counts what it reads, as its argument says,
    and one that is timed. ``summary`` makes them: :func:`summarise_all` where ``run`` is several searches."""
    asked = arguments.switch("stats", asked)
    if prepared.through:
        return _with_storage(run, asked, prepared, mode, summary)
    with devices.on(prepared.device):
        counted = run(True)[1] if asked else None  # whose result goes before the next one is made
        result, timed = run(False)
    return result, None if counted is None else summary(timed, counted, prepared, mode)


def _with_storage(
    run: Callable[[bool], tuple[Result, Any]],
    asked: bool,
    prepared: ResidentGraph,
    mode: str,
    summary: Callable[..., dict[str, Any]],
) -> tuple[Result, dict[str, Any] | None]:
    """The same of a graph on storage, where counting takes next to nothing beside reading: one run is timed and counts."""
    before = moved(prepared.through)
    with devices.on(prepared.device):
        result, timed = run(asked)
    if not asked:
        return result, None
    report = summary(timed, timed, prepared, mode)
    storage = moved(prepared.through).since(before).report()
    if prepared.device.type == "cuda":
        storage["kept_bytes"] = sum(one.nbytes for one in prepared.through if isinstance(one, FileOnDevice))
        storage["hits"] = report["tiers"]["storage"]["requests"] - storage["misses"]
    storage["hits"] = max(0, storage["hits"])  # some pages are read ahead and go unread
    report["storage"] = storage
    report |= _amplified(int(storage["bytes"]), report["useful_bytes"])
    report["tiers"]["storage"] = {name: storage[name] for name in COUNTS}
    return result, report


def met(record: Sequence[int]) -> tuple[Metered, Metered]:
    """What a record (of FIELDS) says was read: of edges where they lie, and of those that the GPU keeps."""
    kept = _READ + len(METERED)
    return Metered.of(record[_READ:kept]), Metered.of(record[kept:])


def _by_tier(at: str, home: Metered, kept: Metered) -> dict[str, dict[str, int]]:
    """Counts by tier: ``home``, of edges where they lie, which is tier ``at``; ``kept``, of edges that the GPU keeps."""
    tiers = {tier: dict.fromkeys(COUNTS, 0) for tier in dict.fromkeys([*TIERS, at])}
    for tier, one in ((at, home), ("local", kept)):
        for name, count in one.tier.items():
            tiers[tier][name] += count
    return tiers


def _amplified(moved: int, useful: int) -> dict[str, float]:
    return {"useful_bytes": useful, "amplification": amplification(moved, useful)}


def _sum_read(parts: Sequence[dict[str, Any]], moved: int) -> dict[str, Any]:
    """What levels or searches read together; they moved so many bytes."""
    requests = {size: sum(part["requests"][size] for part in parts) for size in no_requests()}
    useful = sum(part["useful_bytes"] for part in parts)
    names = dict.fromkeys([*TIERS, *(tier for part in parts for tier in part["tiers"])])
    tiers = {tier: {count: sum(part["tiers"][tier][count] for part in parts) for count in COUNTS} for tier in names}
    return {**_amplified(moved, useful), "requests": requests, "tiers": tiers}


def _link(levels: list[dict[str, Any]], moved: int, seconds: float) -> dict[str, Any]:
    heavy: list[dict[str, Any]] = []
    heavy_bytes = 0
    for level in sorted(levels, key=lambda level: -level["bytes"]):
        if heavy_bytes >= _HEAVY * moved:
            break
        heavy.append(level)
        heavy_bytes += level["bytes"]
    took = sum(level["seconds"] for level in heavy)
    rates = {name: value for name, value in link(heavy_bytes, took).items() if name != "ceiling"}
    return {**link(moved, seconds), "heavy": {"levels": sorted(level["level"] for level in heavy), "seconds": took, **rates}}
