"""Edges to CSR, against numpy's sorts and scipy's sums over the same edges."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hinterland.graph import Graph, from_edges, simplify
from hinterland.graph.arrays import WEIGHT_TYPES
from hinterland.runtime.errors import ConfigError, GraphError

OPTIONS = ("symmetrize", "remove_self_loops", "remove_duplicates", "sort_neighbors")


def expected(src, dst, weights, n, symmetrize, remove_self_loops, remove_duplicates, sort_neighbors):
    """The three arrays, by sorting the whole list of entries."""
    keys = np.arange(len(src)) if weights is None else weights
    rows, cols = (np.stack(pair, 1).ravel() for pair in ((src, dst), (dst, src)))
    keys = np.repeat(keys, 2)
    mirror = np.tile([False, True], len(src))
    loops = rows == cols
    stay = (~mirror | (symmetrize & ~loops)) & ~(loops & remove_self_loops)
    rows, cols, keys = rows[stay], cols[stay], keys[stay]
    by_number = sort_neighbors or remove_duplicates
    order = np.lexsort((keys, cols, rows)) if by_number else np.argsort(rows, kind="stable")
    rows, cols, keys = rows[order], cols[order], keys[order]
    if remove_duplicates:
        first = np.ones(len(rows), dtype=bool)
        first[1:] = (rows[1:] != rows[:-1]) | (cols[1:] != cols[:-1])
        rows, cols, keys = rows[first], cols[first], keys[first]
    indptr = np.concatenate([[0], np.bincount(rows, minlength=n).cumsum()])
    return indptr, cols, None if weights is None else keys


def assert_arrays(graph: Graph, arrays) -> None:
    indptr, indices, weights = arrays
    np.testing.assert_array_equal(graph.indptr.numpy(), indptr)
    np.testing.assert_array_equal(graph.indices.numpy(), indices)
    if weights is None:
        assert graph.weights is None
    else:
        np.testing.assert_array_equal(graph.weights.numpy(), weights)


@st.composite
def edge_lists(draw):
    n = draw(st.integers(1, 40))
    edges = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=120))
    src, dst = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    dtype = draw(st.sampled_from([None, np.int8, np.uint8, np.int16, np.int32, np.int64, np.float32, np.float64]))
    weights = None
    if dtype is not None:
        low = 0 if dtype == np.uint8 else -3
        weights = np.array(draw(st.lists(st.integers(low, 3), min_size=len(src), max_size=len(src))), dtype=dtype)
    return n, src, dst, weights, draw(st.sampled_from([np.int32, np.int64]))


def tensor(array):
    return None if array is None else torch.from_numpy(np.ascontiguousarray(array))


@settings(max_examples=300, deadline=None)
@given(edge_lists(), st.tuples(*[st.booleans()] * 4))
def test_every_option_agrees_with_sorting_the_list(edges, choices):
    n, src, dst, weights, dtype = edges
    options = dict(zip(OPTIONS, choices, strict=True))
    graph = from_edges(tensor(src.astype(dtype)), tensor(dst.astype(dtype)), tensor(weights), num_vertices=n, **options)
    assert_arrays(graph, expected(src, dst, weights, n, **options))
    assert graph.directed is not options["symmetrize"]


@settings(max_examples=150, deadline=None)
@given(edge_lists(), st.tuples(*[st.booleans()] * 4))
def test_simplify_agrees_with_building_anew(edges, choices):
    n, src, dst, weights, _ = edges
    options = dict(zip(OPTIONS, choices, strict=True))
    plain = from_edges(tensor(src), tensor(dst), tensor(weights), num_vertices=n, sort_neighbors=False)
    rows = np.repeat(np.arange(n), plain.degrees().numpy())
    held = None if plain.weights is None else plain.weights.numpy()
    assert_arrays(simplify(plain, **options), expected(rows, plain.indices.numpy(), held, n, **options))


@pytest.mark.parametrize("dtype", WEIGHT_TYPES)
def test_every_weight_type_orders_as_its_numbers_do(dtype):
    numbers = [3, 1, 2, 0] if not dtype.is_signed else [-2, 3, -1, 0, 2, -3]
    weights = torch.tensor(numbers, dtype=torch.int64).to(dtype)
    zero = torch.zeros(len(numbers), dtype=torch.int64)
    graph = from_edges(zero, zero, weights)
    assert graph.weights.dtype == dtype
    assert graph.weights.to(torch.int64).tolist() == sorted(numbers)
    lightest = from_edges(zero, zero, weights, remove_duplicates=True)
    assert lightest.weights.to(torch.int64).tolist() == [min(numbers)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sorted_weights_keep_their_bits(dtype):
    values = torch.tensor([0.5, -0.0, 0.0, float("inf"), float("-inf"), 1e-45, -1e-45, -7.25], dtype=dtype)
    zero = torch.zeros(len(values), dtype=torch.int32)
    weights = from_edges(zero, zero, values).weights
    expected_order = torch.tensor([4, 7, 6, 1, 2, 5, 0, 3])
    assert torch.equal(weights.view(torch.uint8), values[expected_order].view(torch.uint8))


def random_edges(n: int, count: int, seed: int = 1):
    generator = torch.Generator().manual_seed(seed)
    # Squared, so that some rows are much longer than others.
    ends = (torch.rand(2, count, generator=generator, dtype=torch.float64) ** 2 * n).long()
    return ends[0], ends[1], torch.rand(count, generator=generator)


def test_large_graph_agrees_with_scipy():
    n, count = 50_000, 400_000
    src, dst, weights = random_edges(n, count)
    graph = from_edges(src, dst, weights.double(), num_vertices=n)
    theirs = scipy.sparse.coo_array((weights.double().numpy(), (src.numpy(), dst.numpy())), shape=(n, n)).tocsr()
    ours = scipy.sparse.csr_array((graph.weights.numpy(), graph.indices.numpy(), graph.indptr.numpy()), shape=(n, n))
    assert graph.num_edges == count
    ours.sum_duplicates()
    assert abs(ours - theirs).max() < 1e-12


def test_any_number_of_threads_gives_the_same_graph(set_threads):
    src, dst, weights = random_edges(20_000, 300_000)
    built = []
    for threads in (1, 2, 5):
        set_threads(threads)
        for sort_neighbors in (True, False):
            built.append(from_edges(src, dst, weights, symmetrize=True, sort_neighbors=sort_neighbors))
    for graph, first in zip(built[2:], built[:2] * 2, strict=True):
        assert torch.equal(graph.indptr, first.indptr)
        assert torch.equal(graph.indices, first.indices)
        assert torch.equal(graph.weights, first.weights)


@pytest.mark.parametrize("weighted", [False, True])
def test_one_huge_row_is_sorted_by_all_threads(weighted, set_threads):
    leaves = (1 << 20) + 321
    order = torch.randperm(leaves, generator=torch.Generator().manual_seed(3)) + 1
    twice = torch.cat([order, order[:1000]])
    hub = torch.zeros_like(twice)
    weights = (twice * 7 % 1001).int() if weighted else None
    set_threads(3)
    graph = from_edges(hub, twice, weights, remove_duplicates=True)
    assert torch.equal(graph.indices, torch.arange(1, leaves + 1, dtype=torch.int32))
    if weighted:
        assert torch.equal(graph.weights, (torch.arange(1, leaves + 1) * 7 % 1001).int())


@pytest.mark.parametrize("n", [0, 1, 5])
def test_no_edges(n):
    none = torch.empty(0, dtype=torch.int64)
    graph = from_edges(none, none, num_vertices=n, symmetrize=True, remove_duplicates=True)
    assert (graph.num_vertices, graph.num_edges) == (n, 0)
    assert graph.indptr.tolist() == [0] * (n + 1)
    assert from_edges(none, none).num_vertices == 0


def test_a_star_mirrored():
    star = from_edges(torch.zeros(99, dtype=torch.int32), torch.arange(1, 100, dtype=torch.int32), symmetrize=True)
    assert star.degrees().tolist() == [99] + [1] * 99
    assert not star.indices[99:].any()


def test_number_of_vertices_is_one_past_the_largest():
    assert from_edges(torch.tensor([0, 7]), torch.tensor([3, 1])).num_vertices == 8
    assert from_edges(torch.tensor([0]), torch.tensor([1]), num_vertices=10).num_vertices == 10


def test_mixed_and_narrow_integer_types_are_taken():
    graph = from_edges(torch.tensor([0, 1], dtype=torch.uint8), torch.tensor([1, 2], dtype=torch.int16))
    assert graph.indices.tolist() == [1, 2]
    strided = torch.tensor([[0, 1], [1, 2]]).T
    assert from_edges(strided[0], strided[1]).indices.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("src", "dst", "options", "says"),
    [
        ([0, 3], [1, 1], {"num_vertices": 3}, r"edge 1 joins vertices 3 and 1.*from 0 to 2"),
        ([0, 0, 0], [1, -2, -2], {}, r"edge 1 joins vertices 0 and -2"),
        ([0, 2**40], [1, 1], {"num_vertices": 5}, r"edge 1 joins vertices 1099511627776 and 1"),
        ([0, 1], [1], {}, r"src has 2 elements and dst 1"),
        ([[0]], [[1]], {}, r"src has shape \(1, 1\)"),
        ([0.0], [1.0], {}, r"src holds torch.float32"),
        ([0], [1], {"weights": torch.tensor([float("nan")])}, r"weights\[0\] is NaN"),
        ([0], [1], {"weights": torch.tensor([1, 2])}, r"weights have shape \(2,\), but there are 1 edges"),
        ([0], [1], {"weights": torch.tensor([1j])}, r"weights hold torch.complex64"),
    ],
)
def test_wrong_edges_get_a_sentence(src, dst, options, says):
    with pytest.raises(GraphError, match=says):
        from_edges(torch.tensor(src), torch.tensor(dst), **options)


def test_first_wrong_edge_is_named_whatever_the_threads():
    src = torch.zeros(500_000, dtype=torch.int64)
    src[[123_456, 400_000]] = -1
    with pytest.raises(GraphError, match="edge 123456 joins"):
        from_edges(src, torch.zeros_like(src), symmetrize=True)


def test_wrong_options_get_a_sentence():
    with pytest.raises(ConfigError, match="negative: -1"):
        from_edges(torch.tensor([0]), torch.tensor([0]), num_vertices=-1)
    with pytest.raises(ConfigError, match="placement 'disk' of indptr is none of gpu"):
        from_edges(torch.tensor([0]), torch.tensor([0]), placement="disk")


@pytest.mark.gpu
@pytest.mark.parametrize("duplicates", [False, True])
def test_arrays_go_where_they_are_placed(duplicates):
    src, dst, weights = random_edges(1000, 5000)
    place = {"indptr": "gpu", "indices": "managed", "weights": "pinned"}
    graph = from_edges(src, dst, weights, placement=place, remove_duplicates=duplicates)
    assert graph.placement == place
    plain = from_edges(src, dst, weights, placement="pageable", remove_duplicates=duplicates)
    for name in place:
        assert torch.equal(graph.array(name, "cuda").cpu(), plain.array(name))
        assert torch.equal(graph.array(name, "cpu"), plain.array(name))
