"""Harmonic centrality: networkx, sums over distances, scaling, the verifier, and the command."""

from __future__ import annotations

import dataclasses
import json
import sys

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland import cli
from hinterland.graph import harmonic_centrality, verify_harmonic
from hinterland.runtime.errors import ConfigError, GraphError, IndexOutOfRange, VerificationError

from ..graphs import skewed, with_wide_edges
from .cases import Everywhere


def expected(graph: hl.Graph) -> list[float]:
    found = nx.harmonic_centrality(hl.graph.simplify(graph, remove_duplicates=True).to_networkx())
    return [found[v] for v in range(graph.num_vertices)]


@settings(max_examples=60, deadline=None)
@given(edges=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=40), symmetrize=st.booleans())
def test_random_graphs_against_networkx(edges, symmetrize):
    src, dst = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T
    graph = hl.from_edges(src, dst, num_vertices=12, symmetrize=symmetrize)
    result = harmonic_centrality(graph, device="cpu")
    assert result.scores.tolist() == pytest.approx(expected(graph))
    verify_harmonic(graph, result)


@pytest.mark.parametrize("form", [lambda graph: graph, with_wide_edges, hl.compress, lambda graph: hl.reorder(graph, "degree")])
@pytest.mark.parametrize("symmetrize", [False, True])
def test_scores_are_the_same_to_the_bit(device, form, symmetrize, set_threads):
    graph = skewed(300, 900, symmetrize=symmetrize)
    first = harmonic_centrality(graph, mode="top-down", device="cpu")
    np.testing.assert_allclose(first.scores.numpy(), expected(graph), rtol=1e-12)
    for threads in (1, 3):
        set_threads(threads)
        assert torch.equal(harmonic_centrality(form(graph), device=device).scores.cpu(), first.scores)


def test_a_sample_estimates_the_scores_of_all(device):
    graph = skewed(300, 4000, symmetrize=True)
    every = harmonic_centrality(graph, device=device)
    assert every.sources.tolist() == list(range(300))
    # As often as each vertex is a source in turn, estimates are right on the average.
    parts = [harmonic_centrality(graph, range(first, first + 50), device=device).scores for first in range(0, 300, 50)]
    own = torch.stack([parts[v // 50][v] * 49 / 299 for v in range(300)])
    rest = torch.stack([sum(part[v] for i, part in enumerate(parts) if i != v // 50) * 50 / 299 for v in range(300)])
    torch.testing.assert_close(own + rest, every.scores)
    drawn = harmonic_centrality(graph, 40, seed=7, device=device)
    assert len(set(drawn.sources.tolist())) == 40
    assert torch.equal(drawn.scores, harmonic_centrality(graph, drawn.sources, device=device).scores)
    assert (drawn.scores / every.scores - 1).abs().mean() < 0.1


def test_what_few_vertices_have(device):
    none = torch.tensor([], dtype=torch.int64)
    for vertices in (0, 1, 2):
        graph = hl.from_edges(none, none, num_vertices=vertices)
        assert harmonic_centrality(graph, device=device).scores.tolist() == [0] * vertices
    path = hl.from_edges(torch.tensor([0, 1]), torch.tensor([1, 2]))
    assert harmonic_centrality(path, device=device).scores.tolist() == [0, 1, 1.5]
    lone = harmonic_centrality(path, [0], device=device)
    assert lone.scores[0].isnan() and lone.scores[1:].tolist() == [2, 1]
    verify_harmonic(path, lone)
    assert harmonic_centrality(path, [], device=device).scores.tolist() == [0, 0, 0]


def test_stats_are_of_each_search(device):
    graph = skewed(200, 900)
    stats = harmonic_centrality(graph, device=device, stats=True).stats
    assert len(stats["searches"]) == 4 and stats["edges"] == sum(search["edges"] for search in stats["searches"]) > 0


def test_wrong_arguments():
    graph = skewed(40, 90)
    with pytest.raises(ConfigError, match="41 sources cannot be drawn from 40 vertices"):
        harmonic_centrality(graph, 41)
    with pytest.raises(ConfigError, match="source 3 is there more than once"):
        harmonic_centrality(graph, [3, 3])
    with pytest.raises(IndexOutOfRange, match="source 40 is not a vertex"):
        harmonic_centrality(graph, [40])
    with pytest.raises(ConfigError, match="mode 'up'"):
        harmonic_centrality(graph, mode="up")
    graph.indices[graph.indptr[int(graph.degrees().argmax())]] = 99
    with pytest.raises(GraphError, match="is broken"):
        harmonic_centrality(graph, device="cpu")


def test_the_verifier_finds_what_is_wrong():
    graph = skewed(60, 200)
    result = harmonic_centrality(graph, 20)
    verify_harmonic(graph, result)

    def changed(vertex, score):
        scores = result.scores.clone()
        scores[vertex] = score
        return dataclasses.replace(result, scores=scores)

    with pytest.raises(VerificationError, match="rule 1: vertex 7 has score nan"):
        verify_harmonic(graph, changed(7, float("nan")))
    with pytest.raises(VerificationError, match="rule 2: vertex 9 has score 1000.0, but"):
        verify_harmonic(graph, changed(9, 1000))
    with pytest.raises(VerificationError, match="rule 2"):
        verify_harmonic(graph, dataclasses.replace(result, sources=result.sources[1:]))
    with pytest.raises(ConfigError, match="must be float64"):
        verify_harmonic(graph, dataclasses.replace(result, scores=result.scores.float()))


def test_the_command(tmp_path, monkeypatch, capsys):
    graph, path, output = skewed(80, 300), tmp_path / "g.hl", tmp_path / "scores.npy"
    hl.save_graph(graph, path)
    words = [
        "hinterland",
        "harmonic",
        str(path),
        "--count",
        "30",
        "--seed",
        "4",
        "--device",
        "cpu",
        "--json",
        "--output",
        str(output),
    ]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code and json.loads(capsys.readouterr().out)["runs"][0]["count"] == 30
    assert np.array_equal(np.load(output), harmonic_centrality(graph, 30, seed=4, device="cpu").scores.numpy())


def check_harmonic(case, form, run):
    result = run(harmonic_centrality, case.sources)
    sums = np.zeros(case.vertices)
    for source in case.sources:
        levels = case.levels[source]
        sums[levels > 0] += 1 / levels[levels > 0]
    others, count = case.vertices - 1, len(case.sources)
    scores = result.scores.cpu().numpy()
    if others > 0:
        own = sums[case.sources] * others / (count - 1)
        sums *= others / count
        sums[case.sources] = own
    np.testing.assert_allclose(scores, sums, rtol=1e-12)


EVERYWHERE = [Everywhere("harmonic", check_harmonic)]
