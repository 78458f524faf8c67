"""Small graphs, drawn or of a shape, and the levels of their vertices."""

import numpy as np
import scipy.sparse as sp
import torch
from hypothesis import strategies as st
from scipy.sparse.csgraph import shortest_path

import hinterland as hl


def chain(vertices):
    return hl.from_edges(torch.arange(vertices - 1), torch.arange(1, vertices), symmetrize=True)


def star(leaves):
    return hl.from_edges(torch.zeros(leaves, dtype=torch.int64), torch.arange(1, leaves + 1), symmetrize=True)


def expected_levels(graph, source):
    """From a source, or from each of a list, as scipy finds them; -1 where there is no way."""
    indptr, indices = graph.indptr.cpu().numpy(), graph.indices.cpu().numpy()
    matrix = sp.csr_matrix((np.ones(len(indices)), indices, indptr), shape=(graph.num_vertices,) * 2)
    distance = shortest_path(matrix, unweighted=True, indices=source)
    return np.where(np.isinf(distance), -1, distance).astype(np.int32)


@st.composite
def any_graphs(draw, vertices=80, edges=300, **options):
    """Graphs of at most so many vertices and drawn edges, directed or not."""
    count = draw(st.integers(1, vertices))
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    ends = torch.tensor(draw(st.lists(pairs, max_size=edges)), dtype=torch.int64).reshape(-1, 2)
    return hl.from_edges(ends[:, 0], ends[:, 1], num_vertices=count, symmetrize=draw(st.booleans()), **options)
