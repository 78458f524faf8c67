"""Models over samples of fixed shape: scores and every gradient are those of the same sample without padding."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland.fullgraph.aggregate_launch import compute_type
from hinterland.sampling import NeighborSampler
from hinterland.sampling.envelope import Envelope
from hinterland.training.attention import attended
from hinterland.training.blocks import Block, blocks
from hinterland.training.models import MODELS, make_model
from hinterland.training.pipeline import moved, tensors_of
from tests.padding import padded

INPUTS, HIDDEN, CLASSES = 6, 8, 5
GARBAGE = 1e6
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}


@pytest.fixture(scope="module")
def graph():
    """With vertices that have no neighbour, and some that are in most lists."""
    return hl.generate("kronecker", scale=8, edge_factor=4, seed=3)


def sampled(graph, fanouts, seeds, batch=0):
    return NeighborSampler(graph, fanouts, seed=1, device="cpu").sample(seeds, batch=batch)


def envelope_of(sample, batch_size, slack):
    """With ``slack`` more vertices and edges of each hop than were drawn."""
    vertices, edges = (torch.tensor(n).cumsum(0) for n in (sample.num_sampled_nodes, sample.num_sampled_edges))
    rooms = [batch_size, *(int(n) + 1 + more for n, more in zip(vertices[1:], slack, strict=True))]
    rooms = torch.tensor(rooms).cummax(0).values.tolist()
    return Envelope(tuple(rooms), tuple((edges + torch.tensor(slack).cumsum(0)).tolist()))


def lengthened(rows, length, fill):
    return torch.cat([rows, rows.new_full((length - len(rows), *rows.shape[1:]), fill)])


def arguments(graph, sample, name, dtype):
    """What a model is called with."""
    made = torch.Generator().manual_seed(len(sample.row))
    x = torch.randn(len(sample.node), INPUTS, dtype=dtype, generator=made)
    weight = torch.rand(len(sample.row), dtype=dtype, generator=made) if name == "pinsage" else None
    return x, sample, graph.degrees().cpu()[sample.node], weight


def with_padding(given, envelope):
    """The same, padded with large numbers of both signs."""
    x, sample, degree, weight = given
    room = envelope.vertices[-1]
    x = lengthened(x, room, GARBAGE)
    x[len(sample.node) + 1 :: 2] *= -1
    weight = None if weight is None else lengthened(weight, envelope.edges[-1], GARBAGE)
    return x, padded(sample, envelope), lengthened(degree, room, 3), weight


def learned(model, given, count):
    """Scores of the seeds, and the gradients of x and of every parameter."""
    x, *others = given
    x = x.detach().requires_grad_()
    scores = model(x, *others)[:count]
    (scores * direction_of(scores)).sum().backward()
    grads = [x.grad, *(parameter.grad for parameter in model.parameters())]
    model.zero_grad()
    return [scores.detach(), *grads]


def direction_of(scores):
    return torch.linspace(-1, 1, scores.numel(), dtype=scores.dtype, device=scores.device).view_as(scores)


def same(found, expected, tolerance):
    """Gradients of padded rows of x are 0, and the others as without."""
    rows = len(expected[1])
    assert not found[1][rows:].any()
    for one, other in zip([found[0], found[1][:rows], *found[2:]], expected, strict=True):
        torch.testing.assert_close(
            one.cpu().double(), other.double(), rtol=tolerance, atol=tolerance * float(1 + other.abs().max())
        )


def models(name, layers, dtype):
    torch.manual_seed(5)
    return make_model(name, INPUTS, HIDDEN, CLASSES, layers).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_padding_changes_nothing(graph, name, layers, dtype, data):
    seeds = torch.tensor(data.draw(st.lists(st.integers(0, 255), min_size=1, max_size=12, unique=True)))
    sample = sampled(graph, [4, 3, 2][:layers], seeds, batch=len(seeds))
    slack = data.draw(st.lists(st.integers(0, 40), min_size=layers, max_size=layers))
    envelope = envelope_of(sample, len(seeds) + data.draw(st.integers(0, 9)), slack)
    called = arguments(graph, sample, name, dtype)
    model = models(name, layers, dtype)
    expected = learned(model, called, len(seeds))
    same(learned(model, with_padding(called, envelope), len(seeds)), expected, TOLERANCE[dtype])


@pytest.mark.parametrize("name", MODELS)
def test_samples_without_edges(graph, name):
    seeds = (graph.degrees().cpu() == 0).nonzero().view(-1)[:3]
    sample = sampled(graph, [3, 2], seeds)
    assert len(seeds) == 3 and not len(sample.row)
    called, model = arguments(graph, sample, name, torch.float64), models(name, 2, torch.float64)
    found = learned(model, with_padding(called, Envelope((4, 9, 17), (7, 20))), 3)
    same(found, learned(model, called, 3), 1e-10)


def test_blocks_of_a_padded_sample(graph):
    """Shapes are the envelope's; offsets and counts say what was drawn."""
    sample = sampled(graph, [4, 3, 2], torch.arange(3, 40, 6))
    envelope = envelope_of(sample, 9, [5, 30, 11])
    for block, plain, hops in zip(blocks(padded(sample, envelope)), blocks(sample), (3, 2, 1), strict=True):
        assert block.targets == envelope.vertices[hops - 1] and len(block.row) == len(block.col) == envelope.edges[hops - 1]
        assert int(block.count) == len(plain.row) == int(block.offsets[-1])
        assert torch.equal(block.row[: len(plain.row)], plain.row) and torch.equal(block.col[: len(plain.row)], plain.col)
        assert bool((block.row[len(plain.row) :] == envelope.vertices[hops] - 1).all())
        assert torch.equal(block.offsets[: plain.targets + 1], plain.offsets)


def pyg_convs(loops):
    nn = pytest.importorskip("torch_geometric.nn")
    return {
        "sage": nn.SAGEConv(INPUTS, CLASSES),
        "gcn": nn.GCNConv(INPUTS, CLASSES, add_self_loops=loops),
        "gat": nn.GATConv(INPUTS, CLASSES, heads=2, add_self_loops=loops),
        "gatv2": nn.GATv2Conv(INPUTS, CLASSES, heads=2, add_self_loops=loops),
    }


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("name", ["sage", "gcn", "gat", "gatv2"])
def test_convolutions_of_pyg_are_not_changed_by_padding(graph, name, loops):
    """Of rows that were drawn, and gradients by what they are used for: padded edges lead from the last row to itself."""
    conv = pyg_convs(loops)[name].double()
    sample = sampled(graph, [4, 3], torch.arange(3, 40, 6))
    called = arguments(graph, sample, name, torch.float64)
    found = []
    for x, of, *_ in (called, with_padding(called, envelope_of(sample, 9, [5, 30]))):
        out = conv(x, torch.stack([of.row, of.col]))[: len(sample.node)]
        (out * direction_of(out)).sum().backward()
        found.append([out.detach(), *(parameter.grad for parameter in conv.parameters())])
        conv.zero_grad()
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", MODELS)
def test_a_replayed_step_is_that_of_the_cpu(graph, name, dtype):
    """A graph that was captured with one batch and is replayed with others, of other sizes, against float64 without padding."""
    envelope = Envelope((40, 200, 256, 257), (170, 700, 1200))
    drawn = [sampled(graph, [4, 3, 2], torch.arange(first, 256, step), first) for first, step in ((0, 7), (3, 8), (1, 90))]
    batches = [arguments(graph, one, name, dtype) for one in drawn]
    held = moved(with_padding(batches[0], envelope), torch.device("cuda"))
    x, model = held[0].requires_grad_(), models(name, 3, dtype).cuda()
    learns = [x, *model.parameters()]
    direction = torch.zeros(40, CLASSES, dtype=dtype, device="cuda")
    graphed, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()

    def step():
        scores = model(*held)
        return [scores, *torch.autograd.grad((scores * direction).sum(), learns)]

    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    stream.synchronize()
    with torch.cuda.graph(graphed, stream=stream):
        scores, *grads = step()
    reference = models(name, 3, torch.float64)
    for called in batches[::-1]:
        count = called[1].num_sampled_nodes[0]
        with torch.no_grad():
            for to, part in zip(tensors_of(held), tensors_of(with_padding(called, envelope)), strict=True):
                to.copy_(part)
            direction.zero_()[:count] = direction_of(scores[:count])
        graphed.replay()
        as_double = [part.double() if isinstance(part, torch.Tensor) else part for part in called]
        same([scores[:count], *grads], learned(reference, as_double, count), TOLERANCE[dtype])


def hub(device):
    """20,000 edges of 50 targets, of which one has most, and of 300 sources, of which one is in most; behind them others."""
    made = torch.Generator().manual_seed(0)
    col = torch.randint(0, 40, (20_000,), generator=made)
    col[3000:17_000] = 23
    row = torch.where(torch.rand(20_000, generator=made) < 0.6, 7, torch.randint(0, 299, (20_000,), generator=made))
    col = col.sort().values
    row, col = lengthened(row, 20_100, 299), lengthened(col, 20_100, 49)
    offsets = torch.searchsorted(col, torch.arange(51)).clamp(max=20_000)
    row, col, offsets, count = (part.to(device) for part in (row, col, offsets, torch.tensor(20_000)))
    return Block(row, col, offsets, count=count)


def summed(block, x, scores, way):
    if way == "attention":
        out, logarithm = attended(block, x.view(300, 3, 24), *(scores[:rows, :3] for rows in (300, 50)))
        return torch.cat([out.flatten(1), logarithm.nan_to_num(neginf=0).to(x.dtype)], 1)
    return block.mean(x) if way == "mean" else block.sum(x, scores.flatten()[: len(block.row)])


def test_attention_over_long_rows():
    """Against a softmax of the scores of all edges of a target, by autograd."""
    made = torch.Generator().manual_seed(2)
    block, real = hub("cpu"), slice(20_000)
    row, col = block.row[real], block.col[real]
    h, source, target = (
        torch.randn(n, 3, *w, dtype=torch.float64, generator=made) for n, w in ((300, [5]), (300, []), (50, []))
    )
    given = [part.requires_grad_() for part in (h, source, target)]
    found = attended(block, *given)
    score = F.leaky_relu(source[row] + target[col], 0.2).exp()
    total = torch.zeros(50, 3, dtype=torch.float64).index_add(0, col, score)
    expected = (
        torch.zeros(50, 3, 5, dtype=torch.float64).index_add(0, col, (score / total[col])[..., None] * h[row]),
        total.log(),
    )
    heard = total[:, 0] > 0
    torch.testing.assert_close(found, expected)
    results = []
    for out, logarithm in (found, expected):
        value = (out * direction_of(out)).sum() + (logarithm * direction_of(logarithm))[heard].sum()
        results.append(torch.autograd.grad(value, given))
    torch.testing.assert_close(*results)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("way", ["mean", "weights", "attention"])
def test_long_rows_make_nothing_wait(dtype, way):
    """Sums and gradients against the CPU's float64, where torch refuses to wait for the GPU."""
    made = torch.Generator().manual_seed(1)
    x, scores = torch.randn(300, 72, generator=made).to(dtype), torch.randn(300, 72, generator=made)
    results = []
    for device, kind in (("cpu", torch.float64), ("cuda", dtype)):
        block, rows = hub(device), x.to(device, kind).requires_grad_()
        given = scores.to(device, compute_type(kind))
        direction = torch.linspace(-1, 1, 50 * 75, device=device).view(50, 75).to(dtype).to(kind)
        torch.cuda.set_sync_debug_mode("error" if device == "cuda" else "default")
        try:
            out = summed(block, rows, given, way)
            (of_rows,) = torch.autograd.grad(out, rows, direction[:, : out.shape[1]])
        finally:
            torch.cuda.set_sync_debug_mode("default")
        results.append([out.detach(), of_rows])
    for expected, found in zip(*results, strict=True):
        tolerance = {torch.float64: 1e-12, torch.float32: 1e-5}.get(dtype, 2e-2)
        assert (found.cpu().double() - expected).norm() <= tolerance * expected.norm()
