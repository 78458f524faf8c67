"""What strategies cost, against what they move, and which is chosen."""

from __future__ import annotations

import weakref

import pytest
import torch

from hinterland.fullgraph import STRATEGIES, PartitionedGraph, aggregate, plan
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
    for name in ("fetch", "whole"):
        real = getattr(parted.world, name)

        def noted(x, *more, name=name, real=real):
            found = real(x, *more)
            own = [of.nbytes if name == "whole" else 0 for of in x]
            fetched.setdefault(name, [one.nbytes - here for one, here in zip(found, own, strict=True)])
            return found

        monkeypatch.setattr(parted.world, name, noted)
    x = rows(parted)
    costs = {cost.strategy: cost for cost in plan.costs(parted, WIDTH, torch.float32)}
    assert costs.keys() == STRATEGIES.keys() - {"halo-columns"}  # which is halo itself where rows are narrow
    wide = {cost.strategy: cost for cost in plan.costs(parted, 3 * COLUMNS // 4, torch.float32)}
    assert wide.keys() == STRATEGIES.keys()
    assert wide["halo-columns"].moved == wide["halo"].moved and wide["halo-columns"].peak < wide["halo"].peak
    for strategy, name in (("halo", "fetch"), ("halo-pipelined", "fetch"), ("all-gather", "whole"), ("replicate", "whole")):
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
