"""PageRank against networkx and a power iteration in float64, and the verifier against tampering."""

from __future__ import annotations

import dataclasses
import functools

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland.graph import verify_pagerank
from hinterland.graph.lists import NeighborLists
from hinterland.runtime.errors import ConfigError, VerificationError
from hinterland.table import UnifiedTensor

from ..graphs import FAMILIES, family, skewed, with_wide_edges
from .budgets import within_budgets
from .cases import DAMPING, Everywhere
from .small import any_graphs

NONE = torch.tensor([], dtype=torch.int64)


def expected_scores(graph, damping=0.85, p=None):
    """By power iteration in float64 until nothing moves."""
    vertices = graph.num_vertices
    indptr, indices = graph.indptr.cpu().numpy(), graph.indices.cpu().numpy()
    pull = sp.csr_matrix((np.ones(len(indices)), indices, indptr), shape=(vertices,) * 2).T.tocsr()
    degrees = np.diff(indptr)
    p = np.full(vertices, 1 / vertices) if p is None else np.asarray(p, dtype=np.float64) / np.sum(p)
    scores = p
    for _ in range(2000):
        before = scores
        received = pull @ (before / np.maximum(degrees, 1)) + before[degrees == 0].sum() * p
        scores = (1 - damping) * p + damping * received
        if np.abs(scores - before).sum() < 1e-14:
            break
    return scores


def check(graph, device="cpu", damping=0.85, p=None, mode="auto"):
    """Both types, each as exact as it can be; a change below the tolerance leaves scores d / (1 - d) times that away."""
    expected = expected_scores(graph, damping, p)
    personal = None if p is None else torch.as_tensor(p, dtype=torch.float64)
    for dtype, tolerance in ((torch.float32, 2e-6), (torch.float64, 1e-12)):
        options = {"damping": damping, "personalization": personal}
        limits = {"tolerance": tolerance, "max_iterations": 1000}
        result = hl.pagerank(graph, **limits, dtype=dtype, mode=mode, device=device, **options)
        assert result.scores.dtype == dtype and result.scores.device == torch.device(device)
        assert result.converged and result.error < tolerance
        away = np.abs(result.scores.cpu().double().numpy() - expected).sum()
        assert away < tolerance / (1 - damping) + (1e-6 if dtype == torch.float32 else 0)
        verify_pagerank(graph, result, tolerance=tolerance, **options)
    return result


def iterations(graph, mode):
    return hl.pagerank(graph, mode=mode, device="cpu").iterations


def with_wide_lists(graph):
    """The same graph with eight-byte neighbours, and the lists of in-neighbours too."""
    wide = with_wide_edges(graph)
    if graph.directed:
        transposed = with_wide_edges(graph.transpose())
        wide._transposed = lambda: transposed
    return wide


def star(leaves, inward):
    hub, others = torch.zeros(leaves, dtype=torch.int64), torch.arange(1, leaves + 1)
    return hl.from_edges(*((others, hub) if inward else (hub, others)), num_vertices=leaves + 1)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("edges", [3000, 100000])
def test_skewed_graph(device, directed, wide, edges):
    graph = skewed(5000, edges, symmetrize=not directed)
    check(with_wide_lists(graph) if wide else graph, device)


@settings(max_examples=100, deadline=None)
@given(any_graphs(60, 200), st.data())
def test_any_graph(graph, data):
    vertices, p = graph.num_vertices, None
    if data.draw(st.booleans()):
        p = data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 7.0]), min_size=vertices, max_size=vertices))
        p[data.draw(st.integers(0, vertices - 1))] = 2.0
    check(graph, damping=data.draw(st.sampled_from([0.0, 0.5, 0.85, 0.95])), p=p)


def test_what_float32_rounds_is_no_mistake():
    """The change falls just below the tolerance, and that of the rounded scores does not."""
    graph = hl.from_edges(torch.tensor([0]), torch.tensor([1]), num_vertices=28, symmetrize=True)
    check(graph, damping=0.5, p=[2.0] + [1.0] * 18 + [7.0] * 9)


@pytest.mark.parametrize("directed", [True, False])
def test_compressed_graph(device, directed):
    check(hl.compress(skewed(5000, 100000, symmetrize=not directed)), device)


def test_no_vertices(device):
    result = hl.pagerank(hl.from_edges(NONE, NONE, num_vertices=0), device=device)
    assert result.scores.shape == (0,) and result.converged


@pytest.mark.parametrize("vertices", [1, 33])
def test_no_edges(device, vertices):
    """All vertices are dangling; p is the answer, and what it starts from."""
    graph = hl.from_edges(NONE, NONE, num_vertices=vertices)
    assert hl.pagerank(graph, device=device).iterations == 1
    np.testing.assert_allclose(check(graph, device).scores.cpu().numpy(), 1 / vertices)


def test_only_isolated_vertices_are_jumped_to(device):
    """Shares in float32 add up to a little more than 1; no other vertex may get what is missing."""
    graph = hl.from_edges(torch.tensor([1]), torch.tensor([1]), num_vertices=12, symmetrize=True)
    scores = check(graph, device, p=[3.0, 0.0, *[0.7] * 10]).scores
    assert 0 <= float(scores[1]) < 1e-9


@pytest.mark.parametrize("inward", [True, False])
@pytest.mark.parametrize("leaves", [31, 2048, 20000])
def test_star(device, inward, leaves):
    """One list that many tasks share, or many dangling vertices."""
    check(star(leaves, inward), device)


def test_chain_self_loops_and_parallel_edges(device):
    check(hl.from_edges(torch.arange(99), torch.arange(1, 100)), device)
    check(hl.from_edges(torch.tensor([0, 0, 0, 1, 1, 3]), torch.tensor([0, 1, 1, 1, 2, 3]), num_vertices=6), device)


@pytest.mark.parametrize("directed", [True, False])
def test_scores_as_networkx_finds_them(device, directed):
    network = nx.gnm_random_graph(300, 900, seed=3, directed=directed)
    src, dst = torch.tensor(list(network.edges())).T
    graph = hl.from_edges(src, dst, num_vertices=300, symmetrize=not directed)
    for personalization in (None, {5: 1.0, 17: 3.0}):
        theirs = nx.pagerank(network, personalization=personalization, tol=1e-14, max_iter=500)
        options = {"tolerance": 1e-12, "dtype": torch.float64, "personalization": personalization, "device": device}
        scores = hl.pagerank(graph, **options).scores.cpu()
        np.testing.assert_allclose(scores.numpy(), [theirs[v] for v in range(300)], atol=1e-11)


@pytest.mark.parametrize("directed", [True, False])
def test_personalization_takes_any_scale_and_form(directed):
    graph = skewed(200, 1000, symmetrize=not directed)
    shares = torch.arange(200).double()
    results = [hl.pagerank(graph, personalization=p, device="cpu", dtype=torch.float64) for p in (shares, 7 * shares.float())]
    results.append(hl.pagerank(graph, personalization=dict(enumerate(shares.tolist())), device="cpu", dtype=torch.float64))
    for result in results[1:]:
        assert torch.allclose(result.scores, results[0].scores, rtol=1e-12, atol=0)
    assert not torch.allclose(hl.pagerank(graph, device="cpu", dtype=torch.float64).scores, results[0].scores, rtol=1e-2)


def test_real_network(real_data, device):
    ends = torch.from_numpy(np.loadtxt(real_data / "soc-Epinions1.txt", dtype=np.int64, comments="#"))
    for symmetrize in (True, False):
        check(hl.from_edges(ends[:, 0], ends[:, 1], symmetrize=symmetrize), device)


def test_too_few_iterations_are_reported(device):
    graph = skewed(1000, 4000)
    short = hl.pagerank(graph, tolerance=1e-6, max_iterations=2, device=device, stats=True)
    assert not short.converged and short.iterations == 2 and short.error >= 1e-6
    assert short.stats["levels"] == 2 and short.stats["edges"] == 2 * graph.num_edges
    whole = hl.pagerank(graph, tolerance=1e-6, device=device)
    assert whole.converged and whole.iterations > 2 and whole.error < 1e-6


def test_degrees_are_a_good_guess():
    for kind, saved in (("kronecker", 2), ("uniform", 2)):
        graph = hl.generate(kind, scale=14, edge_factor=16, seed=1, device="cpu")
        assert iterations(graph, "auto") <= iterations(graph, "power-iteration") - saved
        check(graph, mode="power-iteration")


def grid(side, missing=0.1):
    at = torch.arange(side * side).view(side, side)
    ends = [torch.stack([a.reshape(-1), b.reshape(-1)]) for a, b in ((at[:, :-1], at[:, 1:]), (at[:-1], at[1:]))]
    edges = torch.cat(ends, 1)
    edges = edges[:, torch.rand(edges.shape[1], generator=torch.Generator().manual_seed(3)) >= missing]
    return hl.from_edges(edges[0], edges[1], num_vertices=side * side, symmetrize=True)


def undirected_star(leaves):
    return hl.from_edges(torch.zeros(leaves, dtype=torch.int64), torch.arange(1, leaves + 1), symmetrize=True)


def plain_iterations(graph, tolerance, damping=0.85, p=None):
    """Iterations from the same start, by degree, if each goes to the equation's right-hand side and no further."""
    vertices, degrees, indices = graph.num_vertices, graph.degrees().numpy(), graph.indices.numpy()
    pull = sp.csr_matrix((np.ones(len(indices)), indices, graph.indptr.numpy()), shape=(vertices,) * 2)
    p = np.full(vertices, 1 / vertices) if p is None else p
    share = p[degrees == 0].sum()
    dangling = (1 - damping) * share / (1 - damping * share)
    scores = (1 - damping + damping * dangling) * p + damping * (1 - dangling) * degrees / len(indices)
    for iteration in range(1, 5000):
        before, over = scores, np.maximum(degrees, 1)
        scores = (1 - damping) * p + damping * (pull @ (before / over) + before[degrees == 0].sum() * p)
        if np.abs(scores - before).sum() < tolerance:
            return iteration
    raise AssertionError("it does not come to an end")


UNDIRECTED = {
    "grid": lambda: grid(64),
    "path": lambda: hl.from_edges(torch.arange(2999), torch.arange(1, 3000), symmetrize=True),
    "star": lambda: undirected_star(5000),
    "pairs": lambda: hl.from_edges(torch.arange(0, 2000, 2), torch.arange(1, 2000, 2), num_vertices=2500, symmetrize=True),
    "kronecker": lambda: hl.generate("kronecker", scale=12, edge_factor=16, seed=1, device="cpu"),
    "uniform": lambda: hl.generate("uniform", scale=12, edge_factor=16, seed=1, device="cpu"),
}


@pytest.mark.parametrize(("kind", "share"), [("grid", 0.5), ("path", 0.5), ("kronecker", 0.6), ("uniform", 0.8)])
def test_relaxation_saves_iterations_in_undirected_graphs(kind, share):
    """Slow graphs and such as mix well, in which Chebyshev's iteration over all possible eigenvalues takes twice as many."""
    graph = UNDIRECTED[kind]()
    found = hl.pagerank(graph, tolerance=1e-8, device="cpu").iterations
    assert found <= share * plain_iterations(graph, 1e-8)


@pytest.mark.parametrize("kind", UNDIRECTED)
@pytest.mark.parametrize("damping", [0.5, 0.95])
@pytest.mark.parametrize("one", [False, True])
def test_relaxed_scores_hold_what_the_error_says(kind, damping, one, device):
    """Not negative, of sum 1, and a further step changes them by less than the tolerance, however loose; and no slower."""
    graph = UNDIRECTED[kind]()
    personal = torch.zeros(graph.num_vertices).double().index_fill(0, graph.degrees().argmax(), 1.0) if one else None
    options = {"damping": damping, "personalization": personal, "device": device}
    for tolerance in (0.3, 0.01, 1e-4, 1e-9):
        result = hl.pagerank(graph, tolerance=tolerance, **options)
        assert result.converged and result.error < tolerance
        verify_pagerank(graph, result, damping, tolerance, personal)
        plain = plain_iterations(graph, tolerance, damping, personal.numpy() if one else None)
        assert result.iterations <= plain + 2


def test_a_directed_graph_that_is_called_undirected():
    """Its eigenvalues are not real, so that relaxed iterations would run away."""
    vertices = 1000
    following = (torch.arange(vertices) + 1) % vertices
    arrays = {"indptr": torch.arange(vertices + 1), "indices": following.to(torch.int32)}
    held = {name: UnifiedTensor.from_tensor(array) for name, array in arrays.items()}
    graph = hl.Graph.of(NeighborLists(held), directed=False)
    result = hl.pagerank(graph, personalization={0: 1.0}, tolerance=1e-8, max_iterations=1000, device="cpu")
    assert result.converged
    assert abs(float(result.scores.sum()) - 1) < 1e-8


def test_type_follows_tolerance(graph):
    for tolerance, dtype in ((1e-6, torch.float32), (9e-7, torch.float64)):
        assert hl.pagerank(graph, tolerance=tolerance, device="cpu").scores.dtype == dtype


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"damping": 1.0}, r"damping 1\.0 is not in \[0, 1\)"),
        ({"damping": float("nan")}, "damping nan"),
        (
            {"tolerance": 1e-9, "dtype": torch.float32},
            r"tolerance 1e-09 is below 1e-06, the least that torch\.float32 resolves; ask for dtype",
        ),
        ({"mode": "sideways"}, "mode 'sideways' is not one of auto, power-iteration"),
        ({"tolerance": 0.0}, r"tolerance 0\.0 is below 1e-14"),
        ({"dtype": torch.float16}, r"float32 or float64, not torch\.float16"),
        ({"max_iterations": 0}, "max_iterations 0 is not a whole number from 1 to 2147483647"),
        ({"max_iterations": 2.5}, r"max_iterations 2\.5"),
        ({"personalization": torch.ones(3)}, r"shape \(4,\) or a mapping; got shape \(3,\)"),
        ({"personalization": [1.0] * 4}, "must be a torch tensor"),
        ({"personalization": torch.tensor([1.0, -2.0, 1.0, 1.0])}, r"of vertex 1 is -2\.0"),
        ({"personalization": torch.tensor([1.0, 1.0, float("nan"), 1.0])}, "of vertex 2 is nan"),
        ({"personalization": torch.zeros(4)}, r"sums to 0\.0"),
        ({"personalization": {4: 1.0}}, "names vertex 4, but vertices are numbered 0 to 3"),
        ({"gpu_budget": "much"}, "not a size in bytes: 'much'"),
    ],
)
def test_wrong_arguments(options, sentence):
    graph = hl.from_edges(torch.arange(3), torch.arange(1, 4))
    with pytest.raises(ConfigError, match=sentence):
        hl.pagerank(graph, **options)


def test_a_graph_prepared_without_in_neighbours():
    graph = hl.from_edges(torch.arange(3), torch.arange(1, 4))
    with (
        hl.prepare(graph, device="cpu", algorithms="sssp") as prepared,
        pytest.raises(ConfigError, match="algorithms='pagerank'"),
    ):
        hl.pagerank(prepared)


@pytest.fixture
def graph():
    return skewed(50, 200)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda s: s.index_fill(0, torch.tensor([7]), -0.1), "rule 1: vertex 7 has score -0.1"),
        (lambda s: s.index_fill(0, torch.tensor([7]), torch.nan), "rule 1: vertex 7 has score nan"),
        (lambda s: s * 1.5, r"rule 2: scores sum to 1\.(5|49)\d*, which"),
        (lambda s: s.flip(0), "rule 3: a further step changes scores by"),
        (lambda s: s[:3], "the graph has 50 vertices"),
    ],
)
def test_tampering_is_found(graph, change, sentence):
    result = hl.pagerank(graph, device="cpu")
    verify_pagerank(graph, result)
    with pytest.raises(VerificationError, match=sentence):
        verify_pagerank(graph, dataclasses.replace(result, scores=change(result.scores)))


def test_verifier_knows_damping_and_personalization(graph):
    p = {3: 1.0}
    result = hl.pagerank(graph, 0.5, personalization=p, device="cpu")
    verify_pagerank(graph, result, 0.5, personalization=p)
    for options in ({"damping": 0.6, "personalization": p}, {"damping": 0.5}, {"damping": 0.5, "personalization": {4: 1.0}}):
        with pytest.raises(VerificationError, match="rule 3"):
            verify_pagerank(graph, result, **options)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize("wide", [False, True])
def test_a_gpu_finds_what_the_cpu_finds(kind, wide):
    graph = family(kind, 16)
    graph = with_wide_lists(graph) if wide else graph
    results = [hl.pagerank(graph, device=device, dtype=torch.float64) for device in ("cpu", "cuda")]
    assert results[0].iterations == results[1].iterations
    assert torch.allclose(results[0].scores, results[1].scores.cpu(), rtol=1e-10, atol=0)
    narrow = hl.pagerank(graph, device="cuda")
    assert float((narrow.scores.double() - results[1].scores).abs().sum()) < 1e-6


@pytest.mark.gpu
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize(("name", "dtype"), [("pagerank", torch.float32), ("pagerank-float64", torch.float64)])
def test_a_budget_bounds_what_is_taken(directed, name, dtype):
    vertices = 300_000
    graph = skewed(vertices, 4 * vertices, symmetrize=not directed)
    graph.transpose()
    p = torch.arange(vertices).double()
    expected = hl.pagerank(graph, device="cpu", dtype=torch.float64, personalization=p).scores
    extras = (2048, 8 * vertices + (3 << 20), 24 * vertices + (6 << 20), 1 << 30)
    for result in within_budgets(name, graph, lambda graph: hl.pagerank(graph, dtype=dtype, personalization=p), extras):
        assert float((result.scores.cpu().double() - expected).abs().sum()) < 1e-5


def check_pagerank(case, form, run, personal=False):
    if personal and not case.vertices:
        return  # nobody to prefer
    options = {"damping": DAMPING, "tolerance": 1e-9, "max_iterations": 1000}
    result = run(hl.pagerank, **options, personalization=case.personal if personal else None)
    assert result.converged and result.scores.dtype == torch.float64
    expected = case.personal_ranks if personal else case.uniform_ranks
    assert np.abs(result.scores.cpu().numpy() - expected).sum() < 1e-9 / (1 - DAMPING) + 1e-12


EVERYWHERE = [
    Everywhere("pagerank", check_pagerank, planned_as="pagerank-float64"),
    Everywhere("pagerank", functools.partial(check_pagerank, personal=True), "personal", planned_as="pagerank-float64"),
]
