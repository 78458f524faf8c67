"""Functions of elements in Python: torch's own results as the oracle, over arrays in every kind of memory."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland import _core
from hinterland.kernels import elementwise, text, traced
from hinterland.runtime import jit
from hinterland.runtime.errors import ConfigError

from .test_kernels import KINDS, ROWS, WIDTH, table

FLOATS = (torch.float32, torch.float64)
TYPES = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, *FLOATS)
ROUNDED = ("abs bitwise_not ceil floor isfinite isinf isnan logical_not neg reciprocal round sign square trunc relu").split()
CLOSE = "acos asin atan cos exp exp2 expm1 log log10 log1p log2 rsqrt sigmoid sin sqrt tan tanh".split()
PAIRS = (
    "add bitwise_and bitwise_or bitwise_xor div eq floor_divide fmod ge gt le logical_and logical_or logical_xor lt maximum "
    "minimum mul ne remainder sub"
).split()


def values(dtype: torch.dtype, count: int, seed: int) -> torch.Tensor:
    """Elements of a type, its extreme ones among them."""
    random = torch.Generator().manual_seed(seed)
    if dtype in FLOATS:
        some = torch.randn(count, generator=random, dtype=dtype) * 10.0 ** torch.randint(-3, 4, (count,), generator=random)
        odd = (0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, math.inf, -math.inf, math.nan, 1e-40, torch.finfo(dtype).max)
        some = some.to(dtype)
    else:
        low, high = (0, 2) if dtype == torch.bool else (max(torch.iinfo(dtype).min, -100), 100)
        some = torch.randint(low, high, (count,), generator=random).to(dtype)
        odd = (0, 1, 1) if dtype == torch.bool else (0, 1, 7, torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    some[torch.randperm(count, generator=random)[: len(odd)]] = torch.tensor(odd, dtype=dtype)
    return some


def close(ours: torch.Tensor, theirs: torch.Tensor, ulps: int) -> None:
    """Equal, NaN to NaN, but for some units in the last place."""
    assert ours.dtype == theirs.dtype
    if theirs.dtype in FLOATS and ulps:
        eps = torch.finfo(theirs.dtype).eps
        torch.testing.assert_close(
            ours.cpu(), theirs, rtol=ulps * eps, atol=ulps * torch.finfo(theirs.dtype).tiny, equal_nan=True
        )
    else:
        assert torch.equal(torch.nan_to_num(ours.cpu().double(), nan=0.25), torch.nan_to_num(theirs.double(), nan=0.25))
        assert torch.equal(ours.cpu()[theirs == theirs], theirs[theirs == theirs])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_root_is_the_nearest_number(dtype: torch.dtype, device: torch.device) -> None:
    """As numpy's is. Torch's vectors may give a neighbour."""
    x = values(dtype, 5000, 1).abs()
    assert torch.equal(hl.map(torch.sqrt, x.to(device)).cpu().nan_to_num(), torch.from_numpy(np.sqrt(x.numpy())).nan_to_num())


def test_powers_are_torchs(device: torch.device) -> None:
    x = values(torch.float64, 500, 1)
    for power in (0.5, 2, 3, -0.5, -1, -2):
        close(hl.map(lambda x, power=power: x**power, x.to(device)), x**power, 1 if power in (0.5, -0.5) else 0)
    close(hl.map(lambda x: x.abs() ** 1.7, x.to(device)), x.abs() ** 1.7, 8)
    close(hl.map(lambda x: 2.0**x, x.to(device)), 2.0**x, 8)
    whole = torch.arange(-5, 6)
    by = torch.arange(11)
    assert torch.equal(hl.map(lambda x, y: x**y, whole.to(device), by.to(device)).cpu(), whole**by)
    assert torch.equal(hl.map(lambda x: x**4 + x**2, whole.to(device)).cpu(), whole**4 + whole**2)


def test_where_is_a_function_and_a_method(device: torch.device) -> None:
    """As torch has them: of the method the value is what stays where the condition holds."""
    x, seven = torch.tensor([-1.0, 0.0, 2.0]), torch.tensor(7.0)
    for function in (
        lambda x: torch.where(x > 0, x, 0.5),
        lambda x: x.where(x > 0, 0.5),
        lambda x: x.where(condition=x > 0, other=0.5),
        lambda x: seven.where(x > 0, x),
    ):
        assert torch.equal(hl.map(function, x.to(device)).cpu(), function(x))


FORMS = (
    lambda x, y: x + y,
    lambda x, y: x * y - 1,
    lambda x, y: x / y,
    lambda x, y: x * 2.5 > y,
    lambda x, y: x // y,
    lambda x, y: 2 * x % y,
    lambda x, y: torch.where(x > y, x, y),
    lambda x, y: torch.where(x > 0, x, 0.5),
    lambda x, y: torch.where(x > 0, 1, 0),
    lambda x, y: x.where(x > y, y),
    lambda x, y: x.where(condition=y > 0, other=0),
    lambda x, y: torch.tensor(7).where(x > y, y),
    lambda x, y: torch.sqrt(x) + y,
    lambda x, y: (x & y) | (x ^ 3),
    lambda x, y: ~x,
    lambda x, y: -x + abs(y),
    lambda x, y: x.clamp(0, 5),
    lambda x, y: torch.maximum(x, y),
    lambda x, y: x + torch.tensor(2, dtype=torch.int64),
    lambda x, y: x + torch.tensor(2.0, dtype=torch.float64),
    lambda x, y: torch.tensor(2.0, dtype=torch.float64) * x,
    lambda x, y: 1 - x,
    lambda x, y: 1 / x,
    lambda x, y: True + x,
    lambda x, y: x**2,
    lambda x, y: 2**x,
    lambda x, y: x.double() + y.long(),
    lambda x, y: (x == y) + x,
    lambda x, y: torch.logical_not(x) * 2,
)


@pytest.mark.parametrize("form", range(len(FORMS)))
def test_types_are_promoted_as_torch_promotes_them(form: int) -> None:
    function, refused = FORMS[form], 0
    for a in TYPES:
        for b in TYPES:
            try:
                wanted = function(torch.ones(3, dtype=a), torch.ones(3, dtype=b)).dtype
            except (RuntimeError, TypeError):
                with pytest.raises(ConfigError):
                    traced.trace("map", function, [a, b], [(), ()])
                refused += 1
                continue
            assert traced.trace("map", function, [a, b], [(), ()]).dtype == wanted, (a, b)
    assert refused < len(TYPES) ** 2


@settings(max_examples=12)
@given(data=st.data())
def test_expressions_of_several_types(data: st.DataObject) -> None:
    """Of any functions that are exact, one within the other."""
    dtypes = data.draw(st.lists(st.sampled_from(TYPES[1:]), min_size=2, max_size=3))
    x = [values(dtype, 300, seed) for seed, dtype in enumerate(dtypes)]
    steps = data.draw(
        st.lists(
            st.tuples(
                st.sampled_from(["add", "sub", "mul", "maximum", "minimum", "lt", "where", "neg", "square", "to"]),
                st.integers(0, 99),
                st.integers(0, 99),
                st.sampled_from([*FLOATS, torch.int32, torch.int64]),
            ),
            min_size=3,
            max_size=10,
        )
    )

    def function(*given):
        known = list(given)
        for name, first, second, dtype in steps:
            a, b = known[first % len(known)], known[second % len(known)]
            if name == "to":
                a = a.double() if a.dtype in FLOATS else a.to(dtype)
            elif name == "where":
                a = torch.where(a > b, a, b)
            elif name in ("neg", "square"):
                a = getattr(torch, name)(a * 1)
            elif name == "sub":
                a = torch.sub(a * 1, b * 1)
            else:
                a = getattr(torch, name)(*((a, b) if a.dtype == b.dtype or name[0] != "m" else (a * 1.5, b * 1.5)))
            known.append(a)
        return known[-1]

    close(hl.map(function, *x), function(*x), 0)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_product_is_rounded_before_a_sum(dtype: torch.dtype, device: torch.device) -> None:
    a, b, c = (torch.randn(10_000, dtype=dtype) for _ in range(3))
    ours = hl.map(lambda a, b, c: a * b + c, a.to(device), b.to(device), c.to(device))
    assert torch.equal(ours.cpu(), a * b + c)
    assert not torch.equal((a.double() * b.double() + c.double()).to(dtype), a * b + c) or dtype == torch.float64


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_of_every_kind_of_memory(kind: str, device: torch.device, tmp_path: Path) -> None:
    x, y = torch.randn(ROWS, WIDTH), torch.randn(ROWS)
    there, ys = table(kind, x, device, tmp_path), y.to(device)
    for _ in range(2):
        assert torch.equal(hl.map(lambda row: row * 2 - 1, there, device=device).cpu(), x * 2 - 1)
        assert torch.equal(hl.map(lambda row, y: row[3] * y + row, there, ys).cpu(), (x[:, 3] * y)[:, None] + x)
        assert torch.equal(hl.map(lambda row: row.max(), there, device=device).cpu(), x.amax(1))
        found = hl.filter(lambda row, y: (row[0] > y) & (row[-1] > 0), there, ys)
        assert torch.equal(found.cpu(), torch.nonzero((x[:, 0] > y) & (x[:, -1] > 0)).view(-1))
        squares = hl.map(lambda row: (row * row).sum(), there, device=device)
        assert squares.device == device
        torch.testing.assert_close(squares.cpu(), (x * x).double().sum(1).float(), rtol=3e-7, atol=0)


@pytest.mark.parametrize("width", (1, 3, 16, 33, 300))
def test_rows_are_put_together(width: int, device: torch.device) -> None:
    x = torch.randn(77, width)
    there = x.to(device)
    total = (x * x).double().sum(1)

    def same(function, wanted: torch.Tensor) -> None:
        ours = hl.map(function, there)
        assert ours.dtype == wanted.dtype and ours.shape == wanted.shape
        torch.testing.assert_close(ours.cpu(), wanted, rtol=3e-7, atol=0)

    same(lambda row: (row * row).sum(), total.float())
    same(lambda row: (row * row).mean(), (total / width).float())
    same(lambda row: (row * row).sum() / len(row), total.float() / width)
    same(lambda row: row.amin() + torch.amax(row) * 2, x.amin(1) + x.amax(1) * 2)
    same(lambda row: (row > 0).sum(dim=-1), (x > 0).sum(1))
    same(lambda row: (row > -1).all(), (x > -1).all(1))
    same(lambda row: torch.any(row > 1), (x > 1).any(1))
    same(lambda row: row / row.abs().max(), x / x.abs().amax(1, keepdim=True))
    same(lambda row: (row - row[0]).abs().max() + row[width - 1], (x - x[:, :1]).abs().amax(1) + x[:, -1])


def test_rows_of_several_lengths(device: torch.device) -> None:
    """Each array has its own, where they are not put together element by element."""
    x, y = torch.randn(90, 5), torch.randn(90, 40)
    ours = hl.map(lambda x, y: x[4] * y[39] + x.amax() + y.amin(), x.to(device), y.to(device))
    assert torch.equal(ours.cpu(), x[:, 4] * y[:, 39] + x.amax(1) + y.amin(1))
    ours = hl.map(lambda x, y: y - x.amax(), x.to(device), y.to(device))
    assert torch.equal(ours.cpu(), y - x.amax(1, keepdim=True))
    assert torch.equal(hl.map(lambda x, y: x * y[7], x.to(device), y.to(device)).cpu(), x * y[:, 7:8])


def test_rows_of_whole_numbers(device: torch.device) -> None:
    x = torch.randint(-(2**62), 2**62, (50, 40))
    there = x.to(device)
    assert torch.equal(hl.map(lambda row: row.sum(), there).cpu(), x.sum(1))
    small = values(torch.int8, 400, 1).view(20, 20)
    assert torch.equal(hl.map(lambda row: row.sum() + row.min(), small.to(device)).cpu(), small.sum(1) + small.amin(1))


def test_rows_with_nan(device: torch.device) -> None:
    x = torch.randn(100, 40)
    x[::7, 11] = math.nan
    for function, wanted in ((lambda row: row.max(), x.amax(1)), (lambda row: row.min(), x.amin(1))):
        assert torch.equal(hl.map(function, x.to(device)).cpu().nan_to_num(9), wanted.nan_to_num(9))


def test_rows_in_several_dimensions(device: torch.device) -> None:
    x = torch.randn(30, 4, 5)
    assert torch.equal(hl.map(lambda row: row + 1, x.to(device)).cpu(), x + 1)
    assert torch.equal(hl.map(lambda row: row.amax(), x.to(device)).cpu(), x.flatten(1).amax(1))


def test_a_row_is_the_same_for_any_number_of_threads() -> None:
    x = torch.randn(5000, 77)
    threads, found = torch.get_num_threads(), []
    try:
        for count in (1, 4):
            _core.set_num_threads(count)
            found.append(hl.map(lambda row: (row * 1.1).sum(), x))
    finally:
        _core.set_num_threads(threads)
    assert torch.equal(*found)


def test_out_is_written(device: torch.device) -> None:
    x = torch.randn(ROWS, WIDTH)
    there, held = x.to(device, copy=True), hl.UnifiedTensor.empty((ROWS, WIDTH))
    out = torch.empty_like(there)
    assert hl.map(lambda x: x + 1, there, out=out) is out and torch.equal(out.cpu(), x + 1)
    assert hl.map(lambda x: x + 2, there, out=held) is held
    if device.type == "cuda":
        torch.cuda.synchronize()
    assert torch.equal(held.cpu(), x + 2)
    hl.map(lambda x: x * x.sum(), there, out=there)
    torch.testing.assert_close(there.cpu(), x * x.double().sum(1, keepdim=True).float(), rtol=1e-6, atol=0)


def test_another_number_compiles_nothing(device: torch.device) -> None:
    x = torch.randn(100)
    there = x.to(device)
    hl.map(lambda x: x * 0.125 + 3, there)
    before = elementwise._kernel.cache_info().misses
    for scale in (2.0, np.float32(0.3), torch.tensor(0.7), torch.tensor(0.1, device=device), math.inf):
        ours = hl.map(lambda x, scale=scale: x * scale + 4, there)
        theirs = x * (scale.cpu() if isinstance(scale, torch.Tensor) else scale) + 4
        assert torch.equal(ours.cpu(), theirs)
    assert elementwise._kernel.cache_info().misses == before


def test_what_torch_leaves_open(device: torch.device) -> None:
    x = torch.tensor([math.nan, 300.0, -300.0, math.inf, 1e30, -1e30, 2.9, -2.9], device=device)
    assert hl.map(lambda x: x.char(), x).tolist() == [0, 127, -128, 127, 127, -128, 2, -2]
    assert hl.map(lambda x: x.byte(), x).tolist() == [0, 44, 212, 0, 0, 0, 2, 254]  # torch says it but for NaN and inf
    most = 2**63 - 1
    assert hl.map(lambda x: x.long(), x).tolist() == [0, 300, -300, most, most, -most - 1, 2, -2]
    a = torch.tensor([-(2**63), 7, -7, 0], device=device)
    b = torch.tensor([-1, 0, 0, 0], device=device)
    assert hl.map(lambda a, b: a // b, a, b).tolist() == [-(2**63), 0, 0, 0]
    assert hl.map(lambda a, b: a % b, a, b).tolist() == [0, 0, 0, 0]


def test_nothing(device: torch.device) -> None:
    none, no_rows = torch.empty(0, device=device), torch.empty(0, 3, device=device)
    assert hl.map(lambda x: x + 1, none).shape == (0,)
    assert hl.map(lambda x: x.sum(), no_rows).shape == (0,)
    assert hl.map(lambda x: x > 1, no_rows).shape == (0, 3)
    assert hl.map(lambda x: x + 1, torch.empty(4, 0, device=device)).shape == (4, 0)
    assert hl.filter(lambda x: x > 1, none).tolist() == []
    assert hl.filter(lambda x: x.sum() > 1, no_rows).dtype == torch.int64


X = torch.ones(6)
TABLE = torch.ones(6, 3)
REFUSED = {
    "if": (lambda x: x if x > 0 else -x, [X], "called once for all elements.*torch.where"),
    "and": (lambda x: (x > 0) and (x < 1), [X], "& | ~"),
    "chain": (lambda x: 0 < x < 1, [X], "a < b < c"),
    "min": (lambda x, y: min(x, y), [X, X], "torch.minimum"),
    "math": (lambda x: math.sqrt(x), [X], "torch.sqrt"),
    "int": (lambda x: int(x), [X], "int64"),
    "numpy": (lambda x: np.sqrt(x), [X], r"torch's functions of elements, as torch.sqrt\(x\) and not np.sqrt\(x\), .*help"),
    "numpy's reduction": (lambda row: np.add.reduce(row), [TABLE], "torch's functions of elements"),
    "numpy's choice": (lambda x: np.where(x > 0, x, 0), [X], "np.where is numpy's; use torch.where"),
    "numpy's other name": (lambda x: np.clip(x, 0, 1), [X], "np.clip is numpy's; use torch.clamp"),
    "numpy's own": (lambda row: np.linalg.norm(row), [TABLE], r"np.norm is numpy's; help\(hl.map\)"),
    "numpy's array": (lambda x: np.array([x, 1]), [X], "np.array is numpy's"),
    "numpy's type": (lambda x: np.float32(x), [X], "np.array is numpy's"),
    "numpy's index": (lambda x: np.ones(9)[x], [X.long()], "np.array is numpy's"),
    "numpy's vector": (lambda row: np.ones(3) * row, [TABLE], "mul takes elements of the arrays, numbers"),
    "math without a float": (lambda x: math.trunc(x), [X], "a Value stands for an element.*torch.sqrt"),
    "divmod": (lambda x: divmod(x, 2), [X], "a Value stands for an element"),
    "plus": (lambda x: +x, [X], "a Value stands for an element"),
    "format": (lambda x: f"{x:.2f}", [X], "a Value stands for an element"),
    "attribute": (lambda x: setattr(x, "y", 1), [X], "a Value stands for an element"),
    "round": (lambda x: round(x, 2), [X], "round, as functions of elements may use it: too many"),
    "pow": (lambda x: pow(x, 2, 3), [X.long()], "pow, as functions of elements may use it: too many"),
    "set": (lambda x: x if x in {1, 2} else -x, [X], r"no set and no dict has one of them; .*\(x == 1\) \| "),
    "dict": (lambda x: {1.0: 2}[x], [X], "no set and no dict"),
    "loop": (lambda row: sum(v for v in row), [TABLE], "row.sum"),
    "write": (lambda row: row.__setitem__(0, 1), [TABLE], "does not change its arguments"),
    "unknown": (lambda x: torch.erf(x), [X], "has no erf; help"),
    "method": (lambda x: x.cumsum(0), [X], "has no cumsum"),
    "in place": (lambda x: x.add_(1), [X], "has no add_"),
    "matmul": (lambda row: row @ torch.ones(3), [TABLE], "has no matmul"),
    "option": (lambda x: torch.add(x, x, alpha=2), [X], "unexpected keyword argument 'alpha'"),
    "one argument": (lambda x: torch.add(x), [X], r"^add\(\) received .*a Value stands for an element.*help\(torch.add\)"),
    "two arguments": (lambda x: torch.where(x > 0, x), [X], r"^where\(\) received .*help\(torch.where\)"),
    "many arguments": (lambda x: torch.sqrt(x, x), [X], r"^sqrt\(\) takes 1 positional .*help\(torch.sqrt\)"),
    "none": (lambda x: torch.sqrt(), [X], r"^sqrt\(\) missing 1 .*help\(torch.sqrt\)"),
    "torch's number": (lambda x: torch.maximum(x, 1.0), [X], r"must be Tensor, not float: a Value.*help\(torch.maximum\)"),
    "torch's option": (lambda row: torch.sum(row, of=1), [TABLE], r"^sum\(\) received .*help\(torch.sum\)"),
    "a method's argument": (lambda x: x.where(x > 0), [X], "where, as functions of elements may use it: missing.*'other'"),
    "a method's condition": (lambda x: x.where(x, 0), [X], "condition first, whose type is bool"),
    "vector": (lambda row: row * torch.ones(3), [TABLE], "mul takes elements of the arrays, numbers"),
    "text": (lambda x: x + "1", [X], "add takes elements.*'1'"),
    "None": (lambda x: x == None, [X], "eq takes elements"),  # noqa: E711
    "half": (lambda x: x.to(torch.float16), [X], r"\.to\(\) takes one of"),
    "numbers": (lambda x: 3.0, [X], "gives 3.0, and must give one value"),
    "nothing": (lambda x: None, [X], "gives None"),
    "two": (lambda x: (x, x), [X], "must give one value"),
    "bits": (lambda x: x & 1, [X], "bitwise_and of float32, the number 1: torch says"),
    "minus": (lambda x: x - x, [X > 0], "sub of bool, bool: torch says"),
    "zero": (lambda x: x // 0, [X.long()], "torch says"),
    "large": (lambda x: x + 300, [X.byte()], "300 is not a whole number from 0 to 255"),
    "condition": (lambda x: torch.where(x, x, 0), [X], "condition first, whose type is bool"),
    "clamp": (lambda x: x.clamp(), [X], "min, max or both"),
    "len": (lambda x: len(x) + x, [X], "rows have a length"),
    "element": (lambda x: x[0], [X], "two dimensions"),
    "beyond": (lambda row: row[3], [TABLE], "from -3 to 2"),
    "slice": (lambda row: row[:2], [TABLE], "the element of a row"),
    "fold": (lambda x: x.sum(), [X], "hl.reduce does so"),
    "dim": (lambda row: row.sum(dim=1), [TABLE], "dim=1; a function sees a row"),
    "mean": (lambda row: row.mean(), [TABLE.long()], "mean of int64: torch says"),
    "width": (lambda a, b: a + b, [TABLE, torch.ones(6, 2)], r"shapes \(2,\) and \(3,\) do not fit"),
    "fewer": (lambda a, b: a + b, [X], "1 arrays do not fit the function: missing a required argument: 'b'"),
    "more": (lambda a: a, [X, X], "too many positional"),
    "no function": (X, [X], "takes a function first"),
    "no array": (lambda: 1, [], "there are none"),
    "lengths": (lambda a, b: a + b, [X, torch.ones(5)], "6, 5 rows"),
    "type": (lambda x: x, [X.half()], "float16, which kernels from Python do not read"),
    "list": (lambda x: x, [[1.0]], "array_0 is .1.0.*torch.tensor"),
    "scalar": (lambda x: x, [torch.tensor(1.0)], "has no dimension"),
    "strided": (lambda x: x, [torch.ones(6, 6).T], "does not lie in one piece"),
    "sparse": (lambda x: x, [X.to_sparse()], "array_0 has the layout"),
    "gradient": (lambda x: x, [X.clone().requires_grad_()], "requires a gradient"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_in_a_sentence(what: str) -> None:
    function, arrays, reason = REFUSED[what]
    with pytest.raises(ConfigError, match=reason):
        hl.map(function, *arrays)


@pytest.mark.parametrize("call", (hl.filter, lambda *x: hl.reduce("sum", *x)))
@pytest.mark.parametrize("what", ("numpy", "numpy's choice", "math", "if", "set"))
def test_filter_and_reduce_refuse_it_too(what: str, call) -> None:
    function, arrays, reason = REFUSED[what]
    with pytest.raises(ConfigError, match=reason):
        call(function, *arrays)


def test_numbers_of_numpys_are_numbers(device: torch.device) -> None:
    x = torch.arange(6, device=device)
    wanted = torch.where(x > 2, 2 * x + (2 << x), 2**x + (x == 2))
    for number in (np.int64(2), np.array(2)):
        ours = hl.map(lambda x, n=number: torch.where(n < x, n * x + (n << x), n**x + (n == x)), x)
        assert torch.equal(ours, wanted)


def test_what_a_function_raises_is_its_users() -> None:
    def function(x):
        return x + {}["missing"]

    with pytest.raises(KeyError, match="missing"):
        hl.map(function, X)
    with pytest.raises(TypeError, match="unsupported operand"):
        hl.map(lambda x: x + (1 + "1"), X)


@pytest.mark.parametrize(
    ("out", "reason"),
    (
        (lambda: torch.empty(6, dtype=torch.float64), r"gives float32, and out is of float64; .*\.to\(torch.float64\)"),
        (lambda: torch.empty(5), r"shape \(5,\), and the values \(6,\)"),
        (lambda: [1.0], "kernels write to tensors and UnifiedTensors"),
        (lambda: hl.UnifiedTensor.from_tensor(X).tiered(devices="cpu"), "kernels write to tensors"),
    ),
)
def test_an_out_that_does_not_fit(out, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        hl.map(lambda x: x + 1, X, out=out())


def test_an_out_over_elements_that_are_still_to_be_read() -> None:
    long = torch.ones(12)
    with pytest.raises(ConfigError, match="out overlaps array_0"):
        hl.map(lambda x: x + 1, long[:6], out=long[1:7])
    rows = torch.ones(6, 3)
    with pytest.raises(ConfigError, match="out overlaps array_0"):
        hl.map(lambda row: row + row[0], rows, out=rows)
    held = hl.UnifiedTensor.from_tensor(long)
    with pytest.raises(ConfigError, match="out overlaps array_0"):
        hl.map(lambda x: x + 1, held.cpu()[:6], out=held.cpu()[3:9])


def test_a_filter_gives_a_bool_for_each_row() -> None:
    with pytest.raises(ConfigError, match="gives float32, not bool; compare"):
        hl.filter(lambda x: x, X)
    with pytest.raises(ConfigError, match=r"each of the 3 elements of a row; end it with \.any\(\)"):
        hl.filter(lambda row: row > 0, TABLE)
    with pytest.raises(ConfigError, match="filter: array_0"):
        hl.filter(lambda x: x > 0, [1])


@pytest.mark.parametrize("threads", (1, 4))
def test_row_numbers_are_in_order(threads: int, monkeypatch: pytest.MonkeyPatch, device: torch.device) -> None:
    x = torch.randn(100_003)
    before = torch.get_num_threads()
    monkeypatch.setattr(elementwise, "_PIECE", 10_000)
    try:
        _core.set_num_threads(threads)
        ours = hl.filter(lambda x: torch.isnan(x) | (x > 1), x.to(device))
    finally:
        _core.set_num_threads(before)
    assert ours.dtype == torch.int64 and torch.equal(ours.cpu(), torch.nonzero(x > 1).view(-1))


def test_functions_of_torchs_own(device: torch.device) -> None:
    x = torch.rand(50)
    assert torch.equal(hl.map(torch.square, x.to(device)).cpu(), x.square())
    assert torch.equal(hl.map(torch.nn.functional.relu, (x - 0.5).to(device)).cpu(), (x - 0.5).relu())


def test_a_value_that_is_used_many_times() -> None:
    def function(x):
        for _ in range(60):
            x = x * 0.5 + x * 0.5
        return x

    x = torch.randn(100)
    assert torch.equal(hl.map(function, x), function(x))


def test_texts_compile_for_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one: every function, each way of putting rows together, every kind of array."""
    pytest.importorskip("cuda.bindings.nvrtc")
    monkeypatch.setitem(jit._FLAGS, "ofast_compile", "max")  # which takes half the time

    def many(row, x, n):
        made = [getattr(torch, name)(row) for name in [*ROUNDED, *CLOSE] if name != "bitwise_not"]
        made += [getattr(torch, name)(n, n + 3) for name in PAIRS]
        made += [getattr(torch, name)(row, x) for name in PAIRS if "bit" not in name]
        made += [n >> 2, n << 2, ~n, row**1.5, n**3, n.double() ** n, row.byte(), torch.isnan(x)]
        return sum(((one + 0.5).double() for one in made[1:]), made[0])

    dtypes, shapes = [torch.float32, torch.float64, torch.int64], [(40,), (), ()]
    texts = []
    for function in (
        many,
        lambda row, x, n: (row * x).sum() + row.max() + row.min() + (row > n).any(),
        lambda row, x, n: row / row.sum() + row[3],
        lambda row, x, n: n % 7,
        lambda row, x, n: n > 0,
    ):
        value = traced.trace("map", function, dtypes, shapes)
        texts.append(text.map_text(value, dtypes, 40))
        if "fold" not in value.passes:
            texts += [text.sum_text(value, dtypes), text.bound_text("amax", value, dtypes)]
    texts.append(text.sum_text(traced.trace("map", lambda row, x, n: n, dtypes, shapes), dtypes))
    texts.append(text.sum_text(traced.trace("map", lambda row, x, n: row[1].char(), dtypes, shapes), dtypes))
    for number, written in enumerate(texts):  # each with one kind of array alone, or with all: both would take as long again
        kinds = 1 if number % 2 and len(written.text) < 3000 else 7
        assert elementwise._kernel(written.text)._text(kinds).build("sm_90", tmp_path).stat().st_size
