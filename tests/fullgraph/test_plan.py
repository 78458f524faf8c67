"""What strategies cost, against what they move, and which is chosen."""

from __future__ import annotations

import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from hinterland.fullgraph import STRATEGIES, PartitionedGraph, aggregate, plan
from hinterland.fullgraph.aggregate_launch import RowEntries, compute_type
from hinterland.fullgraph.reduce import Operation, summed
from hinterland.fullgraph.strategies import COLUMNS
from hinterland.runtime.errors import OutOfMemory

from ..graphs import family
from .test_aggregate import hub

WIDTH = 8


@pytest.fixture(params=["kronecker", "hub"])
def parted(request):
    return PartitionedGraph.from_graph(hub() if request.param == "hub" else family("kronecker", 9, seed=1), 4, devices="cpu")


def rows(p):
    return p.each(p.scatter(torch.randn(p.num_vertices, WIDTH)))


def test_loads_count_entries_and_halos(parted):
    loads = plan.loads(parted)
    assert sum(load.local + load.remote for load in loads) == parted.num_edges
    assert sum(load.rows for load in loads) == parted.num_vertices
    for part, load in zip(parted.parts, loads, strict=True):
        assert load.halo == len(part.halo) and load.remote == int((part.places >= part.rows).sum())


def test_costs_are_what_crosses(parted, monkeypatch):
    """Bytes of the part that gets most: of halos and of all rows as they are fetched, of direct reads by their entries."""
    fetched = {}
    whole, turns, fetch = parted.world.whole, parted.world.fetch_in_turns, parted.world.fetch

    def all_rows(x, sizes):
        found = whole(x, sizes)
        fetched.setdefault("whole", [one.nbytes - own.nbytes for one, own in zip(found, x, strict=True)])
        return found

    def halos(x, *more):
        for found in turns(x, *more):
            fetched["halo"] = [one.nbytes for one in found]
            yield found

    def at_once(x, *more):
        found = fetch(x, *more)
        fetched["halo"] = [one.nbytes for one in found]
        return found

    monkeypatch.setattr(parted.world, "whole", all_rows)
    monkeypatch.setattr(parted.world, "fetch_in_turns", halos)
    monkeypatch.setattr(parted.world, "fetch", at_once)
    x = rows(parted)
    costs = {cost.strategy: cost for cost in plan.costs(parted, WIDTH, torch.float32)}
    assert costs.keys() == STRATEGIES.keys() - {"halo-columns"}  # which is halo itself where rows are narrow
    wide = {cost.strategy: cost for cost in plan.costs(parted, 3 * COLUMNS // 4, torch.float32)}
    assert wide.keys() == STRATEGIES.keys()
    assert wide["halo-columns"].moved == wide["halo"].moved and wide["halo-columns"].peak < wide["halo"].peak
    for strategy, name in (("halo", "halo"), ("halo-pipelined", "halo"), ("all-gather", "whole"), ("replicate", "whole")):
        fetched.clear()
        summed(parted, Operation(), x, strategy)
        assert costs[strategy].moved == max(fetched[name])  # hubs' partial sums, which come later, are not counted
    assert costs["direct"].moved == max(load.remote for load in plan.loads(parted)) * WIDTH * 4
    result = max(load.rows for load in plan.loads(parted)) * WIDTH * 4
    assert costs["direct"].peak == result < costs["halo"].peak <= result + costs["halo"].moved


def test_columns_hold_two_ranges_of_the_halo(parted, monkeypatch):
    """One that is summed and one that comes, as the costs have it."""
    alive, most, real = [], [], parted.fetch_ahead

    def noted(x):
        arrived = real(x)

        def got():
            halos = arrived()
            alive.extend(map(weakref.ref, halos))
            most.append(sum(of().nbytes for of in alive if of() is not None))
            return halos

        return got

    monkeypatch.setattr(parted, "fetch_ahead", noted)
    width = 5 * COLUMNS // 4
    x = parted.each(parted.scatter(torch.randn(parted.num_vertices, width)))
    summed(parted, Operation(), x, "halo-columns")
    assert len(most) == 5 and max(most) <= 2 * COLUMNS * sum(load.halo for load in plan.loads(parted))


class Held(TorchDispatchMode):
    """Counts the bytes of tensors that operators make and that are alive together, on any device."""

    def __init__(self):
        super().__init__()
        self.now = self.peak = 0
        self._known = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        for one in self._storages((args, kwargs)):
            self._known.setdefault(one._cdata, None)  # was there before
        made = func(*args, **(kwargs or {}))
        for one in self._storages(made):
            if one._cdata not in self._known:
                self.now += one.nbytes()
                self._known[one._cdata] = weakref.finalize(one, self._freed, one._cdata, one.nbytes())
        self.peak = max(self.peak, self.now)
        return made

    def _storages(self, tree):
        return [one.untyped_storage() for one in tree_leaves(tree) if isinstance(one, torch.Tensor)]

    def _freed(self, known, nbytes):
        self.now -= nbytes
        del self._known[known]


def held_by(run, device):
    """Bytes that a call of ``run`` holds at once, as they were asked for, and as torch's allocator gave them out."""
    if device.type == "cpu":
        with Held() as held:
            out = run()
        assert held.now >= sum(one.nbytes for one in out)
        return held.peak, held.peak
    torch.cuda.synchronize()
    torch.cuda.empty_cache()  # what several streams have read counts until torch looks whether they are done
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()
    assert run()
    after = torch.cuda.memory_stats()
    return tuple(after[f"{kind}_bytes.all.peak"] - before[f"{kind}_bytes.all.current"] for kind in ("requested", "allocated"))


def pieces(p):
    """The most pieces that lists of a part are cut into."""
    entries = [one for kept in p.all_kept() if isinstance(kept, list) for one in kept if isinstance(one, RowEntries)]
    cuts = [one.pieces(longest) for one in entries for longest in one.cuts]
    return max((len(cut.rows) for cut in cuts if cut is not None), default=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("width", [16, 64, 256])
@pytest.mark.parametrize("kind", ["uniform", "hub"])
def test_peaks_are_what_parts_hold(kind, width, dtype, device):
    """All parts on one device: what was asked for where lists are short, and else the sums of pieces and of hubs besides. Torch
    gives out up to 1 MiB more for each array, of which a part has six at most."""
    scale, parts = (17 if device.type == "cuda" else 11), 4
    graph = hub(1 << scale) if kind == "hub" else family("uniform", scale, seed=1)
    p = PartitionedGraph.from_graph(graph, parts, devices=device)
    x = p.each(p.scatter(torch.randn(p.num_vertices, width).to(device, dtype)))
    row = width * compute_type(dtype).itemsize
    for cost in plan.costs(p, width, dtype):
        summed(p, Operation(), x, cost.strategy)  # what is kept with the graph is made
        p._replicas = None
        asked, given = held_by(lambda strategy=cost.strategy: summed(p, Operation(), x, strategy), device)
        extra = (pieces(p) + (parts + 4) * parts * len(p.split.hubs)) * row + 4096
        assert asked <= parts * cost.peak + extra, cost.strategy
        assert given <= parts * (cost.peak + (6 << 20)) + extra, cost.strategy
        if kind == "uniform":  # of bfloat16 sums of one part at a time are there in both types
            assert parts * cost.peak <= (1.2 if dtype == torch.bfloat16 else 1.01) * asked, cost.strategy


def test_a_choice_is_measured_once_and_explained(parted):
    x = parted.scatter(torch.randn(parted.num_vertices, WIDTH))
    aggregate(parted, x)
    (choice,) = plan.choices(parted)
    measured = {cost.strategy: cost.measured for cost in choice.costs if cost.measured is not None}
    assert choice.strategy == min(measured, key=measured.get)
    text = choice.explain()
    assert all(cost.strategy in text for cost in choice.costs) and "replicate" not in text
    aggregate(parted, x)
    aggregate(parted, x, "max")
    assert plan.choices(parted)[0] is choice and len(plan.choices(parted)) == 2


def test_what_does_not_fit_is_not_tried(parted, monkeypatch):
    least = min(cost.peak for cost in plan.costs(parted, WIDTH, torch.float32))
    monkeypatch.setattr(plan, "room_of", lambda device: least)
    aggregate(parted, parted.scatter(torch.randn(parted.num_vertices, WIDTH)))
    (choice,) = plan.choices(parted)
    assert [cost.strategy for cost in choice.costs if cost.measured is not None] == ["direct"] == [choice.strategy]
    monkeypatch.setattr(plan, "room_of", lambda device: least - 1)
    with pytest.raises(OutOfMemory, match="by strategy 'direct', which takes least, and .* are free; use more parts"):
        aggregate(parted, parted.scatter(torch.randn(parted.num_vertices, WIDTH)), "max")
