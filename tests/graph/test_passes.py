"""Passes over arrays before and after a run, and that on a CPU none of a call's is a loop of PyTorch's."""

from __future__ import annotations

import importlib
import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import hinterland as hl
from hinterland import _core
from hinterland.graph import passes
from hinterland.graph.edge_list import edge_list

from .cases import RECORDS, call

sswp = importlib.import_module("hinterland.graph.sswp")  # the name is the function's
PIECE = 1 << 14
SIZES = (*range(5), 63, 64, 65, PIECE - 1, PIECE, PIECE + 1, 20 * PIECE + 3, 2**19)  # from 17 pieces on threads share them


@pytest.fixture(autouse=True)
def four_threads(set_threads):
    set_threads(4)


def spread(values, count, dtype):
    """``count`` elements: ``values`` at random, the last one at the end."""
    some = torch.tensor(values, dtype=dtype)
    found = some[torch.randint(len(values), (count,))]
    found[count - 1 :] = some[-1]
    return found


@pytest.mark.parametrize("count", SIZES)
def test_arrays_are_filled(device, count):
    for dtype, value in ((torch.int32, -1), (torch.int32, 0x7F800000), (torch.int64, -(2**62) - 1), (torch.float64, 0)):
        found = passes.full(count, value, dtype, torch.device(device))
        assert found.dtype == dtype and found.device == torch.device(device)
        assert torch.equal(found.cpu(), torch.full((count,), value, dtype=dtype))
    around = torch.zeros(count + 2, dtype=torch.int32, device=device)
    passes.fill(around[1:-1], 7)
    assert around.cpu().tolist() == [0, *[7] * count, 0]


@pytest.mark.parametrize("count", SIZES)
def test_values_are_multiplied(device, count):
    values = torch.rand(count, dtype=torch.float64)
    found = values.to(device, copy=True)
    passes.scale(found, 0.3)
    assert torch.equal(found.cpu(), values * 0.3)


@pytest.mark.parametrize("value", [0.25, -1.0, float("inf"), 1 / 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_floats_are_filled(device, dtype, value):
    assert torch.equal(
        passes.full(20 * PIECE + 3, value, dtype, device).cpu(), torch.full((20 * PIECE + 3,), value, dtype=dtype)
    )


@pytest.mark.parametrize("count", SIZES)
def test_vectors_between_products(device, count):
    """On the CPU elements are PyTorch's to the bit, and sums too where it takes them by one thread. GPUs divide by way of
    reciprocals."""
    left, right = (torch.rand(count, dtype=torch.float64) - 0.5 for _ in range(2))
    right[::3] = 0
    a, b = left.to(device), right.to(device)
    assert torch.equal(passes.product(a, b).cpu(), left * right)
    assert torch.equal(passes.shares(0.85, b).cpu(), torch.where(right == 0, 0.0, 0.85 / right))
    assert torch.equal(passes.add(a.clone(), 0.3, b).cpu(), left + 0.3 * right)
    exactly = device.type == "cpu"
    torch.testing.assert_close(passes.divide(a.clone(), 0.7).cpu(), left / 0.7, rtol=0 if exactly else 1e-15, atol=0)
    sums = {
        passes.total(a): left.sum(),
        passes.total(a, where=b): left[right == 0].sum(),
        passes.length(a): left.norm(),
        passes.distance(a, b): (left - right).abs().sum(),
    }
    for found, known in sums.items():
        assert found == pytest.approx(float(known), rel=1e-12, abs=1e-10)
        assert count >= 2**15 or not exactly or found == float(known)


@pytest.mark.parametrize("count", [2, 2**15])
@pytest.mark.parametrize("size", [1e-320, 1e-200, 1e-140, 1e140, 1e200, 1e300])
def test_lengths_whose_squares_are_beyond_the_floats(device, count, size):
    values = torch.full((count,), size, dtype=torch.float64, device=device)
    assert passes.length(values) == pytest.approx(math.hypot(*[size] * count), rel=1e-12)
    assert passes.length(values * 0) == 0


def test_sums_are_the_same_by_any_number_of_threads():
    values = torch.rand(2**19, dtype=torch.float64)
    found = []
    for threads in (1, 2, 5):
        _core.set_num_threads(threads)
        found.append((passes.total(values), passes.length(values), passes.distance(values, values.flip(0))))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("count", [*SIZES, *range(5, 40)])
def test_labels_are_widened_where_they_lie(device, count):
    memory = torch.empty(count, dtype=torch.int64, device=device)
    labels = memory.view(torch.int32)[:count]
    known = torch.randint(0, 2**31 - 1, (count,), dtype=torch.int32)
    labels.copy_(known)
    assert torch.equal(passes.widened(labels, memory).cpu(), known.long())


@given(st.sampled_from(SIZES), st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=20))
@example(20 * PIECE + 3, [0, 1, 2**31 - 1, 2**31, 2**32 - 3, 2**32 - 1])
@example(20 * PIECE + 3, [0, 2**32 - 1, 2**32 - 2])
@example(1, [2**32 - 2])
def test_keys_of_four_bytes_as_distances(count, values):
    keys = spread([value - 2**32 if value >= 2**31 else value for value in values], count, torch.int32)
    known = keys.numpy().view(np.uint32).astype(np.int64)
    found, at = passes.distances(keys)
    assert found.dtype == torch.int64
    assert np.array_equal(found.numpy(), np.where(known == 2**32 - 1, -1, known))
    assert at == next(iter(np.flatnonzero(known == 2**32 - 2)), -1)


@given(st.sampled_from(SIZES), st.lists(st.integers(-2, 2**63 - 1), min_size=1, max_size=20))
@example(20 * PIECE + 3, [0, -1, 2**63 - 1])
@example(20 * PIECE + 3, [0, -1, -2])
def test_keys_of_eight_bytes_are_distances(count, values):
    keys = spread(values, count, torch.int64)
    found, at = passes.distances(keys)
    assert found is keys and at == next(iter(np.flatnonzero(keys.numpy() == -2)), -1)


def test_distances_on_every_device(device):
    for dtype in (torch.int32, torch.int64):
        keys = torch.tensor([0, -1, 2**31 - 1, 5], dtype=dtype)
        found, at = passes.distances(keys.to(device))
        assert found.tolist() == [0, -1, 2**31 - 1, 5] and at == -1
        keys[2] = -2
        assert passes.distances(keys.to(device))[1] == 2
    assert passes.distances(torch.tensor([-3], dtype=torch.int32, device=device))[0].tolist() == [2**32 - 3]


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64, torch.float32, torch.float64])
def test_widths_are_what_keys_were_made_of(device, count, dtype):
    if dtype.is_floating_point:
        tiny, unset = torch.finfo(dtype).smallest_normal / 4, float("-inf")
        known = [float("inf"), torch.finfo(dtype).max, 1.5, tiny, 0.0, -tiny, -1.5, torch.finfo(dtype).min]
    else:
        least, unset = torch.iinfo(dtype).min, -(2**63)
        known = [0, 1, torch.iinfo(dtype).max] + [least + 1, -1] * (least < 0)
    key_type = torch.int64 if dtype.itemsize == 8 else torch.int32
    made = [sswp._key(value, dtype) for value in known] + [sswp._unset(dtype) % 2 ** (8 * key_type.itemsize)]
    signed = [key - 2 ** (8 * key_type.itemsize) if key > torch.iinfo(key_type).max else key for key in made]
    which = torch.randint(len(signed), (count,))
    found = passes.widths(torch.tensor(signed, dtype=key_type)[which].to(device), dtype)
    of = torch.tensor([*known, unset], dtype=dtype if dtype.is_floating_point else torch.int64)
    assert found.dtype == of.dtype and torch.equal(found.cpu(), of[which])


class Loops(TorchDispatchMode):
    """Notes what PyTorch does to more elements than it leaves to one thread."""

    at_least = 1 << 15
    by_position = ("aten.index.Tensor", "aten.index_put_.default")  # which take as long as there are positions

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        name, returns = str(func), [one.alias_info for one in func._schema.returns]
        view = bool(returns) and all(alias is not None and not alias.is_write for alias in returns)
        shown = tree_leaves(args[1:] if name in self.by_position else (args, kwargs, made))
        large = any(isinstance(one, torch.Tensor) and one.numel() >= self.at_least for one in shown)
        if large and not view and not name.startswith("aten.empty"):
            self.seen.add(name)
        return made


CALLS = {
    **{name: partial(call, record) for name, record in RECORDS.items()},
    "weighted_pagerank": lambda g: hl.graph.weighted_pagerank(g),
    "hits": lambda g: hl.graph.hits(g, max_iterations=5),
    "katz": lambda g: hl.graph.katz_centrality(g, alpha=1e-3, weighted=True),
    "eigenvector": lambda g: hl.graph.eigenvector_centrality(g, weighted=True, max_iterations=5),
}
PREPARED_FOR = {"pagerank": "pagerank"} | dict.fromkeys(["weighted_pagerank", "hits", "katz", "eigenvector"], "spmv")
WEIGHTED = [name for name, record in RECORDS.items() if record.weights == "needed"]


TYPES = [torch.uint8, torch.int32, torch.int64, torch.float32, torch.float64]


SANITIZED = ("bfs", "msbfs", "sssp")  # enough for what is native: the end of the records


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(name, dtype, marks=() if name in SANITIZED and dtype == torch.uint8 else pytest.mark.unsanitized)
        for name in CALLS
        for dtype in (TYPES if name in WEIGHTED else TYPES[:1])
    ],
)
def test_no_call_has_a_loop_of_pytorchs(name, dtype):
    """On a long grid of 2^17 vertices, which takes more steps than have records; the second call, as the first looks at the
    weights once."""
    made = hl.generate("grid", rows=1 << 3, cols=1 << 14, permute=False, weights="uint8")
    graph = hl.Graph(made.indptr, made.indices, made.weights.to(dtype), directed=False)
    with hl.prepare(graph, None, "cpu", algorithms=PREPARED_FOR.get(name, "bfs"), weighted=True) as prepared:
        for given in (graph, prepared):
            CALLS[name](given)
            with Loops() as loops:
                CALLS[name](given)
            assert not loops.seen


BUILT = {
    "edges": lambda g, src, dst, weights: edge_list(g),
    "graph": lambda g, src, dst, weights: hl.from_edges(src, dst, weights, num_vertices=g.num_vertices, remove_duplicates=True),
    "transposed": lambda g, src, dst, weights: hl.from_edges(src, dst, num_vertices=g.num_vertices).transpose(),
    "packed": lambda g, src, dst, weights: hl.compress(g),
    "by degree": lambda g, src, dst, weights: hl.reorder(g, by="degree"),
    "by search": lambda g, src, dst, weights: hl.reorder(g, by="bfs"),
    "cuthill": lambda g, src, dst, weights: hl.reorder(g, by="rcm"),
    "triangles": lambda g, src, dst, weights: hl.graph.triangles(g),
    "cores": lambda g, src, dst, weights: hl.graph.core_numbers(g),
}


@pytest.mark.unsanitized
@pytest.mark.parametrize("name", BUILT)
def test_nothing_is_built_or_counted_by_a_loop_of_pytorchs(name):
    made = hl.generate("grid", rows=1 << 3, cols=1 << 13, permute=False, weights="uint8")
    graph = hl.Graph(made.indptr, made.indices, made.weights, directed=False)
    listed = edge_list(graph)
    with Loops() as loops:
        BUILT[name](graph, *listed)
    assert not loops.seen


def test_loops_of_pytorchs_are_noted():
    with Loops() as loops:
        large = torch.empty(Loops.at_least, dtype=torch.int32)
        large.view(torch.uint8)[8:].view(-1, 2)
        torch.zeros(Loops.at_least - 1)
        assert not loops.seen
        large.fill_(3)
        large.max()
        torch.zeros(Loops.at_least)
    assert loops.seen == {"aten.fill_.Scalar", "aten.max.default", "aten.zeros.default"}
