"""Which shapes of launches are tried, what is chosen, and for how long it is known."""

from __future__ import annotations

import json
import math
import random
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland.fullgraph import PartitionedGraph, aggregate, tune, tuner
from hinterland.fullgraph.aggregate import REDUCES
from hinterland.fullgraph.aggregate_launch import _WARP, LaunchShape, PartRows, RowEntries, _form, aggregate_rows
from hinterland.fullgraph.space import AT_ONCE, LONGEST, ORDER, THREADS, LaunchWork, Space, WarpLimits, _cuts, _pieces, _tiles
from hinterland.runtime.errors import ConfigError
from tests.graphs import family
from tests.ranks import ROOT, run_ranks

from .test_aggregate import close, expected, hub, weighted

H200 = WarpLimits(132, 2048, 1 << 16)
CLOSE = 1.05  # of the best of all shapes, what the search is to find


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HINTERLAND_CACHE_DIR", str(tmp_path))


def space_of(lengths, width, tile=None, dtype=torch.float32):
    """That of an H200 for rows of these lengths."""
    row = width * dtype.itemsize
    tile = tile or row
    start = LaunchShape(128 if tile <= 128 else 256, 2 if 2 * tile <= 128 else 1, tile)
    pieces = {each: int(_pieces(lengths, each)) for each in LONGEST}
    issued = {each: int((-(-lengths // each) * each).sum()) for each in AT_ONCE}
    work = LaunchWork(len(lengths), int(lengths.sum()), int(lengths.max()), pieces, issued, start, H200)
    return Space.of([[work]], width, dtype, 1e11)


LONG = torch.arange(1, 3000)  # lengths that all of LONGEST cut
assert tuner.STEPS + 1 <= 12
SPACES = {width: space_of(LONG, width) for width in (16, 47, 64, 256, 1024)} | {0: space_of(LONG, 256, tile=128)}
for space in SPACES.values():
    space.__dict__["most_predicted"] = math.inf  # what the model says is of GPUs, not of the costs drawn here
RISES = st.floats(1.01, 1.6)


@st.composite
def surfaces(draw):
    """A space, and costs that rise along each number from those of a shape of it, factors or summands. Where the lowest were no
    shape that launches can have, numbers would depend on each other."""
    space = SPACES[draw(st.sampled_from(sorted(SPACES)))]
    least, factors = draw(st.sampled_from(list(space.shapes()))), {}
    for name, values in space.values.items():
        lowest = values.index(getattr(least, name))
        rises = [draw(RISES) for _ in values]
        factors[name] = {v: math.prod(rises[min(i, lowest) : max(i, lowest)]) for i, v in enumerate(values)}
    shares = [1.0] if draw(st.booleans()) else [draw(st.floats(0.1, 1)) for _ in ORDER]

    def cost(shape):
        parts = [factors[name][getattr(shape, name)] for name in ORDER]
        return math.prod(parts) if len(shares) == 1 else sum(share * part for share, part in zip(shares, parts, strict=True))

    return space, cost


def searched(space, cost):
    tried = []

    def noted(shape):
        tried.append(shape)
        return cost(shape)

    found = tuner.search(space, noted)
    assert len(set(tried)) == len(tried) == len(found) <= tuner.STEPS and tried[0] == space.start
    return found


@given(surfaces())
@settings(max_examples=300)
def test_twelve_steps_find_the_best_within_five_percent(surface):
    space, cost = surface
    found = searched(space, cost)
    assert all(space.allows(shape) for shape in found)
    assert cost(tuner.settled(space.start, found)) <= CLOSE * min(map(cost, space.shapes()))


@given(st.sampled_from(sorted(SPACES)), st.integers(0, 1 << 32))
def test_no_surface_makes_it_slower_than_the_default(width, seed):
    space, costs = SPACES[width], {}
    makes = random.Random(seed)

    def cost(shape):
        return costs.setdefault(shape, makes.choice([0.97, 0.99, 1, 1, 1.01, makes.uniform(0.5, 2)]))

    chosen = tuner.settled(space.start, searched(space, cost))
    assert chosen == space.start or cost(chosen) < 0.98 * cost(space.start)


@pytest.mark.parametrize("least", [0.981, 1.0, 2.0])
def test_what_is_hardly_better_is_not_chosen(least):
    space = SPACES[64]
    found = searched(space, lambda shape: 1 if shape == space.start else least)
    assert tuner.settled(space.start, found) == space.start


def test_numbers_that_depend_on_each_other_are_gone_round_again():
    """MGG's retreat: smaller blocks make longer tasks the best."""
    space = SPACES[16]

    def cost(shape):
        best = {256: 128, 128: 256, 64: 512}[shape.threads]
        return shape.threads / 64 * (1 + 0.2 * abs(shape.longest.bit_length() - best.bit_length())) + 0.1 * shape.entries

    assert tuner.settled(space.start, searched(space, cost)) == min(space.shapes(), key=cost)


def test_what_a_space_has():
    of = SPACES[256]
    assert of.values == {"tile": (128, 256, 512, 1024), "longest": LONGEST, "entries": AT_ONCE, "threads": THREADS}
    assert not of.left_out and of.start == LaunchShape(256, 1, 1024)
    for shape in product(*(of.values[name] for name in ORDER)):
        shape = of.start._replace(**dict(zip(ORDER, shape, strict=True)))
        assert of.allows(shape) == (_form(256, 4, 0, shape.tile).across * shape.entries <= _WARP)
    assert SPACES[16].values["tile"] == (64,) and "rows of 64 bytes" in SPACES[16].left_out[0]
    assert _tiles(1024, torch.float32, 4096) == (128, 256, 512, 1024, 4096)  # 2048 is what 4096 comes to
    assert _tiles(47, torch.float32, 188) == (188,) and _tiles(100, torch.float32, 400) == (200, 400)
    assert _cuts(5000, 256) == LONGEST and _cuts(300, 128) == (32, 64, 128, 256, 512) and _cuts(100, 128) == (32, 64, 128)
    assert _cuts(20, 128) == (128,)


def test_partial_sums_fit():
    roomy = space_of(torch.full((1000,), 2048), 256)
    pieces = 1000 * 2048 // 64
    tight = Space(**{**vars_of(roomy), "room": pieces * (4 * 256 + 64)})
    kept = {shape.longest for shape in tight.shapes()}
    assert kept == {64, 128, 256, 512, 1024} and {shape.longest for shape in roomy.shapes()} == set(LONGEST)
    none = Space(**{**vars_of(roomy), "room": 0})
    assert min(shape.longest for shape in none.shapes()) == none.start.longest  # the default runs anyway


def vars_of(space):
    return {name: getattr(space, name) for name in Space.__dataclass_fields__}


def test_the_model_leaves_out_what_idles():
    """Of rows of two entries eight at a time are six idle ones; a few rows of many entries wait for the longest task."""
    short = space_of(torch.full((1_000_000,), 2), 16)
    assert {shape.entries for shape in short.shapes() if short.worth(shape)} == {1, 2}
    few = space_of(torch.full((8,), 4000), 16)
    assert few.predicted(few.start._replace(longest=1024)) > few.predicted(few.start._replace(longest=64))
    assert all(space.worth(space.start) for space in (short, few, *SPACES.values()))
    assert space_of(torch.full((1000,), 5), 16).left_out[-1] == "no list has more than 5 entries, so that none is cut"


def even(vertices=64, length=600):
    """Lists of one length, none of which is a hub's."""
    places = torch.randint(0, vertices, (vertices * length,), generator=torch.Generator().manual_seed(4))
    return hl.Graph(torch.arange(vertices + 1) * length, places)


def parted(graph=None, **options):
    return PartitionedGraph.from_graph(graph if graph is not None else even(), devices="cpu", **options)


def rows_of(p, width=8):
    return p.scatter(torch.randn(p.num_vertices, width, generator=torch.Generator().manual_seed(1)))


@pytest.fixture
def longer_is_quicker(monkeypatch):
    """A clock by which a step takes the longer, the shorter its tasks are; gives how often it was asked."""
    asked, used, real = [], [], RowEntries.pieces

    def seconds(p, run, steps=1):
        run()
        asked.append(steps)
        return 1.0 / used[-1]

    monkeypatch.setattr(RowEntries, "pieces", lambda self, longest: used.append(longest) or real(self, longest))
    monkeypatch.setattr(tuner, "seconds", seconds)
    return asked


def test_a_table_of_what_was_tried(longer_is_quicker):
    p = parted()
    found = tune(p, rows_of(p), strategy="halo")
    assert [trial.shape.longest for trial in found.table] == [128, 256, 512, 1024]
    assert found.shape.longest == 1024 and found.seconds == 1 / 1024 and found.default == 1 / 128 and not found.cached
    assert found.spent > 0 and found.partitioned == p.seconds > 0 and tuner.tuned(p) == [found]
    text = found.explain()
    assert "longest 1024" in text and "8.00 times as fast" in text and "4 steps" in text and "pays after" in text
    assert "dividing the graph took" in text and "left out: loops on the CPU" in text
    assert text.count("default") == 2 and text.count("chosen") == 1
    asked = len(longer_is_quicker)
    assert tune(p, rows_of(p), strategy="halo") is found and tune(p, rows_of(p), "mean", strategy="halo") is found
    assert len(longer_is_quicker) == asked  # the same kernel
    assert tune(p, rows_of(p, 9), strategy="halo") is not found and len(longer_is_quicker) > asked
    assert tune(p, rows_of(p), strategy="halo", again=True) is not found


def test_aggregations_use_it(longer_is_quicker, monkeypatch):
    used = []
    real = RowEntries.pieces
    monkeypatch.setattr(RowEntries, "pieces", lambda self, longest: used.append(longest) or real(self, longest))
    p = parted(hub(symmetrize=True), parts=1)
    for _ in range(2):
        x = rows_of(p).requires_grad_()
        used.clear()
        aggregate(p, x).sum().backward()
        before = list(used)
        aggregate(p, rows_of(p), "max")
        aggregate(p, rows_of(p, 9))
        aggregate(p, rows_of(p).double())
        assert used[len(before) :] == [128, 128, 128]
        tune(p, x)
    assert before == [1024, 1024]  # the gradient as well


def test_it_is_kept_on_disk_for_the_graph_its_partition_and_the_machine(longer_is_quicker, tmp_path, monkeypatch):
    graph = even()
    p = parted(graph, parts=2)
    found = tune(p, rows_of(p), strategy="halo")

    def known(p, reduce="sum", x=None):
        return tune(p, rows_of(p) if x is None else x, reduce, strategy="halo").cached

    again = parted(even(), parts=2)
    assert known(again) and tuner.tuned(again)[0].shape == found.shape
    assert [list(e.tuned.values()) for e in again.entries("all", None)] == [[{"longest": 1024}]] * 2
    asked = len(longer_is_quicker)
    for other in (
        parted(graph, parts=3),
        parted(graph, parts=2, balance="dealt"),
        parted(weighted(graph), parts=2),
        parted(hl.reorder(graph, order=torch.arange(63, -1, -1)), parts=2),
    ):
        assert not known(other, "mean")
    assert known(parted(graph, parts=3), "mean") and len(longer_is_quicker) > asked
    assert not known(parted(graph, parts=2), "max")
    assert not known(parted(graph, parts=2), x=rows_of(p, 9))
    monkeypatch.setattr(tuner.cache, "fingerprint", lambda: "another machine")
    assert not known(parted(graph, parts=2))


@pytest.mark.parametrize("damage", ["cut off", "changed", "shape", "version", "rows", "open", "start"])
def test_a_damaged_file_is_ignored(longer_is_quicker, tmp_path, damage):
    found = tune(parted(), rows_of(parted()), strategy="halo")
    (file,) = (tmp_path / "tuned").iterdir()
    text = file.read_text()
    if damage == "cut off":
        file.write_text(text[: len(text) // 2])
    elif damage == "changed":
        file.write_text(text.replace("1024", "1025"))
    elif damage == "open":
        file.chmod(0o666)
    else:
        content = tuner.cache.read(file)
        content |= {
            "shape": {"shape": [7, 1, 1, 1], "table": [*content["table"], [7, 1, 1, 1, 0.5, 0.5, 0]]},
            "version": {"version": 0},
            "rows": {"table": [[1, 2]]},
            "start": {"table": content["table"][1:]},
        }[damage]
        tuner.cache.write(file, content)
    p = parted()
    again = tune(p, rows_of(p), strategy="halo")
    assert not again.cached and again.shape == found.shape
    if damage != "open":
        assert tune(parted(), rows_of(p), strategy="halo").cached


def test_a_folder_that_cannot_be_written_is_told(longer_is_quicker, monkeypatch, tmp_path):
    (tmp_path / "tuned").write_text("no folder")
    monkeypatch.setattr("hinterland.runtime.warned._told", set())
    with pytest.warns(UserWarning, match="cannot be kept in .*; the search begins anew in the next process"):
        assert tune(parted(), rows_of(parted()), strategy="halo").shape.longest == 1024


def test_what_fails_leaves_the_default(monkeypatch):
    p, calls = parted(), []

    def seconds(p, run, steps=1):
        calls.append(1)
        if len(calls) > 3:
            raise RuntimeError("lost")
        return 1.0

    monkeypatch.setattr(tuner, "seconds", seconds)
    with pytest.raises(RuntimeError, match="lost"):
        tune(p, rows_of(p), strategy="halo")
    assert not any(e.tuned for e in p.entries("all", None)) and not tuner.tuned(p)


@pytest.mark.parametrize("reduce", REDUCES)
def test_results_are_those_of_before(reduce, device):
    graph = weighted(hub())
    p = PartitionedGraph.from_graph(graph, 3, devices=device)
    x = torch.randn(graph.num_vertices, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    found = tune(p, p.scatter(x.to(device)), reduce)
    close(p.gather(aggregate(p, p.scatter(x.to(device)), reduce)), expected(graph, x, reduce), torch.float64)
    assert found.seconds <= found.default and len(found.table) <= tuner.STEPS
    assert f"{12} x float64" in found.what and ("weighted" in found.what) == (reduce in ("sum", "gcn"))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("width", [3, 16, 64, 256])
def test_every_shape_gives_the_same(width, dtype, device):
    graph = hub(600)
    indptr, indices = graph.indptr.to(device), graph.indices.to(device)
    x = torch.randn(600, width, generator=torch.Generator().manual_seed(3)).to(device, dtype)
    tiles, low = _tiles(width, dtype, width * dtype.itemsize), []
    wanted = aggregate_rows(RowEntries(indptr[:-1], indptr[1:], indices), PartRows(x), torch.empty_like(x)).double().cpu()
    for shape in (
        product(LONGEST, AT_ONCE, tiles, THREADS) if device.type == "cuda" else product(LONGEST, [1], tiles, THREADS[:1])
    ):
        entries = RowEntries(indptr[:-1], indptr[1:], indices)
        entries.tuned["sum", width, dtype] = LaunchShape(*shape)._asdict()
        for reduce in ("sum", "max"):
            out = aggregate_rows(entries, PartRows(x), torch.empty_like(x), reduce)
            low.append(out) if reduce == "max" else close(out, wanted, dtype)
    assert all(torch.equal(one, low[0]) for one in low)


@pytest.mark.parametrize("columns", [0, 1])
def test_graphs_without_much(columns):
    nothing = torch.empty(0, dtype=torch.int64)
    for graph in (hl.from_edges(nothing, nothing, num_vertices=3), hl.from_edges(nothing + 0, nothing, num_vertices=1)):
        p = parted(graph, parts=2)
        found = tune(p, rows_of(p, columns))
        assert len(found.table) == 1 and found.shape == found.table[0].shape and "1 steps" in found.explain()


def test_wrong_arguments():
    p = parted()
    for wrong in ({"reduce": "least"}, {"strategy": "best"}):
        with pytest.raises(ConfigError):
            tune(p, rows_of(p), **wrong)
    with pytest.raises(ConfigError, match="rows"):
        tune(p, torch.zeros(3, 3))
    with pytest.raises(ConfigError, match="PartitionedGraph"):
        tune(hub(), torch.zeros(200, 3))
    p = parted(gpu_budget="1MiB")
    with pytest.raises(ConfigError, match="rows of a graph with a budget go through the device in blocks"):
        tune(p, rows_of(p))


def test_ranks_choose_alike(tmp_path):
    """Whatever each one's clock says, and where one's file is damaged."""
    run_ranks(2, ROOT / "tests" / "fullgraph" / "tuner_ranks.py", tmp_path)
    first, second = ([json.loads(line) for line in (tmp_path / f"{rank}.json").read_text().splitlines()] for rank in range(2))
    assert first == second
    assert [line["cached"] for line in first] == [False, False, True, False]
    assert [line["longest"] for line in first] == [512] * 4


@pytest.mark.gpu
def test_a_gpu_is_tuned(device="cuda:0"):
    p = PartitionedGraph.from_graph(family("kronecker", 14, seed=1), devices=device)
    x = p.scatter(torch.randn(p.num_vertices, 64))
    wanted = aggregate(p, x)
    found = tune(p, x, again=True)
    assert 1 < len(found.table) <= tuner.STEPS and found.seconds <= found.default
    assert torch.allclose(aggregate(p, x), wanted, rtol=1e-4, atol=1e-3)
    again = PartitionedGraph.from_graph(family("kronecker", 14, seed=1), devices=device)
    assert tune(again, x).cached
