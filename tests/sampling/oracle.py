"""What every sample must be, recomputed in numpy."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import strategies as st

import hinterland as hl


@st.composite
def small_graphs(draw):
    """Of up to 9 vertices and 40 edges, some of them parallel, with weights from 0 to 3."""
    vertices = draw(st.integers(1, 9))
    edges = draw(st.lists(st.tuples(*[st.integers(0, vertices - 1)] * 2, st.integers(0, 3)), max_size=40))
    columns = [torch.tensor([edge[k] for edge in edges], dtype=torch.int64) for k in range(3)]
    return hl.from_edges(*columns, num_vertices=vertices)


def in_time(time, limit, window):
    """Whether a neighbour of a time may be drawn."""
    return time <= limit and (window is None or limit - window <= time)


def later(of_vertices, vertex, of_edges, edge):
    """The moment from which on a neighbour is there, by what times there are."""
    return max(int(times[at]) for times, at in ((of_vertices, vertex), (of_edges, edge)) if times is not None)


def same(one, other):
    """Whether two samples are equal in every field, wherever they lie."""
    for name in ("node", "row", "col", "edge"):
        np.testing.assert_array_equal(getattr(one, name).cpu().numpy(), getattr(other, name).cpu().numpy(), err_msg=name)
    assert one.num_sampled_nodes == other.num_sampled_nodes and one.num_sampled_edges == other.num_sampled_edges
    for name in ("batch", "weight"):
        left, right = getattr(one, name), getattr(other, name)
        assert (left is None) == (right is None)
        if left is not None:
            np.testing.assert_array_equal(left.cpu().numpy(), right.cpu().numpy(), err_msg=name)


def check(
    sample,
    graph,
    seeds,
    fanouts,
    *,
    replace=False,
    weighted=False,
    disjoint=False,
    times=None,
    edge_times=None,
    limits=None,
    window=None,
    last=False,
):
    """Everything about a sample that is not random, for a graph that is not reordered."""
    indptr, indices = graph.indptr.cpu().numpy(), graph.indices.cpu().numpy()
    node, row, col, edge = (getattr(sample, name).cpu().numpy() for name in ("node", "row", "col", "edge"))
    seeds = np.asarray(seeds, dtype=np.int64)
    count = len(seeds)
    assert node.dtype == row.dtype == col.dtype == edge.dtype == np.int64
    assert len(sample.num_sampled_nodes) == len(fanouts) + 1 and len(sample.num_sampled_edges) == len(fanouts)
    assert sum(sample.num_sampled_nodes) == len(node) and sum(sample.num_sampled_edges) == len(row) == len(col) == len(edge)
    np.testing.assert_array_equal(node[:count], seeds)
    assert sample.num_sampled_nodes[0] == count

    # Edges are edges of the graph, drawn by the vertex that holds them.
    np.testing.assert_array_equal(indices[edge], node[row])
    np.testing.assert_array_equal(np.searchsorted(indptr, edge, side="right") - 1, node[col])

    # Subtrees.
    tree = np.zeros(len(node), dtype=np.int64)
    if disjoint:
        tree = sample.batch.cpu().numpy()
        np.testing.assert_array_equal(tree[:count], np.arange(count))
        np.testing.assert_array_equal(tree[row], tree[col])
    else:
        assert sample.batch is None
    assert sample.weight is None

    # Numbers in order of first appearance, no vertex twice.
    numbers = {}
    for i in range(count):
        numbers.setdefault((tree[i], node[i]), i)
    following = count
    hop_of = np.repeat(np.arange(len(fanouts)), sample.num_sampled_edges)
    added = [0] * len(fanouts)
    for e, v in enumerate(zip(tree[row], node[row], strict=True)):
        if v not in numbers:
            numbers[v] = following
            following += 1
            added[hop_of[e]] += 1
        assert row[e] == numbers[v]
    assert following == len(node) and added == sample.num_sampled_nodes[1:]

    # What may be drawn, and how many are.
    allowed = np.ones(len(indices), dtype=bool)
    if weighted:
        allowed &= graph.weights.cpu().numpy() > 0
    there_from = np.full(len(indices), -(2**63))
    if times is not None:
        there_from = times[indices]
    if edge_times is not None:
        there_from = np.maximum(there_from, edge_times)
    begin = edges_before = 0
    for hop, fanout in enumerate(fanouts):
        end = begin + sample.num_sampled_nodes[hop]
        edges = slice(edges_before, edges_before + sample.num_sampled_edges[hop])
        assert (np.diff(col[edges]) >= 0).all()
        drawn = {}
        for e in range(edges.start, edges.stop):
            drawn.setdefault(col[e], []).append(edge[e])
        assert all(begin <= v < end for v in drawn)
        for v in range(begin, end):
            positions = np.arange(indptr[node[v]], indptr[node[v] + 1])
            positions = positions[allowed[positions]]
            if limits is not None:
                positions = [p for p in positions if in_time(int(there_from[p]), int(limits[tree[v]]), window)]
            got = drawn.get(v, [])
            assert set(got) <= set(positions)
            if fanout < 0:
                np.testing.assert_array_equal(got, positions)
            elif replace:
                assert len(got) == (fanout if len(positions) else 0)
            else:
                assert len(got) == len(set(got)) == min(fanout, len(positions))
            if last and fanout >= 0:
                newest = sorted(positions, key=lambda p: (-there_from[p], p))[:fanout]
                np.testing.assert_array_equal(got, newest)
        begin, edges_before = end, edges.stop


def same_hetero(one, other):
    """Whether two heterogeneous samples are equal in every field, wherever they lie."""
    for name in ("node", "row", "col", "edge", "batch"):
        left, right = getattr(one, name), getattr(other, name)
        assert (left is None) == (right is None)
        assert list(left or ()) == list(right or ())
        for key in left or ():
            np.testing.assert_array_equal(left[key].cpu().numpy(), right[key].cpu().numpy(), err_msg=f"{name} {key}")
    assert one.num_sampled_nodes == other.num_sampled_nodes and one.num_sampled_edges == other.num_sampled_edges


def check_hetero(
    sample, graphs, seeds, fanouts, *, replace=False, disjoint=False, times=None, edge_times=None, limits=None, window=None
):
    """Everything about a heterogeneous sample that is not random: a search that follows the edges that were drawn."""
    row, col, edge = ({k: v.cpu().numpy() for k, v in getattr(sample, n).items()} for n in ("row", "col", "edge"))
    found, numbers, trees = {t: [] for t in sample.node}, {t: {} for t in sample.node}, {t: [] for t in sample.node}
    tree = 0
    for kind, given in seeds.items():
        for v in np.asarray(given, dtype=np.int64).tolist():
            found[kind].append(v)
            trees[kind].append(tree)
            numbers[kind].setdefault((tree if disjoint else 0, v), len(found[kind]) - 1)
            tree += 1
    sizes = {t: [len(found[t])] for t in found}
    frontiers = {t: (0, len(found[t])) for t in found}
    read = dict.fromkeys(graphs, 0)
    for hop in range(len(next(iter(fanouts.values())))):
        for name, graph in graphs.items():
            src, _, dst = name
            indptr, indices, fanout = graph.indptr.numpy(), graph.indices.numpy(), fanouts[name][hop]
            first = read[name]
            for v in range(*frontiers[dst]):
                own = trees[dst][v] if disjoint else 0
                positions = np.arange(indptr[found[dst][v]], indptr[found[dst][v] + 1])
                of_vertices, of_edges = (times or {}).get(src), (edge_times or {}).get(name)
                if of_vertices is not None or of_edges is not None:
                    there_from = {p: later(of_vertices, indices[p], of_edges, p) for p in positions}
                    positions = [p for p in positions if in_time(there_from[p], int(limits[own]), window)]
                count = len(positions) if fanout < 0 else fanout if replace and len(positions) else min(fanout, len(positions))
                drawn = edge[name][read[name] : read[name] + count]
                assert len(drawn) == count and set(drawn) <= set(positions)
                assert replace or len(set(drawn)) == count
                assert (col[name][read[name] : read[name] + count] == v).all()
                for at in range(read[name], read[name] + count):
                    key = (own, int(indices[edge[name][at]]))
                    if key not in numbers[src]:
                        numbers[src][key] = len(found[src])
                        found[src].append(key[1])
                        trees[src].append(own)
                    assert row[name][at] == numbers[src][key]
                read[name] += count
            assert sample.num_sampled_edges[name][hop] == read[name] - first
        for t in found:
            frontiers[t] = (frontiers[t][1], len(found[t]))
            sizes[t].append(frontiers[t][1] - frontiers[t][0])
    assert sizes == sample.num_sampled_nodes
    for t in found:
        assert found[t] == sample.node[t].tolist()
        if disjoint:
            assert trees[t] == sample.batch[t].tolist()
    assert disjoint or sample.batch is None
    assert {name: len(edges) for name, edges in edge.items()} == read
