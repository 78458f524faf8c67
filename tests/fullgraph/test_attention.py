"""Attention over partitioned graphs: torch in float64, with every edge's score, as the oracle."""

from __future__ import annotations

import pytest
import torch

import hinterland as hl
from hinterland.fullgraph import STRATEGIES, PartitionedGraph, attend
from hinterland.fullgraph.attend import SCORES, Scores
from hinterland.fullgraph.attention import attention
from hinterland.runtime.errors import ConfigError
from tests.covering import on_devices
from tests.fullgraph.test_aggregate import GRAPHS, edges, factor, hub

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 6e-2}
SLOPE, SCALE = 0.2, 0.7


def inputs(kind, vertices, heads, channels, dtype=torch.float64):
    """What :func:`attention` takes, of all vertices; values that ``dtype`` has."""
    generator, width = torch.Generator().manual_seed(7), heads * channels
    shapes = {
        "gat": [(vertices, width), (vertices, heads), (vertices, heads)],
        "gatv2": [(vertices, width), (vertices, width), (width,)],
        "dot": [(vertices, 2 * width), (vertices, width)],
    }
    size = channels**-0.25 if kind != "gat" else 1.0  # of scores, near 1 for any number of channels
    found = [torch.randn(shape, dtype=torch.float64, generator=generator) * size for shape in shapes[kind]]
    return [one.to(dtype).double().requires_grad_() for one in found]


def expected(graph, scores, rows, mine, vector=None):
    """The oracle. Differentiable."""
    row, col, _ = edges(graph)
    n, heads = graph.num_vertices, scores.heads
    if scores.loops:
        keep, own = row != col, torch.arange(n)
        row, col = torch.cat([row[keep], own]), torch.cat([col[keep], own])

    def by_head(x):
        return x.reshape(n, heads, -1)

    def leaky(x):
        return torch.where(x > 0, x, scores.slope * x)

    values = by_head(rows)
    if scores.kind == "gat":
        score = leaky(vector[col] + mine[row])
    elif scores.kind == "gatv2":
        score = (leaky(values[col] + by_head(mine)[row]) * vector.view(heads, -1)).sum(2)
    else:
        keys, values = map(by_head, rows.chunk(2, 1))
        score = scores.scale * (keys[col] * by_head(mine)[row]).sum(2)
    index = row[:, None].expand_as(score)
    most = torch.full((n, heads), -1e30, dtype=score.dtype).scatter_reduce(0, index, score.detach(), "amax")
    share = (score - most[row]).exp()
    share = share / torch.zeros(n, heads, dtype=score.dtype).index_add(0, row, share)[row]
    return torch.zeros_like(values).index_add(0, row, share[:, :, None] * values[col]).flatten(1)


def run(p, scores, strategy, given, dtype):
    """The whole result, and the gradients of its sum times :func:`factor`."""
    given = [one.detach().to(p.world.devices[0], dtype).requires_grad_() for one in given]
    rows, mine, *vector = given
    parts = [p.each(p.scatter(one)) for one in (rows, mine)]
    if vector:
        parts.append(p.each(p.scatter(vector[0])) if scores.kind == "gat" else [vector[0]] * len(p.parts))
    out = attention(p, scores, strategy, *parts)
    whole = p.gather(out)
    by = p.each(p.scatter(factor(whole)))
    torch.stack([(one * f).sum() for one, f in zip(out, by, strict=True)]).sum().backward()
    return whole, [one.grad for one in given]


def compare(graph, scores, channels, *, parts=3, strategy="halo", dtype=torch.float64, device="cpu"):
    given = inputs(scores.kind, graph.num_vertices, scores.heads, channels, dtype)
    wanted = expected(graph, scores, *given)
    by = factor(wanted.to(dtype)).double()
    gradients = torch.autograd.grad((wanted * by).sum(), given)
    p = PartitionedGraph.from_graph(graph, parts, devices=device)
    found = run(p, scores, strategy, given, dtype)
    for one, right in zip((found[0], *found[1]), (wanted.detach(), *gradients), strict=True):
        assert one.dtype == dtype and one.shape == right.shape
        scale = right.abs().max().clamp(min=1) if right.numel() else 1
        assert ((one.double().cpu() - right).abs() <= TOLERANCE[dtype] * scale).all()


TABLE = on_devices(GRAPHS, SCORES, [1, 3, 8], STRATEGIES, [(1, 5), (3, 4)], [False, True], together=3)


@pytest.mark.parametrize(("graph", "kind", "parts", "strategy", "shape", "loops", "device"), TABLE, indirect=["device"])
def test_all_strategies_agree_with_the_oracle(graph, kind, parts, strategy, shape, loops, device):
    heads, channels = shape
    scores = Scores(kind, heads, SLOPE, SCALE, loops)
    compare(GRAPHS[graph](), scores, channels, parts=parts, strategy=strategy, device=device)


SHORT = [torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize(
    ("kind", "heads", "channels", "dtype", "device"),
    on_devices(SCORES, [1, 3], [1, 5, 64, 300], SHORT, together=2),
    indirect=["device"],
    ids=str,
)
def test_types_and_widths(kind, heads, channels, dtype, device):
    compare(hub(), Scores(kind, heads, SLOPE, channels**-0.5, True), channels, dtype=dtype, device=device)


@pytest.mark.parametrize("channels", [1, 5, 64, 300, 1024])
@pytest.mark.parametrize("kind", SCORES)
def test_widths_in_float64(kind, channels, device):
    compare(hub(), Scores(kind, 2, SLOPE, channels**-0.5), channels, device=device)


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("parts", [1, 3])
def test_too_wide_heads_are_refused(kind, parts):
    with pytest.raises(ConfigError, match="1025 channels.*use more heads"):
        compare(hub(), Scores(kind, 2), 1025, parts=parts)


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("strategy", ["halo", "halo-pipelined"])
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("kind", SCORES)
def test_long_rows_are_joined_of_pieces(kind, parts, strategy, loops, device, monkeypatch):
    """Pieces of at most 4 entries, of which some rows have so many that they are joined in pieces themselves."""
    monkeypatch.setattr(attend, "_shape", lambda entries, across, heads: (4, 1))
    compare(GRAPHS["skewed"](), Scores(kind, 3, SLOPE, SCALE, loops), 4, parts=parts, strategy=strategy, device=device)


@pytest.mark.parametrize("longest", [4, 1 << 20])
@pytest.mark.parametrize("strategy", ["halo", "halo-pipelined"])
@pytest.mark.parametrize("kind", SCORES)
def test_what_is_no_number_stays(kind, strategy, longest, device, monkeypatch):
    """The results of all that hear from a vertex whose rows are not numbers: first, last, or alone in their lists."""
    monkeypatch.setattr(attend, "_shape", lambda entries, across, heads: (longest, 1))
    graph = GRAPHS["skewed"]()
    given = [one.detach() for one in inputs(kind, graph.num_vertices, 2, 4)]
    row, col, _ = edges(graph)
    bad = torch.zeros(graph.num_vertices, dtype=torch.bool)
    bad[col[:: len(col) // 7]] = True
    given[0][bad] = float("nan")
    if kind == "gat":
        given[2][bad] = float("nan")
    hears = torch.zeros(graph.num_vertices, dtype=torch.bool)
    hears[row[bad[col]]] = True
    for parts in (1, 3):
        whole, _ = run(
            PartitionedGraph.from_graph(graph, parts, devices=device), Scores(kind, 2), strategy, given, torch.float64
        )
        assert torch.equal(whole.isnan().cpu(), hears[:, None].expand_as(whole))


@pytest.mark.parametrize("kind", SCORES)
def test_a_row_of_very_many_entries(kind, device):
    """Its pieces are more than a piece has entries, so that they are joined in pieces as well."""
    count = 70_000
    rows = torch.cat([torch.zeros(count, dtype=torch.int64), torch.arange(1, 300)])
    cols = torch.randint(1, 1000, (len(rows),), generator=torch.Generator().manual_seed(8))
    graph = hl.from_edges(rows, cols, num_vertices=1000)
    compare(graph, Scores(kind, 2, SLOPE, SCALE, True), 3, parts=1, device=device)


@pytest.mark.parametrize("kind", SCORES)
def test_large_scores_do_not_overflow(kind, device):
    """The exponentials of these scores are beyond any float."""
    graph = GRAPHS["kronecker"]()
    given = [one.detach() * 100 for one in inputs(kind, graph.num_vertices, 2, 4)]
    p = PartitionedGraph.from_graph(graph, 3, devices=device)
    scores = Scores(kind, 2, SLOPE, SCALE)
    whole, gradients = run(p, scores, "halo-pipelined", given, torch.float64)
    wanted = expected(graph, scores, *given)
    torch.testing.assert_close(whole.cpu(), wanted, rtol=1e-9, atol=1e-9)
    assert all(one.isfinite().all() for one in gradients)


@pytest.mark.parametrize("kind", SCORES)
def test_rows_and_numbers_of_different_types(kind, device):
    """As autocast has them: rows are short, and what is multiplied by parameters is not."""
    graph = hub()
    given = inputs(kind, graph.num_vertices, 2, 4, torch.bfloat16)
    p = PartitionedGraph.from_graph(graph, 1, devices=device)
    scores = Scores(kind, 2, SLOPE, SCALE)
    rows, mine, *vector = (one.detach().to(device, torch.float32).requires_grad_() for one in given)
    out = attention(p, scores, "halo", [rows.bfloat16()], [mine], vector or None)[0]
    out.sum().backward()
    wanted = expected(graph, scores, *given)
    assert out.dtype == torch.bfloat16 and mine.grad.dtype == rows.grad.dtype == torch.float32
    assert (out.double().cpu() - wanted).abs().max() <= 6e-2 * wanted.abs().max()


@pytest.mark.parametrize("kind", SCORES)
def test_arrays_that_begin_anywhere(kind, device):
    """Views into one array, as optimizers flatten parameters: none begins where a vector of 16 bytes does."""
    graph = GRAPHS["kronecker"]()
    p, scores = PartitionedGraph.from_graph(graph, 1, devices=device), Scores(kind, 2, SLOPE, SCALE)
    given = [one.detach().float().to(device) for one in inputs(kind, graph.num_vertices, 2, 4)]
    moved = [torch.cat([one.new_zeros(1), one.flatten()])[1:].view_as(one).requires_grad_() for one in given]
    results = []
    for arrays in ([one.requires_grad_() for one in given], moved):
        out = attention(p, scores, "halo", *([one] for one in arrays))[0]
        results.append((out, *torch.autograd.grad((out * factor(out)).sum(), arrays)))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)
