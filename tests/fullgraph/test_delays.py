"""Virtual ranks that dawdle: each part's stream sleeps before and after what is queued on it, so that a missing fence shows.

Sums of one part are then long behind or ahead of those of another. What one reads of another must not depend on it, to the bit.
Processes that dawdle are in ranks.py; on a CPU, parts of one process come one after another anyway.
"""

from __future__ import annotations

import random
from contextlib import contextmanager

import pytest
import torch

from hinterland.fullgraph import STRATEGIES, PartitionedGraph, aggregate, attention, world
from hinterland.fullgraph.attend import Scores
from hinterland.fullgraph.strategies import COLUMNS
from hinterland.fullgraph.world import Together

from .test_aggregate import factor, hub

pytestmark = pytest.mark.gpu

PARTS, TURNS = 4, 6
WIDTH = 3 * COLUMNS // 4  # of float32: three ranges of columns
SHORT, LONG = 300_000, 30_000_000  # cycles: some tenths of a millisecond, and so long that all others have ended by far


@pytest.fixture
def dawdle(monkeypatch):
    """A function that has streams sleep from then on: so many cycles as ``before(part)`` and ``after(part)`` say around what is
    queued on a part's stream, and ``before`` what is queued on its second one, which brings halos."""

    def begin(before, after=lambda part: 0):
        on, side = Together.on, Together._side

        @contextmanager
        def late(world, part):
            with on(world, part):
                torch.cuda._sleep(before(part))
                yield
                torch.cuda._sleep(after(part))

        def late_aside(world, part):
            stream = side(world, part)
            with torch.cuda.stream(stream):
                torch.cuda._sleep(before(part))
            return stream

        monkeypatch.setattr(Together, "on", late)
        monkeypatch.setattr(Together, "_side", late_aside)

    return begin


def summed(reduce):
    def run(p, x, strategy):
        return aggregate(p, x, reduce, strategy=strategy)

    return run


def attended(p, x, strategy):
    """GAT with two heads, whose numbers are columns of the rows."""
    numbers = [one[:, :2].contiguous() for one in x]
    return attention.attention(p, Scores("gat", 2), strategy, list(x), numbers, numbers)


OPERATIONS = {"sum": summed("sum"), "max": summed("max"), "gat": attended}


@pytest.fixture(scope="module")
def parted():
    """With lists that parts share."""
    p = PartitionedGraph.from_graph(hub(3000), PARTS, devices="cuda:0")
    assert len(p.split.hubs)
    return p


def inputs(p):
    """Other rows for each turn, so that what was left in memory from the one before is wrong."""
    made = torch.Generator("cuda").manual_seed(1)
    return [torch.randn(p.num_vertices, WIDTH, device="cuda", generator=made) for _ in range(TURNS)]


def results(p, operation, x, strategy):
    """What comes out for each part, and the gradients by their rows."""
    rows = [one.clone().requires_grad_() for one in p.scatter(x)]
    out = operation(p, rows, strategy)
    torch.stack([(one * factor(one)).sum() for one in out]).sum().backward()
    return [*(one.detach() for one in out), *(one.grad for one in rows)]


def same(found, wanted):
    return all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_parts_that_dawdle_change_nothing(parted, dawdle, name, strategy):
    given = inputs(parted)
    wanted = [results(parted, OPERATIONS[name], x, strategy) for x in given]  # what is made once is there from then on
    assert not same(wanted[0], wanted[1])
    draws = random.Random(1)
    dawdle(*[lambda _: draws.choice((0, 0, SHORT, 10 * SHORT))] * 2)
    for x, right in zip(given, wanted, strict=True):
        assert same(results(parted, OPERATIONS[name], x, strategy), right)


def shows(parted, dawdle, monkeypatch, strategy, breaks):
    """Whether results differ in one of the turns, once something is broken and one part after another is very late."""
    given, late = inputs(parted), [0]
    wanted = [results(parted, OPERATIONS["sum"], x, strategy) for x in given]
    dawdle(lambda part: LONG if part == late[0] else 0)
    breaks(monkeypatch)
    found = []
    for turn, (x, right) in enumerate(zip(given, wanted, strict=True)):
        late[0] = turn % PARTS
        found.append(same(results(parted, OPERATIONS["sum"], x, strategy), right))
    torch.cuda.synchronize()
    return not all(found)


@pytest.mark.parametrize("strategy", ["halo", "direct"])
def test_a_missing_fence_shows(parted, dawdle, monkeypatch, strategy):
    """Sums over hubs' neighbours are made on each part's stream and read by their owner."""
    assert not shows(parted, dawdle, monkeypatch, strategy, lambda _: None)
    monkeypatch.undo()
    assert shows(parted, dawdle, monkeypatch, strategy, lambda patched: patched.setattr(Together, "fence", lambda world: None))


@pytest.mark.parametrize("strategy", ["halo-pipelined", "halo-columns"])
def test_halos_that_are_not_waited_for_show(parted, dawdle, monkeypatch, strategy):
    """What is waited for in their place has long been."""

    def hasty(patched):
        record, idle = torch.cuda.Stream.record_event, torch.cuda.Stream()
        aside = parted.world._sides.values()

        def recorded(stream, event=None):
            return record(idle if stream in aside else stream, event)

        patched.setattr(torch.cuda.Stream, "record_event", recorded)

    assert not shows(parted, dawdle, monkeypatch, strategy, lambda _: None)
    monkeypatch.undo()
    assert shows(parted, dawdle, monkeypatch, strategy, hasty)


@pytest.mark.parametrize("small", [world.SMALL, -1])
def test_rows_stay_until_others_have_read_them(parted, dawdle, monkeypatch, small):
    """Whether they are fetched by one launch or in turns."""
    monkeypatch.setattr(world, "SMALL", small)
    x, late = parted.scatter(inputs(parted)[0]), [0]
    whole = torch.cat(x)
    wanted = [whole[part.halo] for part in parted.parts]
    dawdle(lambda part: LONG if part == late[0] else 0)
    for late[0] in range(PARTS):
        made, given = [], [one.clone() for one in x]
        with parted.world.turn(made):
            made += parted.fetch(given)
            for i, one in enumerate(given):
                with torch.cuda.stream(parted.world._stream(i)):
                    one.zero_()
        assert same(made, wanted)


def test_a_stage_that_fails_leaves_no_copies_behind(parted, dawdle):
    """Halos that nobody waits for any more are on their way when their memory is given to something else."""
    world, x = parted.world, parted.scatter(inputs(parted)[0])
    dawdle(lambda part: LONG)
    made = []
    with world.turn(made):
        coming = parted.fetch_in_turns(x)
        sizes = [(halo.shape, halo.data_ptr()) for halo in next(coming)]
        coming.close()
        del coming
        for i, (shape, _) in enumerate(sizes):
            with torch.cuda.stream(world._stream(i)):
                made.append(torch.zeros(shape, device="cuda"))
    torch.cuda.synchronize()
    assert any(one.data_ptr() == address for one, (_, address) in zip(made, sizes, strict=True))
    assert all(not one.any() for one in made)
