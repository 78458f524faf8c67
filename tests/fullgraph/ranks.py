"""What each of several processes does for test_processes.py; it prints what came of it. The last task ends a rank."""

from __future__ import annotations

import datetime
import functools
import os
import random
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

sys.path.append(str(Path(__file__).parents[2]))
import hinterland as hl
from hinterland.fullgraph import STRATEGIES, PartitionedGraph, aggregate, attend, attention, partitioned, reduce, world
from hinterland.fullgraph.attend import SCORES, Scores
from hinterland.fullgraph.part import build_part, served
from hinterland.runtime.errors import HinterlandError, OutOfMemory, RankLost
from tests.covering import covering
from tests.fullgraph.oracle import attended
from tests.fullgraph.test_aggregate import GRAPHS, REDUCTIONS, close, expected, factor, hub, inputs, weighted
from tests.graphs import skewed

BACKEND, PORT, DEATH = sys.argv[1], int(os.environ["MASTER_PORT"]), sys.argv[2]
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
LAST = RANK == SIZE - 1
DEVICE = torch.device("cuda", RANK) if BACKEND == "nccl" else torch.device("cpu")
HEADS, WIDTH = 2, 6


def say(text: str) -> None:
    print(text, flush=True)


def connect(name: str, seconds: float) -> None:
    store = dist.PrefixStore(name, dist.TCPStore("127.0.0.1", PORT))
    dist.init_process_group(BACKEND, timeout=datetime.timedelta(seconds=seconds), store=store, rank=RANK, world_size=SIZE)


def summed(one: torch.Tensor) -> torch.Tensor:
    """Of all ranks."""
    dist.all_reduce(one)
    return one


def run(p: PartitionedGraph, result, given: list[torch.Tensor]) -> list[torch.Tensor]:
    """The whole result of a rank's parts, and the gradients by the whole inputs."""
    leaves = [one.to(DEVICE, copy=True).requires_grad_() for one in given]
    part = result(leaves)
    whole = p.gather(part)
    (part * p.scatter(factor(whole))).sum().backward()
    return [whole, *(summed(torch.zeros_like(one) if one.grad is None else one.grad) for one in leaves)]


def chosen(*columns: Iterable[Any]) -> list[tuple[Any, ...]]:
    """All combinations, or of few processes of a CPU those in which all values but of one column meet."""
    return covering(columns, len(columns) - (BACKEND == "gloo" and SIZE < 4))


def reductions(
    name: str, p: PartitionedGraph, graph: hl.Graph, ways: list[Sequence[str]], dtype: torch.dtype = torch.float64
) -> None:
    x = inputs(graph, WIDTH, dtype)
    for kind, strategy in ways:
        leaf = x.clone().requires_grad_()
        wanted = expected(graph, leaf, kind)
        (wanted * factor(wanted)).sum().backward()
        found = run(p, functools.partial(reduced, p, kind, strategy), [x.to(dtype)])
        close(found[0], wanted.detach(), dtype)
        if dtype == torch.float64:
            close(found[1], leaf.grad, dtype)
    if dtype == torch.float64:
        close(p.gather(aggregate(p, p.scatter(x.to(DEVICE)))), expected(graph, x, "sum"), dtype)
    say(f"{name}, {dtype}: as the oracle")


def reduced(p: PartitionedGraph, kind: str, strategy: str, own: list[torch.Tensor]) -> torch.Tensor:
    return aggregate(p, p.scatter(own[0]), kind, strategy=strategy)


def attentions(name: str, p: PartitionedGraph, graph: hl.Graph, ways: list[Sequence[str]]) -> None:
    makes = torch.Generator().manual_seed(1)
    for kind, strategy in ways:
        scores = Scores(kind, HEADS, scale=0.5, loops=kind != "dot")
        shapes = {"gat": (WIDTH, HEADS, HEADS), "gatv2": (WIDTH, WIDTH), "dot": (2 * WIDTH, WIDTH)}[kind]
        given = [torch.randn(graph.num_vertices, width, dtype=torch.float64, generator=makes) for width in shapes]
        if kind == "gatv2":
            given.append(torch.randn(WIDTH, dtype=torch.float64, generator=makes))
        leaves = [one.clone().requires_grad_() for one in given]
        wanted = attended(graph, scores, leaves[0], leaves[1], leaves[2] if len(leaves) > 2 else None)
        (wanted * factor(wanted)).sum().backward()
        found = run(p, functools.partial(attending, p, scores, strategy), given)
        for one, right in zip(found, [wanted.detach(), *(leaf.grad for leaf in leaves)], strict=True):
            close(one, right, torch.float64)
    say(f"{name}, attention: as the oracle")


def attending(p: PartitionedGraph, scores: Scores, strategy: str, own: list[torch.Tensor]) -> torch.Tensor:
    parts = [[one if one.dim() == 1 else p.scatter(one)] for one in own]
    return attention.attention(p, scores, strategy, *parts)[0]


def parity() -> None:
    makes = GRAPHS | {"directed": lambda: weighted(skewed(60, 400, directed=True))}
    balances = {
        "kronecker": "auto",
        "hub, weighted": "contiguous",
        "hub": "dealt",
        "directed": "auto",
        "fewer vertices than parts": "contiguous",
        "one vertex": "auto",
        "no edges": "auto",
    }
    reduces = chosen(balances, REDUCTIONS, STRATEGIES)
    attends = chosen([name for name in balances if name != "kronecker"], SCORES, STRATEGIES)
    for name, balance in balances.items():
        graph = makes[name]()
        p = PartitionedGraph.from_graph(graph, balance=balance)
        assert p.world.reads_others and p.sizes[RANK] == p.parts[0].rows
        x = torch.arange(graph.num_vertices * 3, device=DEVICE).view(-1, 3)
        assert torch.equal(p.gather(p.scatter(x)), x)
        reductions(name, p, graph, [way for one, *way in reduces if one == name])
        if name != "kronecker":
            attentions(name, p, graph, [way for one, *way in attends if one == name])
    short = (torch.float32, torch.float16, torch.bfloat16)
    ways = chosen(short, REDUCTIONS, STRATEGIES)
    for dtype in short:
        p = PartitionedGraph.from_graph(hub())
        reductions("hub", p, hub(), [way for one, *way in ways if one == dtype], dtype)


def reads() -> None:
    """Halos that a rank reads itself, by one launch or an owner's rows after another's, are those that are sent."""
    p = PartitionedGraph.from_graph(hub())
    small = world.SMALL
    for dtype in (torch.float64, torch.bfloat16):
        x = [p.scatter(inputs(hub(), 5, dtype).to(DEVICE, dtype))]
        sent = x[0].new_zeros(len(p.parts[0].halo), 5)
        p.world._sent(x, p._halos, sent)()
        for world.SMALL in (small, -1):
            assert torch.equal(p.world.fetch(x, p._halos)[0], sent)
    world.SMALL = small
    say("reads: as sent")


def looks() -> None:
    """A rank looks at its graph by itself, and sees what all parts serve."""
    p = PartitionedGraph.from_graph(hub())
    if LAST:
        assert f"bytes served {p.balance.served:.3f}" in repr(p)
    rows = served([build_part(hub(), p.split, rank).halo_offsets for rank in range(SIZE)])
    assert p.world.gathered([p.balance.served]) == [int(rows.max()) * SIZE / int(rows.sum())] * SIZE
    say("looks: alike")


def kept_rows() -> None:
    """What one rank has changed all gather anew."""
    graph = hub()
    p = PartitionedGraph.from_graph(graph)
    x = inputs(graph, 4, torch.float64).to(DEVICE)
    part = p.scatter(x)
    for turn in range(3):
        close(p.gather(aggregate(p, part, strategy="replicate")), expected(graph, p.gather(part).cpu(), "sum"), torch.float64)
        if LAST and turn:
            part += 1
    say("replicas: none is old")


def races() -> None:
    """Ranks that dawdle before they read, after the barrier: rows that they read are not overwritten yet."""
    graph = hub(400)
    p = PartitionedGraph.from_graph(graph)
    scores = Scores("gat", HEADS)
    given = [
        [p.scatter(inputs(graph, width, torch.float64).to(DEVICE) * turn) for width in (WIDTH, HEADS)] for turn in (1, 2, 3)
    ]

    def attends(x: torch.Tensor, numbers: torch.Tensor, strategy: str) -> torch.Tensor:
        return attention.attention(p, scores, strategy, [x], [numbers], [numbers])[0]

    def sums(x: torch.Tensor, _: torch.Tensor, strategy: str) -> torch.Tensor:
        return aggregate(p, x, strategy=strategy)

    wanted = {way: [way(*one, "halo") for one in given] for way in (attends, sums)}
    dawdles = random.Random(RANK)

    def late(work):
        def later(*arguments, **options):
            if dawdles.random() < 0.3:
                time.sleep(0.004)
            return work(*arguments, **options)

        return later

    before = reduce.aggregate_rows, attention.attend, world.take
    reduce.aggregate_rows, attention.attend = late(reduce.aggregate_rows), late(attend.attend)
    world.take = late(world.take)
    for turn in range(180):
        way, strategy = (attends, sums, attends, attends, sums)[turn % 5], ("direct", "halo")[turn % 2]
        close(way(*given[turn % 3], strategy), wanted[way][turn % 3].double().cpu(), torch.float64)
    reduce.aggregate_rows, attention.attend, world.take = before
    say("races: none")


def refusals() -> None:
    graph, other = skewed(50, 300), skewed(50, 290, seed=2)
    turned = hl.Graph(graph.indptr, graph.indices.flip(0))

    def refused(name: str, call) -> None:
        try:
            call()
        except HinterlandError as error:
            say(f"refused {name}: {type(error).__name__}: {error}")

    plain, both = weighted(graph), skewed(50, 300, symmetrize=True)
    for name, one, mine in (
        ("graph", graph, other),
        ("neighbours", hl.Graph(graph.indptr, graph.indices), turned),
        ("direction", hl.Graph(both.indptr, both.indices), both),
        ("weights", graph, plain),
        ("type", plain, hl.Graph(plain.indptr, plain.indices, plain.weights.double())),
        ("values", plain, hl.Graph(plain.indptr, plain.indices, plain.weights + 1)),
    ):
        refused(name, functools.partial(PartitionedGraph.from_graph, mine if LAST else one))
    refused("balance", lambda: PartitionedGraph.from_graph(graph, balance="dealt" if LAST else "contiguous"))
    refused("balance of one", lambda: PartitionedGraph.from_graph(graph, balance="none"))

    def full(*_):
        raise OutOfMemory("no room for the part")

    build = partitioned.build_part
    if LAST:
        partitioned.build_part = full
    refused("part", lambda: PartitionedGraph.from_graph(graph))
    partitioned.build_part = build
    refused("device", lambda: PartitionedGraph.from_graph(graph, devices="cuda:99" if LAST else None))
    p = PartitionedGraph.from_graph(graph)
    refused("dtype", lambda: p.scatter(torch.zeros(50, 2, dtype=torch.float16 if LAST else torch.float32)))
    refused("width", lambda: p.scatter(torch.zeros(50, 3 if LAST else 2)))
    refused("rows", lambda: p.scatter(torch.zeros(49 if LAST else 50, 2)))
    refused("all rows", lambda: p.scatter(torch.zeros(49, 2)))
    reductions("after refusals", p, graph, chosen(REDUCTIONS, STRATEGIES))


def other_groups() -> None:
    """Groups of the user's: some ranks make theirs before a graph is divided, others theirs after it."""
    graph, made, pair = skewed(50, 300), [], [RANK // 2 * 2, RANK // 2 * 2 + 1]
    for turn in range(2):
        if turn == RANK // 2 % 2 and pair[1] < SIZE:
            made.append(dist.new_group(pair, use_local_synchronization=True))
        if turn == 0:
            p = PartitionedGraph.from_graph(graph)
        reductions("beside groups", p, graph, chosen(REDUCTIONS, STRATEGIES))
    made.append(dist.new_group())
    reductions("beside groups", p, graph, chosen(REDUCTIONS, STRATEGIES))
    for group in made:
        total = torch.ones(1, device=DEVICE)
        dist.all_reduce(total, group=group)
        assert total == group.size()


def dies() -> None:
    """The last rank, in the middle of an aggregation, its gradient, or it does nothing for long."""
    graph = hub()
    p = PartitionedGraph.from_graph(graph)
    x = p.scatter(inputs(graph, WIDTH, torch.float64)).requires_grad_()
    strategy = "direct" if DEATH == "direct" else "halo"
    p.world.reads_others = DEATH == "direct"  # halos are sent, as they are between machines

    def once() -> None:
        aggregate(p, x, strategy=strategy).sum().backward()

    once()
    name = "all_reduce" if DEATH == "direct" else "all_to_all_single"
    work, calls = getattr(dist, name), []

    def dying(*arguments, **options):
        calls.append(1)
        if len(calls) == (6 if DEATH == "gradient" else 5):  # two in each turn, of which the second is the gradient's
            if DEATH == "stuck":
                time.sleep(12)
            os._exit(7)
        return work(*arguments, **options)

    if LAST:
        setattr(dist, name, dying)
    begin = time.monotonic()
    try:
        while True:
            once()
            begin = time.monotonic()
    except RankLost as error:
        say(f"lost: {time.monotonic() - begin:.1f} s: {error}")


torch.set_num_threads(1)
if BACKEND == "nccl":
    torch.cuda.set_device(DEVICE)
connect("work", 120)
parity()
reads()
looks()
kept_rows()
races()
refusals()
other_groups()
dist.barrier()
dist.destroy_process_group()
if DEATH != "none":
    connect("death", 10 if DEATH == "stuck" else 20)
    dies()
