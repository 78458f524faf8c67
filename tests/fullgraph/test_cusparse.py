"""cuSPARSE through ctypes, against torch.sparse in float64."""

from __future__ import annotations

import gc

import pytest
import torch

from hinterland.fullgraph import libcusparse
from hinterland.fullgraph.cusparse import ALGORITHMS, SpMM, available
from hinterland.runtime.errors import ConfigError, DeviceError

# What a sum may lose, of the sum of its terms' sizes (5000 float32 one after the other), and the rounding of the result.
SUMMED = {torch.float64: 1e-13, torch.float32: 1e-5, torch.float16: 1e-5, torch.bfloat16: 1e-5}
ROUNDED = {torch.float64: 0.0, torch.float32: 0.0, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-8}
ROWS, COLUMNS = 500, 300


def matrix(weighted: bool = True, offsets=torch.int64, places=torch.int32, device="cuda"):
    """Rows of 0 to 40 edges, every third empty, one with 5000; a column may be there twice."""
    random = torch.Generator().manual_seed(7)
    degrees = torch.randint(41, (ROWS,), generator=random)
    degrees[::3] = 0
    degrees[7] = 5000
    begins = torch.cat((torch.zeros(1, dtype=torch.int64), degrees.cumsum(0)))
    columns = torch.randint(COLUMNS, (int(begins[-1]),), generator=random)
    weights = torch.rand(len(columns), generator=random) if weighted else None
    return begins.to(device, offsets), columns.to(device, places), None if weights is None else weights.to(device)


def oracle(offsets, places, weights, x, before=None):
    """The product in float64 of what x and the weights are in x's type, and ``before``; and the same of their sizes."""
    values = torch.ones(len(places), device=x.device) if weights is None else weights.to(x.dtype)
    size, found = (len(offsets) - 1, len(x)), []
    for of in (torch.Tensor.double, lambda t: t.double().abs()):
        whole = torch.sparse_csr_tensor(offsets.long(), places.long(), of(values), size, check_invariants=False)
        found.append(whole @ of(x) + (0 if before is None else of(before)))
    return found


def assert_product(made, want, dtype):
    exact, sizes = want
    assert made.dtype == dtype
    assert bool(((made.double() - exact).abs() <= SUMMED[dtype] * sizes + ROUNDED[dtype] * exact.abs() + 1e-30).all())


@pytest.fixture(autouse=True)
def same_numbers():
    torch.manual_seed(1)


def test_without_a_gpu_it_says_what_it_needs(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert not available()
    with pytest.raises(DeviceError, match="needs an NVIDIA GPU"):
        SpMM(*matrix(device="cpu"), COLUMNS)


def test_a_library_that_is_not_there_is_said(monkeypatch):
    libcusparse.library.cache_clear()
    monkeypatch.setattr(libcusparse, "SONAME", "libcusparse.so.none")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert not available()
    with pytest.raises(DeviceError, match=r"libcusparse\.so\.none is not found"):
        libcusparse.call("cusparseCreate", None)
    libcusparse.library.cache_clear()


@pytest.mark.gpu
def test_torch_brings_cusparse():
    assert available()


@pytest.mark.gpu
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("width", [1, 3, 16, 47, 128, 256])
@pytest.mark.parametrize("dtype", list(SUMMED))
def test_equals_torch_in_float64(dtype, width, weighted):
    given = matrix(weighted)
    product = SpMM(*given, COLUMNS)
    x = torch.randn(COLUMNS, width, device="cuda", dtype=torch.float64).to(dtype)
    want = oracle(*given, x)
    before = torch.randn(ROWS, width, device="cuda", dtype=torch.float64).to(dtype)
    added, ran = oracle(*given, x, before), []
    for algorithm in ALGORITHMS:
        out = torch.full((ROWS, width), float("nan"), device="cuda", dtype=dtype)  # read by nobody
        try:
            assert product.run(x, out, algorithm=algorithm) is out
        except DeviceError:
            continue
        ran.append(algorithm)
        assert_product(out, want, dtype)
        assert_product(product.run(x, before.clone(), 1.0, algorithm), added, dtype)
        assert_product(product.run(x, out.zero_(), algorithm=algorithm), want, dtype)  # the kept buffer again
    assert ALGORITHMS[0] in ran
    assert len(ran) >= (len(ALGORITHMS) if dtype in (torch.float32, torch.float64) else 2)


@pytest.mark.gpu
@pytest.mark.parametrize("places", [torch.int32, torch.int64])
@pytest.mark.parametrize("offsets", [torch.int32, torch.int64])
def test_ids_of_both_types(offsets, places):
    given = matrix(True, offsets, places)
    x = torch.randn(COLUMNS, 32, device="cuda")
    out = SpMM(*given, COLUMNS).run(x, torch.empty(ROWS, 32, device="cuda"))
    assert_product(out, oracle(*given, x), torch.float32)


@pytest.mark.gpu
def test_columns_of_a_wider_table_and_other_addresses():
    given = matrix()
    product = SpMM(*given, COLUMNS)
    wide = torch.randn(COLUMNS, 100, device="cuda")
    for begin in (0, 4, 1, 33):  # aligned to 16 bytes, and not
        x, out = wide[:, begin : begin + 20], torch.zeros(ROWS, 64, device="cuda")
        product.run(x, out[:, begin : begin + 20])
        assert_product(out[:, begin : begin + 20], oracle(*given, x), torch.float32)
        assert out.count_nonzero() == out[:, begin : begin + 20].count_nonzero()


@pytest.mark.gpu
def test_no_edges_and_no_rows():
    x = torch.randn(COLUMNS, 8, device="cuda")
    nothing = torch.zeros(0, dtype=torch.int32, device="cuda")
    empty = SpMM(torch.zeros(ROWS + 1, dtype=torch.int64, device="cuda"), nothing, None, COLUMNS)
    assert not empty.run(x, torch.full((ROWS, 8), float("nan"), device="cuda")).any()
    assert (empty.run(x, torch.ones(ROWS, 8, device="cuda"), 2.0) == 2).all()
    none = SpMM(torch.zeros(1, dtype=torch.int64, device="cuda"), nothing, None, COLUMNS)
    assert none.run(x, torch.empty(0, 8, device="cuda")).shape == (0, 8)


@pytest.mark.gpu
def test_the_fastest_is_kept_and_memory_is_let_go():
    given = matrix(False)
    product = SpMM(*given, COLUMNS)
    x = torch.randn(COLUMNS, 64, device="cuda")
    times = product.measure(x)
    assert set(times) == set(ALGORITHMS) and min(times.values()) > 0
    assert product.best(x) in ALGORITHMS
    out = product.run(x, torch.empty(ROWS, 64, device="cuda"))
    assert_product(out, oracle(*given, x), torch.float32)
    ones, offsets = 4 * len(given[1]), 4 * (ROWS + 1)
    assert product.nbytes >= ones + offsets
    del out
    gc.collect()
    held = torch.cuda.memory_allocated()
    del product
    gc.collect()
    assert torch.cuda.memory_allocated() <= held - ones - offsets


@pytest.mark.gpu
def test_runs_on_the_current_stream():
    given = matrix()
    product = SpMM(*given, COLUMNS)
    x, out = torch.zeros(COLUMNS, 16, device="cuda"), torch.empty(ROWS, 16, device="cuda")
    product.run(x, out)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)
        x.fill_(1)
        product.run(x, out)
    torch.cuda.current_stream().wait_stream(side)
    assert_product(out, oracle(*given, x), torch.float32)


@pytest.mark.gpu
def test_what_does_not_fit_is_said():
    offsets, places, weights = matrix()
    with pytest.raises(ConfigError, match="form no matrix"):
        SpMM(offsets, places[:-1], None, COLUMNS)
    product = SpMM(offsets, places, weights, COLUMNS)
    for x, out in (
        (torch.ones(COLUMNS, 4), torch.ones(ROWS, 4)),
        (torch.ones(COLUMNS, 4, device="cuda"), torch.ones(ROWS, 5, device="cuda")),
        (torch.ones(COLUMNS, 4, device="cuda"), torch.ones(ROWS, 4, device="cuda").double()),
        (torch.ones(4, COLUMNS, device="cuda").T, torch.ones(ROWS, 4, device="cuda")),
    ):
        with pytest.raises(ConfigError, match=r"takes x \[300, D\] and out \[500, D\]"):
            product.run(x, out)
