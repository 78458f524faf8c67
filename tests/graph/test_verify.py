"""The verifier accepts what is right and names the rule that each kind of tampering breaks."""

from __future__ import annotations

import pytest
import torch

import hinterland as hl
from hinterland.graph import verify_bfs
from hinterland.runtime.errors import ConfigError, GraphError, VerificationError

# A ladder with a tail: 0-1, 0-2, 1-3, 2-3, 3-4, and 5-6 apart.
EDGES = torch.tensor([(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (5, 6)])


@pytest.fixture(params=["plain", "compressed"])
def graph(request):
    plain = hl.from_edges(EDGES[:, 0], EDGES[:, 1], symmetrize=True)
    return plain if request.param == "plain" else hl.compress(plain)


@pytest.fixture
def result(graph):
    return hl.bfs(graph, 0, device="cpu")


def test_a_true_result_passes(graph, result):
    assert result.levels.tolist() == [0, 1, 1, 2, 3, -1, -1]
    verify_bfs(graph, 0, result)


def test_another_valid_tree_passes(graph, result):
    result.parents[3] = 2  # not the smallest parent, but a parent
    verify_bfs(graph, 0, result)


@pytest.mark.parametrize(
    ("levels", "parents", "sentence"),
    [
        ({0: 1}, {}, "rule 1: source 0 has level 1 and parent 0"),
        ({}, {0: 1}, "rule 1: source 0 has level 0 and parent 1"),
        ({4: -1}, {}, "rule 2: vertex 4 has level -1 and parent 3"),
        ({}, {4: -1}, "rule 2: vertex 4 has level 3 and parent -1"),
        ({}, {4: 7}, "rule 2: vertex 4 has level 3 and parent 7"),
        ({}, {4: -2}, "rule 2: vertex 4 has level 3 and parent -2"),
        ({5: -2}, {}, "rule 2: vertex 5 has level -2 and parent -1"),
        ({4: 4}, {}, "rule 3: vertex 4 has level 4, but its parent 3 has level 2"),
        ({}, {4: 1}, "rule 3: vertex 4 has level 3, but its parent 1 has level 1"),
        ({5: 1, 6: 2}, {5: 6, 6: 5}, "rule 3: vertex 5 has level 1, but its parent 6 has level 2"),
        ({}, {1: 5}, "rule 3: vertex 1 has level 1, but its parent 5 has level -1"),
        ({4: -1}, {4: -1}, r"rule 4: edge 3 -> 4 \(position 8\) leads from level 2 to a vertex that counts as unreachable"),
        ({4: 1}, {4: 0}, "rule 6: vertex 4 has parent 0, but no edge 0 -> 4 is in the graph"),
        ({5: 1, 6: 2}, {5: 0, 6: 5}, "rule 6: vertex 5 has parent 0, but no edge 0 -> 5 is in the graph"),
    ],
)
def test_tampering_is_found(graph, result, levels, parents, sentence):
    for vertex, level in levels.items():
        result.levels[vertex] = level
    for vertex, parent in parents.items():
        result.parents[vertex] = parent
    with pytest.raises(VerificationError, match=sentence):
        verify_bfs(graph, 0, result)


def test_a_longer_way_is_found(graph):
    """A tree of the graph that is not one of shortest paths: 0-1-3-2 instead of 0-2."""
    levels = torch.tensor([0, 1, 3, 2, 3, -1, -1], dtype=torch.int32)
    longer = hl.BfsResult(levels, torch.tensor([0, 0, 3, 1, 3, -1, -1]))
    with pytest.raises(VerificationError, match=r"rule 5: edge 0 -> 2 \(position 1\) leads from level 0 to level 3"):
        verify_bfs(graph, 0, longer)


def test_every_single_change_of_a_level_is_found():
    generator = torch.Generator().manual_seed(5)
    ends = torch.randint(0, 60, (2, 150), generator=generator)
    graph = hl.from_edges(ends[0], ends[1], num_vertices=60)
    truth = hl.bfs(graph, 3, device="cpu")
    for vertex in range(60):
        for change in (-1, 1):
            levels = truth.levels.clone()
            levels[vertex] += change
            with pytest.raises(VerificationError):
                verify_bfs(graph, 3, hl.BfsResult(levels, truth.parents))


def test_a_directed_edge_may_lead_back(device):
    graph = hl.from_edges(torch.tensor([0, 1, 2, 3]), torch.tensor([1, 2, 3, 0]))
    verify_bfs(graph, 0, hl.bfs(graph, 0, device=device))


def test_wrong_shapes_and_types(graph, result):
    with pytest.raises(VerificationError, match="the graph has 7 vertices"):
        verify_bfs(graph, 0, hl.BfsResult(result.levels[:3], result.parents))
    with pytest.raises(VerificationError, match="source 9 is not a vertex"):
        verify_bfs(graph, 9, result)
    with pytest.raises(ConfigError, match=r"parents torch\.int32"):
        verify_bfs(graph, 0, hl.BfsResult(result.levels, result.parents.int()))


def test_offsets_that_were_changed_are_found(graph, result):
    graph.indptr[3] = 11
    with pytest.raises(GraphError, match=r"indptr\[4\] is 9, less than indptr\[3\] = 11"):
        verify_bfs(graph, 0, result)
