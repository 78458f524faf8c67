"""Sums, means and maxima over partitioned graphs: torch in float64 as the oracle."""

from __future__ import annotations

import math

import pytest
import torch

import hinterland as hl
from hinterland.fullgraph import STRATEGIES, PartitionedGraph, aggregate, world
from hinterland.fullgraph.aggregate_launch import dense
from hinterland.fullgraph.strategies import COLUMNS
from tests.covering import on_devices
from tests.graphs import family, skewed

REDUCTIONS = ("sum", "mean", "max", "gcn")
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 4e-2}


def hub(vertices=200, **options):
    """One vertex with half of all edges, both ways round; some vertices have none."""
    generator = torch.Generator().manual_seed(3)
    others = torch.randint(1, vertices - 20, (2, 4 * vertices), generator=generator)
    spokes = torch.randint(0, vertices - 20, (2 * vertices,), generator=generator)
    ends = torch.cat([others[0], torch.zeros_like(spokes), spokes]), torch.cat([others[1], spokes, torch.zeros_like(spokes)])
    return hl.from_edges(*ends, num_vertices=vertices, **options)


def weighted(graph):
    weights = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(5)) + 0.1
    return hl.Graph(graph.indptr, graph.indices, weights)


GRAPHS = {
    "kronecker": lambda: family("kronecker", 8, seed=1),
    "web": lambda: family("web", 9, seed=2),
    "hub": hub,
    "hub, weighted": lambda: weighted(hub()),
    "skewed": lambda: skewed(500, 4000),
    "weighted": lambda: weighted(skewed(100, 700)),
    "fewer vertices than parts": lambda: hl.from_edges(torch.tensor([0, 1, 2, 2]), torch.tensor([1, 2, 0, 2]), num_vertices=3),
    "one vertex": lambda: hl.from_edges(torch.tensor([0]), torch.tensor([0]), num_vertices=1),
    "no edges": lambda: hl.from_edges(torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64), num_vertices=5),
}


def edges(graph):
    """Each edge's row, column and weight in float64."""
    row = torch.repeat_interleave(graph.indptr.cpu().diff())
    weight = torch.ones(graph.num_edges) if graph.weight_type is None else graph.weights.cpu()
    return row, graph.indices.cpu().long(), weight.double()


def expected(graph, x, reduce):
    """The oracle: dense or by scatter, differentiable."""
    row, col, weight = edges(graph)
    n = graph.num_vertices
    if reduce == "max":
        index = row[:, None].expand(-1, x.shape[1])
        low = x.new_full((n, x.shape[1]), -math.inf).scatter_reduce(0, index, x[col], "amax")
        return torch.where(graph.indptr.cpu().diff()[:, None] == 0, 0.0, low)
    if reduce == "mean":
        return x.new_zeros(n, x.shape[1]).index_add(0, row, x[col]) / graph.indptr.cpu().diff().clamp(min=1)[:, None]
    matrix = torch.zeros(n, n, dtype=torch.float64).index_put((row, col), weight, accumulate=True)
    if reduce == "gcn":
        loops = torch.zeros(n).index_add(0, row[row == col], torch.ones(int((row == col).sum())))
        matrix = matrix + torch.diag((loops == 0).double())
        scale = matrix.sum(1).clamp(min=0).rsqrt().nan_to_num(posinf=0)
        matrix = scale[:, None] * matrix * scale
    return matrix @ x


def run(p, x, reduce, strategy="halo"):
    """The whole result, and the gradient by the whole ``x`` of its sum with some weights."""
    x = x.clone().requires_grad_()
    parts = aggregate(p, p.scatter(x), reduce, strategy=strategy)
    factors = p.each(p.scatter(factor(x)), anywhere=True)
    torch.stack(
        [(part * by).sum().cpu() for part, by in zip(p.each(parts, anywhere=True), factors, strict=True)]
    ).sum().backward()
    return p.gather(parts), x.grad


def factor(x):
    """What a result is multiplied by to make one number of it."""
    return torch.linspace(-1, 1, x.numel(), dtype=torch.float64).view_as(x).to(x)


def close(found, wanted, dtype):
    scale = wanted.abs().max().clamp(min=1) if wanted.numel() else 1
    assert found.dtype == dtype
    assert ((found.double().cpu() - wanted).abs() <= TOLERANCE[dtype] * scale).all()


def inputs(graph, width, dtype, device="cpu"):
    x = torch.randn(graph.num_vertices, width, dtype=torch.float64, generator=torch.Generator().manual_seed(width))
    return (x * 4).round() / 4 if dtype in (torch.float16, torch.bfloat16) else x


TABLE = on_devices(GRAPHS, REDUCTIONS, [1, 3, 8], STRATEGIES, together=3)


@pytest.mark.parametrize(("graph", "reduce", "parts", "strategy", "device"), TABLE, indirect=["device"])
def test_all_strategies_agree_with_the_oracle(graph, reduce, parts, strategy, device):
    graph = GRAPHS[graph]()
    x = inputs(graph, 5, torch.float64)
    wanted = x.clone().requires_grad_()
    result = expected(graph, wanted, reduce)
    (result * factor(x)).sum().backward()
    p = PartitionedGraph.from_graph(graph, parts, devices=device)
    found, grad = run(p, x.to(device), reduce, strategy)
    close(found, result.detach(), torch.float64)
    close(grad, wanted.grad, torch.float64)


@pytest.mark.parametrize("parts", [1, 2, 5])
@pytest.mark.parametrize("graph", GRAPHS)
def test_halos_by_one_launch_are_those_in_turns(graph, parts, device, monkeypatch):
    """Beside the rows that are wanted."""
    graph = GRAPHS[graph]()
    x = torch.arange(graph.num_vertices * 3.0, device=device).view(-1, 3)
    p = PartitionedGraph.from_graph(graph, parts, devices=device)
    rows = p.each(p.scatter(x))
    for small in (world.SMALL, -1):
        monkeypatch.setattr(world, "SMALL", small)
        made = []
        with p.world.turn(made):
            made += p.fetch(rows)
        whole = torch.cat(rows)
        assert all(torch.equal(halo, whole[part.halo]) for halo, part in zip(made, p.parts, strict=True))


@pytest.mark.parametrize("width", [1, 16, 47, 1029])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_widths(reduce, dtype, width, device):
    """A CPU has sums of 1 and 16 elements in registers, goes through the entries of wider rows by 1,024, and what is left."""
    graph = GRAPHS["hub, weighted"]()
    x = inputs(graph, width, dtype)
    wanted = x.clone().requires_grad_()
    result = expected(graph, wanted, reduce)
    (result * factor(x)).sum().backward()
    p = PartitionedGraph.from_graph(graph, 2, devices=device)
    for strategy in ("halo", "direct"):
        found, grad = run(p, x.to(device, dtype), reduce, strategy)
        close(found, result.detach(), dtype)
        if reduce != "max":  # rounded rows tie
            close(grad, wanted.grad, dtype)


@pytest.mark.parametrize("reduce", ["gcn", "max"])
@pytest.mark.parametrize("by", ["bfs", "rcm"])
def test_a_reordered_graph_has_small_halos(by, reduce, device):
    """Its parts are ranges of its own numbers, which are those of neighbours; rows are by the user's all the same."""
    graph = hl.generate("grid", scale=10, directed=True, weights="float32", device="cpu")  # its numbers are permuted
    x = inputs(graph, 5, torch.float64)
    wanted = x.clone().requires_grad_()
    result = expected(graph, wanted, reduce)
    (result * factor(x)).sum().backward()
    options = {"parts": 4, "devices": device, "balance": "contiguous"}
    plain, near = (PartitionedGraph.from_graph(one, **options) for one in (graph, hl.reorder(graph, by)))
    assert 8 * sum(len(part.halo) for part in near.parts) < sum(len(part.halo) for part in plain.parts)
    found, grad = run(near, x.to(device), reduce)
    close(found, result.detach(), torch.float64)
    close(grad, wanted.grad, torch.float64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_columns_one_range_after_another(reduce, dtype, device):
    """Of three ranges the last is narrower; a maximum's gradient goes by whole rows."""
    graph, width = GRAPHS["hub, weighted"](), 16 + 2 * COLUMNS // dtype.itemsize
    x = inputs(graph, width, dtype)
    wanted = x.clone().requires_grad_()
    result = expected(graph, wanted, reduce)
    (result * factor(x)).sum().backward()
    p = PartitionedGraph.from_graph(graph, 3, devices=device)
    found, grad = run(p, x.to(device, dtype), reduce, "halo-columns")
    close(found, result.detach(), dtype)
    if dtype == torch.float32 and reduce != "max":
        torch.testing.assert_close(grad.cpu().double(), wanted.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("padding", [0, 3])
@pytest.mark.parametrize("width", [5, COLUMNS // 4])  # two ranges of columns
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_row_beside_several(strategy, width, padding, device):
    """torch calls a single row contiguous whatever its stride, which others' rows do not have; nor have columns of them."""
    graph = hl.from_edges(torch.tensor([0, 1, 2, 2, 1]), torch.tensor([1, 2, 0, 1, 0]), num_vertices=3)
    x = inputs(graph, width, torch.float64)
    p = PartitionedGraph.from_graph(graph, devices=[device, device], balance="contiguous")
    assert p.sizes == [2, 1]
    parts = [torch.nn.functional.pad(part, (0, padding))[:, :width] for part in p.scatter(x.to(device))]
    close(p.gather(aggregate(p, parts, strategy=strategy)), expected(graph, x, "sum"), torch.float64)


def test_tables_of_addresses_go_that_were_not_asked_for_lately(device):
    """A stream that is behind may read any of the last ones."""
    p = PartitionedGraph.from_graph(hub(), 2, devices=device)
    x = [p.scatter(torch.randn(p.num_vertices, 4, device=device)) for _ in range(300)]
    first = p.world._tables(x[0])
    for one in x:
        p.world._tables(one)
        assert p.world._tables(x[0]) is first
    assert len(p.world._addresses) == 256
    halo = p.gather(aggregate(p, x[1], strategy="halo"))
    close(p.gather(aggregate(p, x[1], strategy="direct")), halo.double().cpu(), torch.float32)


def test_rows_between_vectors(device):
    """Of an address that no vector begins at, which is that of a view."""
    graph = hub()
    p = PartitionedGraph.from_graph(graph, devices=device)
    aligned = torch.randn(graph.num_vertices, 8, device=device)
    between = torch.cat([aligned.new_zeros(1), aligned.flatten()])[1:].view_as(aligned)
    assert between.data_ptr() % 16 and all(one.data_ptr() % 16 == 0 for one in dense([aligned, between]))
    for reduce in ("sum", "max"):
        found = []
        for x in (between, aligned):
            x = x.detach().requires_grad_()
            out = aggregate(p, x, reduce)
            found.append((out, *torch.autograd.grad((out * factor(x)).sum(), x)))
        assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def gpus():
    return [torch.device("cuda", i) for i in range(torch.cuda.device_count())]


@pytest.mark.gpu
@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("on_each", [1, 2])
def test_parts_on_all_gpus(on_each, strategy, reduce):
    """Of one process: as many on each of one GPU, of two, and so on."""
    graph = weighted(hub())
    x = inputs(graph, 5, torch.float64)
    wanted = x.clone().requires_grad_()
    result = expected(graph, wanted, reduce)
    (result * factor(x)).sum().backward()
    for count in range(1, len(gpus()) + 1):
        p = PartitionedGraph.from_graph(graph, devices=gpus()[:count] * on_each)
        found, grad = run(p, x.to("cuda:0"), reduce, strategy)
        close(found, result.detach(), torch.float64)
        close(grad, wanted.grad, torch.float64)


@pytest.mark.gpu
@pytest.mark.parametrize("strategy", ["halo", "halo-pipelined", "halo-columns", "all-gather"])
def test_gpus_that_cannot_read_each_other(strategy):
    """Owners pack what is wanted of them. Three parts on each GPU, several times: what is read has been made just before."""
    graph = weighted(hub())
    x = inputs(graph, 100, torch.float64)
    p = PartitionedGraph.from_graph(graph, devices=gpus() * 3)
    p.world.reads_others = p.world.linked = False
    wanted, rows = x, p.scatter(x.to("cuda:0"))
    for _ in range(3):
        wanted = expected(graph, wanted, "mean")
        rows = aggregate(p, rows, "mean", strategy=strategy)
    close(p.gather(rows), wanted, torch.float64)


@pytest.mark.gpu
@pytest.mark.parametrize("width", [1, 16, 100, 256])
@pytest.mark.parametrize("strategy", ["auto", *STRATEGIES])
def test_larger_parts_on_all_gpus(strategy, width):
    """Beside torch.sparse in float64, several times: each part is then read while others write."""
    graph = family("kronecker", 14, seed=1)
    n = graph.num_vertices
    row, col, ones = edges(graph)
    matrix = torch.sparse_coo_tensor(torch.stack([row, col]), ones, (n, n), check_invariants=False)
    x = inputs(graph, width, torch.float64)
    wanted = x
    for _ in range(3):
        wanted = (matrix @ wanted) / 64
    for count in range(1, len(gpus()) + 1):
        p = PartitionedGraph.from_graph(graph, devices=gpus()[:count])
        rows = p.scatter(x.float())
        for _ in range(3):
            rows = p.as_given([one / 64 for one in p.each(aggregate(p, rows, strategy=strategy))])
        close(p.gather(rows), wanted, torch.float32)
