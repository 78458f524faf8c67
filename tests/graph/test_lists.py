"""Neighbour lists without a graph around them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch

import hinterland as hl
from hinterland.graph import arrays
from hinterland.graph.device_graph import DeviceGraph, checked_view
from hinterland.graph.lists import NeighborLists
from hinterland.runtime.errors import GraphError
from hinterland.sampling import Adjacency

INDPTR, INDICES = torch.tensor([0, 2, 2, 5]), torch.tensor([1, 900, 0, 70, 2])


def test_they_may_name_what_has_no_list():
    lists = NeighborLists.checked(INDPTR, INDICES, None, "host", num_sources=1000)
    assert (lists.num_lists, lists.num_edges, lists.num_isolated) == (3, 5, 1) and lists.indices.dtype == torch.int32
    assert checked_view(lists).words and DeviceGraph(lists, torch.device("cpu")).edges.tolist() == INDICES.tolist()
    assert lists.packed(arrays.placements(lists.places)) is None
    for sources in (900, None):  # None: those that have lists
        with pytest.raises(GraphError, match="is 900, but the vertices"):
            NeighborLists.checked(INDPTR, INDICES, None, "host", num_sources=sources)


def test_an_adjacency_is_no_graph_and_shares_the_lists_of_one():
    assert isinstance(Adjacency(INDPTR, INDICES, 1000).neighbor_lists, NeighborLists)
    graph = hl.from_edges(torch.tensor([0, 0, 2]), torch.tensor([1, 2, 0]))
    assert Adjacency.of(graph, 3, 3).neighbor_lists is graph.neighbor_lists


def test_packed_and_plain_ones_are_the_same():
    graph = hl.random_weights(hl.generate("kronecker", scale=7, edge_factor=6, seed=2, device="cpu"))
    lists, places = graph.neighbor_lists, arrays.placements("pageable")
    packed = lists.packed(places)
    again = packed.plain(places)
    for made in (packed, again):
        assert made.num_edges == lists.num_edges and made.known_sorted and made.arrays["weights"].placement == "pageable"
        assert torch.equal(made.indices, lists.indices) and torch.equal(made.weights, lists.weights)
    assert list(packed.placement) == ["indptr", "packed_offsets", "packed", "weights"]  # as a graph is shown
    assert list(again.placement) == list(lists.placement) == ["indptr", "indices", "weights"]


def test_what_a_graph_keeps_to_itself_nobody_else_touches():
    root = Path(hl.__file__).parent
    own = {name for name in (*vars(hl.Graph), *vars(hl.Graph(INDPTR, INDICES % 3))) if name.startswith("_") and name[1] != "_"}
    own |= {"_arrays", "_order", "_outer", "_of", "_of_arrays", "_with_weights"}  # what these once were
    assert "_transposed" in own
    shared = {"_facts"}  # of Shown, which others are too
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())) if path.name != "graph.py" else ():
            if isinstance(node, ast.Attribute) and node.attr in own - shared:
                assert isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"), f"{path}: {ast.unparse(node)}"
