"""One value of all elements: exact sums, numpy in the order that is promised, and torch as oracles."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland import _core
from hinterland.runtime.errors import ConfigError

from .test_kernels import KINDS, ROWS, WIDTH, table


def itself(x):
    return x


def in_order(x: np.ndarray) -> float:
    """The sum of float64 in the order of the documentation."""
    while True:
        tiles = np.zeros((-(-len(x) // 4096), 128, 32))
        tiles.ravel()[: len(x)] = x
        lanes = np.zeros((len(tiles), 32))
        for turn in range(128):
            lanes += tiles[:, turn]
        half = 16
        while half:
            lanes = lanes[:, :half] + lanes[:, half:]
            half //= 2
        x = lanes[:, 0]
        if len(x) == 1:
            return float(x[0])


@pytest.mark.parametrize("count", (1, 31, 4095, 4096, 4097, 100_000, 4096 * 4096 + 5))
def test_floats_are_added_in_the_order_that_is_promised(count: int, device: torch.device) -> None:
    x = torch.randn(count, generator=torch.Generator().manual_seed(count))
    ours = hl.reduce("sum", itself, x.to(device))
    assert ours.dtype == torch.float64 and ours.shape == () and ours.device == device
    assert ours.item() == in_order(x.double().numpy())
    rounds = max(1, math.ceil(math.log(count, 4096))) if count > 1 else 1
    assert abs(ours.item() - math.fsum(x.tolist())) <= 132 * rounds * 2.0**-53 * x.double().abs().sum().item()
    assert hl.reduce("mean", itself, x.to(device)).item() == pytest.approx(ours.item() / count, rel=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_of_every_kind_of_memory(kind: str, device: torch.device, tmp_path: Path) -> None:
    x, y = torch.randn(ROWS, WIDTH), torch.randn(ROWS)
    there, ys = table(kind, x, device, tmp_path), y.to(device)
    assert hl.reduce("sum", itself, there, device=device).item() == in_order(x.double().numpy().ravel())
    product = (x[:, 2] * y).double().numpy()
    assert hl.reduce("sum", lambda row, y: row[2] * y, there, ys).item() == in_order(product)
    assert hl.reduce("max", itself, there, device=device).item() == x.max().item()
    assert hl.reduce("min", lambda row: row.max(), there, device=device).item() == x.amax(1).min().item()
    assert hl.reduce("count", lambda row: row > 1, there, device=device).item() == (x > 1).sum().item()
    assert hl.reduce("count", lambda row: (row > 1).any(), there, device=device).item() == (x > 1).any(1).sum().item()


def test_threads_change_nothing() -> None:
    x, threads, found = torch.randn(300_000), torch.get_num_threads(), set()
    try:
        for count in (1, 2, 5):
            _core.set_num_threads(count)
            found.add(hl.reduce("sum", lambda x: x * 1.1, x).item())
    finally:
        _core.set_num_threads(threads)
    assert len(found) == 1


@settings(max_examples=30)
@given(
    st.sampled_from((torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)),
    st.integers(0, 20_000),
    st.integers(0, 2**32),
)
def test_whole_numbers_are_added_exactly(dtype: torch.dtype, count: int, seed: int) -> None:
    about = torch.iinfo(dtype)
    x = torch.randint(about.min, about.max, (count,), generator=torch.Generator().manual_seed(seed), dtype=torch.int64).to(
        dtype
    )
    x[::3] = about.max
    total = sum(x.tolist())
    if -(2**63) <= total < 2**63:
        ours = hl.reduce("sum", itself, x)
        assert ours.dtype == torch.int64 and ours.item() == total
    else:
        with pytest.raises(ConfigError, match=f"the sum {total} does not fit into int64; add floats"):
            hl.reduce("sum", itself, x)
    mean = hl.reduce("mean", itself, x)
    assert mean.dtype == torch.float64 and (mean.item() == total / count if count else math.isnan(mean.item()))


def test_halves_that_cross_64_bits(device: torch.device) -> None:
    """What overflows on the way does not matter."""
    x = torch.tensor([2**63 - 1] * 9000 + [-(2**63)] * 9000 + [9007])
    assert hl.reduce("sum", itself, x.to(device)).item() == 7
    with pytest.raises(ConfigError, match="does not fit into int64"):
        hl.reduce("sum", itself, x[:9000].to(device))
    assert hl.reduce("sum", lambda x: x.double(), x[:9000].to(device)).item() == 9000 * 2.0**63


@pytest.mark.parametrize(
    "dtype", (torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64, torch.float32, torch.float64), ids=str
)
def test_bounds_and_questions_are_torchs(dtype: torch.dtype, device: torch.device) -> None:
    x = torch.randint(-100, 100, (10_000,)).to(dtype)
    there = x.to(device)
    for how, wanted in (
        ("min", x.min()),
        ("max", x.max()),
        ("count", torch.count_nonzero(x)),
        ("any", x.any()),
        ("all", x.all()),
    ):
        ours = hl.reduce(how, itself, there)
        if how in ("any", "all"):
            wanted = wanted.bool()  # of uint8 torch gives uint8
        assert ours.dtype == wanted.dtype and ours.shape == () and ours.cpu() == wanted, how
    assert not hl.reduce("any", lambda x: x == 101, there) and hl.reduce("all", lambda x: x <= 127, x.char().to(device))


@pytest.mark.parametrize("at", (0, 17, 5000, 9999))
def test_nan_is_the_least_and_the_greatest(at: int, device: torch.device) -> None:
    x = torch.randn(10_000)
    x[at] = math.nan
    for how in ("min", "max", "sum", "mean"):
        assert math.isnan(hl.reduce(how, itself, x.to(device)).item())
    assert hl.reduce("count", itself, x.to(device)).item() == 10_000
    assert hl.reduce("count", lambda x: torch.isnan(x), x.to(device)).item() == 1


def test_infinities(device: torch.device) -> None:
    x = torch.tensor([1.0, math.inf, 2.0], device=device)
    assert hl.reduce("sum", itself, x) == math.inf and hl.reduce("max", itself, x) == math.inf
    assert math.isnan(hl.reduce("sum", lambda x: torch.where(x == 1, -math.inf, x), x))


def test_of_nothing(device: torch.device) -> None:
    for none in (torch.empty(0, device=device), torch.empty(0, 4, device=device), torch.empty(4, 0, device=device)):
        total = hl.reduce("sum", itself, none)
        assert total.item() == 0 and total.dtype == torch.float64 and total.device == device
        assert math.isnan(hl.reduce("mean", itself, none))
        assert hl.reduce("count", itself, none) == 0 and not hl.reduce("any", itself, none) and hl.reduce("all", itself, none)
        for how in ("min", "max"):
            with pytest.raises(ConfigError, match=f"there is no {how} of no values"):
                hl.reduce(how, itself, none)
    assert hl.reduce("sum", lambda row: row.sum(), torch.empty(0, 4, device=device)) == 0
    assert hl.reduce("sum", itself, torch.empty(0, dtype=torch.int8, device=device)).dtype == torch.int64


def test_rows_in_pieces(monkeypatch: pytest.MonkeyPatch, device: torch.device) -> None:
    x = torch.randn(30_000, 3)
    there = x.to(device)
    whole = hl.reduce("sum", lambda row: row.amax() * row[1], there)
    assert whole.item() == in_order((x.amax(1) * x[:, 1]).double().numpy())
    monkeypatch.setattr(sys.modules["hinterland.kernels.reduce"], "_PIECE", 8192)
    assert hl.reduce("sum", lambda row: row.amax() * row[1], there).item() == whole.item()
    assert hl.reduce("count", lambda row: row.sum() > 0, there).item() == (x.double().sum(1).float() > 0).sum().item()


def test_what_is_refused_in_a_sentence() -> None:
    x = torch.ones(4)
    for call, reason in (
        (lambda: hl.reduce("median", itself, x), "how 'median' is not one of sum, mean"),
        (lambda: hl.reduce("sum", x), "there are none"),
        (lambda: hl.reduce("sum", x, x), "reduce takes a function first"),
        (lambda: hl.reduce(itself, x), "is not one of sum"),
        (lambda: hl.reduce("sum", lambda x, y: x, x), "do not fit the function"),
        (lambda: hl.reduce("sum", itself, x.half()), "array_0 is of float16"),
    ):
        with pytest.raises(ConfigError, match=reason):
            call()
