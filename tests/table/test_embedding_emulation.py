"""What a GPU does with embedding bags, lane by lane on the CPU: the same header, so its threads are tested without a GPU."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hinterland import UnifiedTensor, _core
from hinterland.memory.faults import _IndexFault
from hinterland.runtime.jit import INCLUDE_DIR
from hinterland.runtime.params import address
from hinterland.table import embedding_launch as calls

TESTS = Path(__file__).resolve().parent.parent
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.fixture(scope="module")
def gpu(tmp_path_factory):
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    library = tmp_path_factory.mktemp("emulation") / "embedding.so"
    paths = ["-I", str(TESTS / "lanes"), "-I", str(INCLUDE_DIR)]
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-fsanitize=undefined"]
    source = str(Path(__file__).with_name("embedding_emulation.cpp"))
    subprocess.run(["g++", *flags, "-fno-sanitize-recover", *paths, source, "-o", library], check=True)
    return ctypes.CDLL(str(library))


def _call(function, params, dtype, wide, warps, *found):
    function.restype = None
    element = _core.ELEMENTS[calls._ELEMENTS[dtype]]
    function(ctypes.byref(params), *map(ctypes.c_int64, (element, wide, warps)), *found)


def _pool(gpu, table, bags, mode, weights, warps):
    rows = torch.empty(bags.count, table.shape[1], dtype=table.dtype)
    best = torch.empty(rows.shape, dtype=torch.int64) if mode == "max" else None
    counts = torch.empty(bags.count, dtype=torch.int64) if mode == "mean" else None
    params = calls._PoolParams(placement=table.reach(bags.index), dim=table.shape[1], bags=bags.of(len(table)))
    params.weights, params.pooled, params.best, params.counts = map(address, (weights, rows, best, counts))
    wide, params.lanes, params.steps = calls._cut(params.placement, rows)
    faults, flags = (_IndexFault * 2)(), (ctypes.c_int64 * 2)()
    _call(gpu.pool, params, table.dtype, wide, warps, faults, flags)
    return rows, best, counts, [[f.first, f.value, f.table_rows, f.count] for f in faults], list(flags)


def _update(gpu, table, state, given, rate, eps, warps):
    ordered, order = torch.sort(given.keys, stable=True)
    params = calls._UpdateParams(placement=table.reach(given.keys), dim=table.shape[1], rate=rate, eps=eps)
    params.state, params.state_dim = (0, 0) if state is None else (state.cpu().data_ptr(), state.shape[1])
    params.keys, params.key_bytes, params.order, params.count = ordered.data_ptr(), 4, order.data_ptr(), len(order)
    params.factor, params.best = address(given.factor), address(given.best)
    params.bag, params.gradient, params.bad = given.bag.data_ptr(), given.rows.data_ptr(), given.bad.data_ptr()
    wide, params.lanes, params.steps = calls._cut(params.placement, given.rows)
    _call(gpu.update, params, table.dtype, wide, warps)


@settings(deadline=None, max_examples=40)
@given(
    dtype=st.sampled_from(DTYPES),
    mode=st.sampled_from(["sum", "weighted", "mean", "max"]),
    rows=st.integers(1, 30),
    dim=st.integers(1, 40) | st.sampled_from([64, 100, 128, 132, 256, 300]),
    lengths=st.lists(st.integers(0, 20), min_size=1, max_size=12),
    wide=st.booleans(),
    warps=st.integers(1, 4),
    padded=st.booleans(),
    rule=st.sampled_from(["sgd", "adagrad", "rowwise"]),
    tiers=st.sampled_from([None, (0.2, 0.0), (0.2, 0.3), (0.0, 0.5), (1.0, 0.0)]),
    seed=st.integers(0, 999),
)
def test_lanes_do_what_the_cpu_does(gpu, dtype, mode, rows, dim, lengths, wide, warps, padded, rule, tiers, seed):
    torch.manual_seed(seed)
    ours = UnifiedTensor.from_tensor(torch.randn(rows, dim).to(dtype))
    theirs = below = UnifiedTensor.from_tensor(ours.cpu())
    if tiers is not None:
        local, peers = (int(share * below.nbytes) for share in tiers)
        theirs = below.tiered(local + 8 * rows + 2048, 2 * peers, order=torch.randperm(rows), devices=["cpu", "cpu"])
    count, offset = sum(lengths), torch.tensor([0, *lengths]).cumsum(0)
    index = torch.randint(0, rows, (count,), dtype=torch.int64 if wide else torch.int32)
    bags = calls.Bags(index, offset, True, 0, len(lengths), rows // 2 if padded else -1)
    if seed % 3 == 0:
        bags = calls.Bags(index, offset[:-1].int(), False, 0, len(lengths), bags.padding)
    weights = torch.randn(count) if mode == "weighted" else None
    kind = "sum" if mode == "weighted" else mode
    want = calls.pool(ours, bags, kind, weights, "sync")
    *got, faults, flags = _pool(gpu, theirs, bags, kind, weights, warps)
    assert flags == [0, 0]
    assert (faults[0][3], faults[1][3]) == (0, 0)
    for a, b in zip(want, got, strict=True):
        assert a is b is None or torch.equal(a, b)

    gradient = torch.randn(len(lengths), dim).to(dtype)
    slopes = torch.full((count,), 7.0)
    params = calls._WeighParams(placement=theirs.reach(index), dim=dim, bags=bags.of(rows))
    params.gradient, params.found = gradient.data_ptr(), slopes.data_ptr()
    cut, params.lanes, _ = calls._cut(params.placement, gradient)
    _call(gpu.weigh, params, dtype, cut, warps)
    torch.testing.assert_close(slopes, calls.weigh(ours, bags, gradient), rtol=1e-4, atol=1e-4)

    given = calls.note(ours, bags, weights, *want[1:], gradient)
    # Lanes add up a row's squares in another order.
    exact = {"rtol": 0, "atol": 0}
    near = {"rtol": 2 * torch.finfo(dtype).eps, "atol": 1e-5}
    same = partial(torch.testing.assert_close, **(near if rule == "rowwise" else exact))
    begin = torch.full((rows, 1 if rule == "rowwise" else dim), 0.5)
    states = [None if rule == "sgd" else UnifiedTensor.from_tensor(begin) for _ in range(2)]
    calls.update(ours, states[0], given, 0.1, 1e-10)
    _update(gpu, theirs, states[1], given, 0.1, 1e-10, warps)
    if tiers is not None:
        theirs.writer(index.device)
        for reader in range(len(theirs._tiers.homes)):  # each sees the new rows, its own copies included
            theirs._tiers.reader = reader
            same(theirs[torch.arange(rows)], ours.cpu())
        theirs.close()
    same(ours.cpu(), below.cpu())
    if rule != "sgd":
        same(states[0].cpu(), states[1].cpu())


@pytest.mark.parametrize("dim", [3, 8, 300])
def test_lanes_report_what_is_wrong(gpu, dim):
    table = UnifiedTensor.from_tensor(torch.ones(10, dim))
    index = torch.tensor([0, 1, -1, 3, 10, 5, 10])
    offsets = torch.tensor([0, 2, 5])
    rows, _, _, faults, flags = _pool(gpu, table, calls.Bags(index, offsets, False, 0, 3, -1), "sum", None, 2)
    assert flags == [0, 1]
    assert faults[1] == [2, -1, 10, 3]
    assert rows[:, 0].tolist() == [2, 1, 1]
    index.clamp_(0, 9)
    for numbers, closed, first, value in [
        ([0, 5, 3], False, 2, 3),
        ([1, 5, 6], False, 0, 1),
        ([0, 5, 8], False, 2, 8),
        ([0, -4, 6], False, 1, -4),
        ([0, 5, 6], True, 2, 6),
    ]:
        bags = calls.Bags(index, torch.tensor(numbers), closed, 0, 3 - closed, -1)
        *_, faults, flags = _pool(gpu, table, bags, "sum", None, 2)
        assert flags == [1, 0], numbers
        assert faults[0][:3] == [first, value, 7], numbers


@pytest.mark.parametrize("spoilt", ["index", "offsets"])
def test_nothing_is_updated_after_anything_bad(gpu, spoilt):
    table = UnifiedTensor.from_tensor(torch.randn(10, 8))
    before = table.cpu().clone()
    index, offsets = torch.randint(0, 10, (20,)), torch.tensor([0, 4, 9])
    if spoilt == "index":
        index[13] = 10
    else:
        offsets[1] = 11
    bags = calls.Bags(index, offsets, False, 0, 3, -1)
    given = calls.note(table, bags, None, None, None, torch.randn(3, 8))
    assert given.bad.item() == 1
    _update(gpu, table, None, given, 0.1, 0.0, 2)
    calls.update(table, None, given, 0.1)
    assert torch.equal(table.cpu(), before)
