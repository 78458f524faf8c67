"""Rows that go through host memory: the oracles of sums and layers, what plans predict, and what is refused."""

from __future__ import annotations

import gc
import weakref
from functools import partial

import pytest
import torch
import torch.nn.functional as F

import hinterland as hl
from hinterland import nn
from hinterland.fullgraph import HostRows, PartitionedGraph, aggregate, host_plan
from hinterland.fullgraph.host_nodes import Reduced, stored
from hinterland.fullgraph.host_passes import Same
from hinterland.fullgraph.host_program import plans
from hinterland.nn import each
from hinterland.runtime.errors import ConfigError, OutOfMemory
from hinterland.training.full_models import FULL_MODELS, make_full_model
from tests.covering import covering, on_devices
from tests.fullgraph.test_aggregate import GRAPHS, REDUCTIONS, close, expected, factor, gpus, hub, inputs, run
from tests.graphs import family

KINDS = (torch.float64, torch.float32, torch.bfloat16)
SMALL = "1536KiB"  # some blocks of 64 rows of these graphs
# Of a GPU, too, few rows in which all values meet.
FEW = covering([GRAPHS, REDUCTIONS, [1, 3, 8], [None, SMALL], KINDS], 2)
TABLE = [*((*row, "cpu") for row in FEW), *(pytest.param(*row, "cuda:0", marks=pytest.mark.gpu) for row in FEW)]


@pytest.mark.parametrize(("graph", "reduce", "parts", "budget", "dtype", "device"), TABLE, indirect=["device"], ids=str)
def test_sums_of_rows_in_host_memory(graph, reduce, parts, budget, dtype, device):
    graph = GRAPHS[graph]()
    x = inputs(graph, 5, dtype)
    wanted = x.clone().requires_grad_()
    result = expected(graph, wanted, reduce)
    (result * factor(x)).sum().backward()
    p = PartitionedGraph.from_graph(graph, parts, devices=device, gpu_budget=budget)
    found, grad = run(p, x.to(device, dtype), reduce, "host")
    close(found, result.detach(), dtype)
    if dtype == torch.float64:
        close(grad, wanted.grad, dtype)


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch):
    """Small graphs go in many blocks, as if the host queued their work in no time."""
    monkeypatch.setattr(host_plan, "_QUEUED", 0.0)


def step(model, p, x):
    model.zero_grad()
    out = p.each(model(p.scatter(x), p))
    by = p.scatter(factor(torch.empty(p.num_vertices, out[0].shape[1], dtype=out[0].dtype)))
    by = by if isinstance(by, list) else [by]
    torch.stack([(one * f.to(one.device)).sum().cpu() for one, f in zip(out, by, strict=True)]).sum().backward()
    return [p.gather(p.as_given(out)).cpu(), *(one.grad.clone() for one in model.parameters())]


@pytest.mark.parametrize(
    ("kind", "parts", "budget", "device"), on_devices(FULL_MODELS, [1, 3], [SMALL, "4MiB"], together=2), indirect=["device"]
)
def test_models_are_those_without_a_budget(kind, parts, budget, device):
    graph = family("web", 9, seed=2)
    x = inputs(graph, 12, torch.float64).to(device)
    model = make_full_model(kind, 12, 16, 5, 3).double().to(device)
    wanted = step(model, PartitionedGraph.from_graph(graph, parts, devices=device), x)
    p = PartitionedGraph.from_graph(graph, parts, devices=device, gpu_budget=budget)
    for one, other in zip(step(model, p, x), wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", FULL_MODELS)
def test_models_within_a_budget_on_all_gpus(kind):
    """A part on each of one GPU, of two, and so on."""
    graph = family("web", 9, seed=2)
    x = inputs(graph, 12, torch.float64).to("cuda:0")
    model = make_full_model(kind, 12, 16, 5, 3).double().to("cuda:0")
    wanted = step(model, PartitionedGraph.from_graph(graph, devices="cuda:0"), x)
    for count in range(1, len(gpus()) + 1):
        p = PartitionedGraph.from_graph(graph, devices=gpus()[:count], gpu_budget=SMALL)
        for one, other in zip(step(model, p, x), wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_long_blocks_take_the_host_less(device, monkeypatch):
    """Where queueing a block takes longer than what a longer one pushes into host memory takes the link."""
    graph = family("kronecker", 12, seed=1)
    x = inputs(graph, 64, torch.float64).to(device)
    model, found = nn.GCNConv(64, 64).double().to(device), []
    for queued in (0.0, 1.0):
        monkeypatch.setattr(host_plan, "_QUEUED", queued)
        p = PartitionedGraph.from_graph(graph, devices=device, gpu_budget="16MiB")
        found.append((step(model, p, x), plans(p)[-1]))
    (short, first), (long, second) = found
    assert first.block < second.block and first.seconds <= second.seconds
    assert all(plan.peak <= plan.budget for plan in (first, second))
    for one, other in zip(short, long, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_columns_go_one_after_another_where_a_table_does_not_fit(device):
    """A table of all columns takes 2 MiB."""
    graph = family("kronecker", 10, seed=1)
    x = inputs(graph, 256, torch.float64).to(device)
    p = PartitionedGraph.from_graph(graph, devices=device, gpu_budget="16MiB")
    model = nn.GCNConv(256, 256).double().to(device)
    wanted = step(model, PartitionedGraph.from_graph(graph, devices=device), x)
    step(model, p, x)
    while max(plans(p)[-1].columns) == 1:  # takes ever less, and at last less than all columns need
        p.gpu_budget -= 256 << 10
        step(model, p, x)
    for one, other in zip(step(model, p, x), wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
    assert max(max(plan.columns) for plan in plans(p)) > 1
    assert all(plan.peak <= plan.budget for plan in plans(p))
    count = len(plans(p))
    step(model, p, x)
    assert len(plans(p)) == count  # a plan is made once


def test_what_is_dropped_is_dropped_again_for_the_gradient(device):
    graph = hub()
    p = PartitionedGraph.from_graph(graph, devices=device, gpu_budget=SMALL)
    model = make_full_model("gcn", 6, 8, 3, 2, dropout=0.5).double().to(device)
    x = p.scatter(inputs(graph, 6, torch.float64).to(device))

    def loss():
        torch.manual_seed(5)
        return p.each(model(x, p))[0].square().sum()

    assert loss() == loss()
    loss().backward()
    weight = model.convs[0].lin.weight
    weight.data[1, 2] += 1e-6  # and losses with gradients, whose blocks are as long
    above = loss().detach()
    weight.data[1, 2] -= 2e-6
    below = loss().detach()
    torch.testing.assert_close((above - below) / 2e-6, weight.grad[1, 2], rtol=1e-5, atol=1e-8)


def test_residuals_and_several_uses_add_their_gradients(device):
    graph = hub()
    torch.manual_seed(2)
    conv, skip = nn.GCNConv(6, 6).double().to(device), torch.nn.Linear(6, 6).double().to(device)
    x = inputs(graph, 6, torch.float64).to(device)

    def result(p, x):
        for _ in range(2):
            x = each(torch.add, conv(x, p), each(skip, x))
        return x

    found = []
    for budget in (None, SMALL):
        p = PartitionedGraph.from_graph(graph, devices=device, gpu_budget=budget)
        leaf = x.clone().requires_grad_()
        out = p.each(result(p, p.scatter(leaf)))[0]
        parameters = [leaf, *conv.parameters(), *skip.parameters()]
        found.append([out, *torch.autograd.grad((out * factor(out)).sum(), parameters)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_rows_that_lie_on_the_cpu_stay_there(device):
    graph = hub()
    p = PartitionedGraph.from_graph(graph, devices=device)
    x = inputs(graph, 5, torch.float64)
    for strategy in ("host", "auto"):
        found = aggregate(p, x, strategy=strategy)
        assert found.is_cpu
        close(p.gather(found), expected(graph, x, "sum"), torch.float64)


def test_rows_are_put_off(device):
    graph = hub()
    p = PartitionedGraph.from_graph(graph, devices=device, gpu_budget=SMALL)
    x = p.scatter(torch.randn(graph.num_vertices, 4, device=device))
    assert x.is_cpu
    h = each(torch.relu, nn.GCNConv(4, 3).to(device)(x, p))
    assert isinstance(h, HostRows) and h.shape == (graph.num_vertices, 3) and h.dtype == torch.float32
    assert not plans(p)
    assert p.each(h)[0].device == device and p.gather(h).shape == (graph.num_vertices, 3)
    assert all("of the device at most" in plan.explain() for plan in plans(p)) and len(plans(p)) == 1


def test_what_is_refused(device):
    graph = hub()
    p = PartitionedGraph.from_graph(graph, devices=device, gpu_budget=SMALL)
    rows = nn.GCNConv(4, 4).to(device)(p.scatter(torch.randn(graph.num_vertices, 4)), p)
    weight = torch.ones(4, device=device, requires_grad=True)
    with pytest.raises(ConfigError, match=r"parameters of its own.*torch.nn.Module"):
        each(lambda one: one * weight, rows)
    with pytest.raises(ConfigError, match="gives a row"):
        each(torch.sum, rows)
    with pytest.raises(ConfigError, match="LayerNorm"):
        each(torch.nn.BatchNorm1d(4).to(device), rows)
    with pytest.raises(ConfigError, match="another partitioned graph"):
        nn.GCNConv(4, 4).to(device)(rows, PartitionedGraph.from_graph(graph, devices=device))
    with pytest.raises(RuntimeError, match="mat1 and mat2"):  # where it is written, not where it is computed
        each(torch.nn.Linear(5, 2).to(device), rows)
    with pytest.raises(ConfigError, match="size in bytes"):
        PartitionedGraph.from_graph(graph, gpu_budget="many")


class Written(torch.nn.Module):
    """As users of PyG write them: torch's functions and operators between the layers."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2, self.norm = nn.GCNConv(6, 8), nn.GATConv(8, 4, heads=2), torch.nn.LayerNorm(8)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ELU(), torch.nn.Dropout(0.0))

    def forward(self, x, edges):
        h = self.conv1(x, edges).relu()
        h = F.dropout(self.norm(h), 0.5, training=False) * 2 + self.mlp(h) / 3
        h = torch.cat([h, F.elu(h)], dim=1)[:, :8] if isinstance(h, torch.Tensor) else each(_first, torch.cat([h, F.elu(h)], 1))
        return F.log_softmax(1 - self.conv2(h, edges), dim=-1)


def _first(rows):
    return rows[:, :8]


def test_models_are_written_as_for_tensors(device):
    graph = hub()
    model = Written().double().to(device)
    x = inputs(graph, 6, torch.float64).to(device)
    mask = torch.arange(graph.num_vertices, device=device) % 3 == 0
    labels = torch.arange(graph.num_vertices, device=device) % 8
    found = []
    for budget in (None, SMALL):
        p = PartitionedGraph.from_graph(graph, devices=device, gpu_budget=budget)
        model.zero_grad()
        out = model(p.scatter(x), p)
        assert isinstance(out, HostRows) == (budget is not None)
        loss = F.nll_loss(out[mask], labels[mask])
        loss.backward()
        found.append([loss, F.nll_loss(out, labels), *(one.grad for one in model.parameters())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_functions_of_columns_are_given_the_values(device):
    p = PartitionedGraph.from_graph(hub(), devices=device, gpu_budget=SMALL)
    x = torch.randn(p.num_vertices, 4, dtype=torch.float64)
    rows = HostRows.of(p, [x])
    for call in (torch.sum, partial(torch.softmax, dim=0), partial(torch.cumsum, dim=0)):
        torch.testing.assert_close(call(rows).cpu(), call(x))
    assert isinstance(torch.softmax(rows, 1), HostRows) and isinstance(x + rows, HostRows)
    torch.testing.assert_close(p.gather(x + rows * x[0]).cpu(), x + x * x[0])
    several = PartitionedGraph.from_graph(hub(), 2, devices=device, gpu_budget=SMALL)
    with pytest.raises(ConfigError, match="hinterland.nn.each"):
        torch.relu(HostRows.of(several, several.scatter(x)))


def test_parameters_are_not_changed_before_the_gradient(device):
    graph = hub()
    p = PartitionedGraph.from_graph(graph, devices=device, gpu_budget=SMALL)
    conv = nn.GCNConv(4, 4).to(device)
    out = p.each(conv(p.scatter(torch.randn(graph.num_vertices, 4)), p))[0].sum()
    with torch.no_grad():
        conv.lin.weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_too_small_a_budget_is_refused_before_anything_is_computed(device):
    graph = hub()
    p = PartitionedGraph.from_graph(graph, devices=device, gpu_budget="64KiB")
    called = []
    rows = each(lambda one: called.append(len(one)) or one, HostRows.of(p, [torch.randn(graph.num_vertices, 64)]))
    with pytest.raises(OutOfMemory, match=r"are needed at least, of which the graph takes .* raise gpu_budget"):
        p.each(nn.GCNConv(64, 64).to(device)(rows, p))
    assert called == [64]  # the sample


def test_plans_of_many_layers_take_few_steps(monkeypatch):
    """Twenty layers, whose tables hardly fit a column: a pass is counted anew where its own columns changed, not all passes."""
    monkeypatch.undo()  # blocks are as long as they are otherwise
    graph = family("kronecker", 12, seed=1)
    p = PartitionedGraph.from_graph(graph, devices="cpu", gpu_budget="1GiB")
    node = make_full_model("gcn", 256, 256, 32, 20)(HostRows.of(p, [torch.empty(graph.num_vertices, 256)]), p).node
    stages = host_plan.stages_of(*stored([node]))
    rows = dict.fromkeys([*stages, *stored(one for stage in stages for one in stage.inputs)])
    numbers = {one: i for i, one in enumerate(rows)}
    planner = host_plan.Planner(p, host_plan.visits_of(stages, True), numbers, set(), set(), set())
    held, added = planner._held, []
    monkeypatch.setattr(planner, "_held", lambda *given: added.append(given) or held(*given))
    budget, counts, columns = float(p.gpu_budget), [], 0
    with pytest.raises(OutOfMemory):
        while True:
            added.clear()
            columns = max(planner.plan(budget).columns)
            counts.append(len(added) / len(planner.visits))  # how often the whole computation was gone through
            budget *= 0.8
    assert columns > 10
    assert max(counts) < 300  # some lengths of blocks, of which each may try many ranges of columns in each pass


@pytest.mark.gpu
@pytest.mark.parametrize("share", [0.3, 0.5, 0.8])
@pytest.mark.parametrize("kind", FULL_MODELS)
def test_peaks_are_at_most_what_was_predicted(kind, share, monkeypatch):
    monkeypatch.undo()  # blocks are as long as they are otherwise
    device = torch.device("cuda", 0)
    graph = hl.generate("web", scale=17, seed=1)
    x = torch.randn(graph.num_vertices, 64)
    model = make_full_model(kind, 64, 128, 32, 3).to(device)

    def peak(budget):
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        p = PartitionedGraph.from_graph(graph, devices=device, gpu_budget=budget)
        rows = p.scatter(x if budget else x.to(device))
        for _ in range(2):
            model.zero_grad()
            scores = p.each(model(rows, p))[0]
            scores.backward(torch.ones_like(scores))
            del scores
        return torch.cuda.max_memory_allocated() - before, plans(p)

    step_bytes, _ = peak(None)
    budget = int(share * step_bytes)
    taken, made = peak(budget)
    assert max(plan.peak for plan in made) <= budget
    # Parameters' gradients come on top, and torch rounds what it gives out by up to 1 MiB an array.
    assert taken <= max(plan.peak for plan in made) + 3 * sum(one.nbytes for one in model.parameters()) + (8 << 20)


def test_what_functions_take_while_they_are_computed_counts(device):
    """A wide row before a ReLU is kept by nobody, but is there with what the ReLU makes of it."""
    wide = torch.nn.Sequential(torch.nn.Linear(8, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8)).to(device)
    p = PartitionedGraph.from_graph(hub(), devices=device, gpu_budget="4MiB")
    functions = wide, lambda one: one.repeat(1, 32).view(len(one), 32, 8).sum(1), lambda one: one.relu_()
    rows = [each(one, HostRows.of(p, [torch.randn(p.num_vertices, 8)])).node for one in functions]
    assert [one.taken for one in rows] == [4 * (256 + 8), 4 * 8, 4 * 8]
    assert [one.passing for one in rows] == [4 * (256 - 8), 4 * 256, 0]
    takes = host_plan.visits_of([Reduced(rows[0].sample, (rows[0],), (), Same(p))], False)[0].taken
    assert takes == (0, 4 * (256 + 256))


def test_functions_may_give_rows_as_they_are(device):
    graph = hub()
    p = PartitionedGraph.from_graph(graph, devices=device, gpu_budget=SMALL)
    x = inputs(graph, 5, torch.float64)
    rows = each(partial(F.dropout, p=0.5, training=False), HostRows.of(p, [p.scatter(x)]))
    close(p.gather(rows), x, torch.float64)
    close(p.gather(aggregate(p, rows)), expected(graph, x, "sum"), torch.float64)
    assert torch.equal(rows.computed(on_host=True)[0], x)


def parted(device, parts=1, budget=SMALL):
    return PartitionedGraph.from_graph(hub(), parts, devices=device, gpu_budget=budget)


def test_modules_keep_their_parameters(device):
    """One that has a module twice in it, and one that writes to its rows."""
    torch.manual_seed(4)
    shared = torch.nn.Linear(6, 6).double().to(device)
    weight, x = shared.weight, inputs(hub(), 6, torch.float64).to(device)
    for modules in ((shared, torch.nn.Tanh(), shared), (shared, torch.nn.ReLU(inplace=True))):
        layer, found = nn.GINConv(torch.nn.Sequential(*modules), eps=0.5).double().to(device), []
        for budget in (None, SMALL):
            p = parted(device, budget=budget)
            out = p.each(layer(p.scatter(x), p))[0]
            found.append([out, *torch.autograd.grad(out.square().sum(), shared.parameters())])
            assert shared.weight is weight and isinstance(weight, torch.nn.Parameter)
        for one, other in zip(*found, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_functions_that_write_leave_rows_alone(device):
    p, x = parted(device), inputs(hub(), 6, torch.float64)
    given = p.scatter(x)
    out = p.gather(each(torch.relu_, HostRows.of(p, [given])))
    assert torch.equal(given, x) and torch.equal(out.cpu(), x.relu())


def test_matrices_of_as_many_rows_are_no_rows(device):
    """A layer whose width is the number of vertices; masks and degrees that are rows."""
    p, n = parted(device), hub().num_vertices
    x = inputs(hub(), 6, torch.float64).to(device)
    linear = torch.nn.Linear(6, n).double().to(device)
    rows = HostRows.of(p, [x])
    torch.testing.assert_close(p.gather(linear(rows)), linear(x))
    torch.testing.assert_close(p.gather(rows @ linear.weight.T), x @ linear.weight.T)
    mask, degree = x[:, :1] > 0, p.parts[0].degrees[:, None]
    for call in (lambda one: one * mask, lambda one: torch.where(mask, one, 0.0), lambda one: one / (degree + 1), abs):
        torch.testing.assert_close(p.gather(call(rows)), call(x))
    assert torch.equal(rows.argmax(1), x.argmax(1)) and torch.equal(p.each(rows != rows)[0], x != x)
    assert rows.size(0) == n and rows.dim() == 2 and rows.device == device
    with pytest.raises(AttributeError, match="relu_"):
        rows.relu_()


def test_no_gradient_goes_where_there_was_none(device):
    p, x = parted(device), inputs(hub(), 6, torch.float64).to(device)
    teacher, student = (nn.GCNConv(6, 6).double().to(device) for _ in range(2))
    with torch.no_grad():
        wanted = teacher(p.scatter(x), p)
    assert not wanted.requires_grad and not p.each(wanted)[0].requires_grad
    F.mse_loss(student(p.scatter(x), p) * 2, wanted).backward()
    assert all(one.grad is None for one in teacher.parameters())
    assert all(one.grad is not None for one in student.parameters())


def test_what_was_put_off_must_not_change(device):
    p, x = parted(device), inputs(hub(), 6, torch.float64).to(device)
    conv = nn.GINConv(torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Dropout(0.5))).double().to(device)
    for change in (lambda: conv.nn[0].weight.mul_(1), conv.eval, lambda: conv.eps.mul_(1), lambda: x.mul_(1)):
        conv.train()
        rows = each(torch.sin, conv(HostRows.of(p, [x]), p))
        with torch.no_grad():
            change()
        with pytest.raises(ConfigError, match="were changed after"):
            p.each(rows)
    conv.train()
    out = p.each(conv(p.scatter(x), p))[0].sum()
    conv.eval()
    with pytest.raises(ConfigError, match="were changed after"):
        out.backward()


def test_results_are_let_go(device):
    """Without the garbage collector: nothing refers to itself."""
    for parts in (1, 3):
        p, seen = parted(device, parts), []
        layer = nn.SAGEConv(6, 6, aggr="max").double().to(device)
        x = p.scatter(inputs(hub(), 6, torch.float64).to(device))
        gc.collect()
        gc.disable()
        try:
            for _ in range(3):
                out = p.each(aggregate(p, layer(x, p), "max"))
                seen += [weakref.ref(one.untyped_storage()) for one in out]
                torch.stack([one.sum().to(device) for one in out]).sum().backward()
                del out
            assert not any(one() for one in seen)
        finally:
            gc.enable()


def test_gradients_are_taken_once(device):
    p = parted(device)
    layer = nn.GCNConv(6, 6).double().to(device)
    loss = p.each(layer(p.scatter(inputs(hub(), 6, torch.float64).to(device)), p))[0].sum()
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="taken once"):
        loss.backward()


def test_parts_draw_other_numbers(device):
    p = PartitionedGraph.from_graph(family("web", 8, seed=2), 2, devices=device, gpu_budget="4MiB", balance="dealt")
    ones = [torch.ones(rows, 4, device=device) for rows in p.sizes]
    torch.manual_seed(1)
    first, second = p.each(each(F.dropout, HostRows.of(p, ones)))
    assert not torch.equal(first, second[: len(first)])


@pytest.mark.parametrize("layer", ["GATConv", "GATv2Conv", "TransformerConv"])
def test_parts_without_rows_attend_to_nothing(layer, device):
    graph = hl.from_edges(torch.tensor([0]), torch.tensor([1]), num_vertices=2)
    p = PartitionedGraph.from_graph(graph, 3, devices=device, gpu_budget="4MiB")
    conv = getattr(nn, layer)(4, 4, heads=2).double().to(device)
    out = p.each(conv(p.scatter(torch.randn(2, 4, dtype=torch.float64)), p))
    torch.stack([one.sum() for one in out]).sum().backward()
    assert all(one.grad is not None for one in conv.parameters())


def test_rows_that_are_used_often_are_computed_once_a_block(device):
    p, calls = parted(device), []
    rows = each(lambda one: calls.append(1) or one.sin(), HostRows.of(p, [torch.ones(hub().num_vertices, 2, device=device)]))
    for _ in range(40):
        rows = rows * torch.sigmoid(rows)
    p.each(rows)
    assert len(calls) == 1 + -(-hub().num_vertices // plans(p)[-1].block)
