"""Every operator of every type at the edges of its values: torch is the oracle, where it agrees with itself.

Torch has loops of vectors and of single elements. Where these differ, or where it raises, docs/kernels.md says what is given
here, and test_map.py (test_what_torch_leaves_open) that it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import hinterland as hl
from hinterland.kernels import signature
from hinterland.kernels.source import Text
from hinterland.kernels.text import OPENING, map_text
from hinterland.kernels.traced import trace
from hinterland.runtime.errors import ConfigError

from .test_map import CLOSE, FLOATS, TYPES

OF_ONE = "abs neg sign square relu bitwise_not reciprocal ceil floor trunc round isnan isinf isfinite logical_not".split()
OF_TWO = (
    "add sub mul div fmod remainder floor_divide bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift "
    "eq ne lt le gt ge maximum minimum logical_and logical_or logical_xor pow"
).split()
NEAR = (*CLOSE, "pow", "root")  # of floats, which are right but for some units in the last place

Case = tuple[Callable[..., torch.Tensor], torch.Tensor, torch.Tensor]  # what is called, what torch gives, where it is asked

# With numbers of Python's and tensors without dimensions on either side.
OF_FLOATS = {
    "clamp the wrong way round": lambda x, y: x.clamp(1, -1),
    "clamp to zeros": lambda x, y: x.clamp(-0.0, 0.0),
    "clamp of both": lambda x, y: torch.clamp(x, y, y * 2),
    "a number that is none": lambda x, y: x == 0.1,
    "a number before": lambda x, y: 0.1 - x,
    "a large number": lambda x, y: x - (2**53 + 1),
    "by zero": lambda x, y: x // 0.0,
    "rest of less than zero": lambda x, y: x % -0.0,
    "zeroth power": lambda x, y: x**0,
    "root": lambda x, y: x**0.5,
    "a half that has no dimension": lambda x, y: x * torch.tensor(0.1, dtype=torch.float16),
    "a bfloat16 that has no dimension": lambda x, y: torch.tensor(0.1, dtype=torch.bfloat16) - x,
    "a choice": lambda x, y: torch.where(x < y, x, -0.0),
}
OF_WHOLE = {
    "clamp the wrong way round": lambda x, y: x.clamp(3, 1),
    "clamp of both": lambda x, y: torch.clamp(x, y, x),
    "quotient": lambda x, y: x // 7,
    "rest": lambda x, y: x % 7,
    "square": lambda x, y: x**2,
    "seventh power": lambda x, y: x**7,
    "zeroth power": lambda x, y: x**0,
    "of two": lambda x, y: 2**y,
    "a shift by all bits": lambda x, y: (x >> 8 * x.dtype.itemsize) | (x << 8 * x.dtype.itemsize),
    "a number to shift": lambda x, y: (100 << y) ^ (100 >> y),
    "not": lambda x, y: ~x & 3,
    "with a bool": lambda x, y: x + True,
    "of a comparison": lambda x, y: (x > y) * x - (x <= y),
}


def edges(dtype: torch.dtype) -> torch.Tensor:
    """Values at which some operator, cast or comparison changes what it does."""
    if dtype in FLOATS:
        kind = torch.finfo(dtype)
        tiny = (kind.tiny, kind.smallest_normal / 4, kind.eps, kind.max)
        some = (0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 7.0, 127.0, 128.0, 255.5, 256.0, 32768.0, 2.0**24 + 1, 2.0**31 - 1, 2.0**31)
        far = (2.0**32, 2.0**53, 2.0**62, 2.0**63, 1e30, math.inf)
        random = (torch.randn(8, generator=torch.Generator().manual_seed(3)) * 100).tolist()
        return torch.tensor([sign * one for one in (*some, *far, *tiny) for sign in (1, -1)] + [math.nan, *random], dtype=dtype)
    if dtype == torch.bool:
        return torch.tensor([False, True])
    kind = torch.iinfo(dtype)
    width, most = kind.bits, kind.max
    some = {0, 1, 2, 3, 5, 7, 8, 9, 37, 100, 200, width - 1, width, width + 1, 2**24 + 1, 2**53 + 1, 2**62, most - 1, most}
    return torch.tensor(sorted({one for x in some for one in (x, -x, ~x) if kind.min <= one <= most}), dtype=dtype)


def same(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Where values are equal, NaN to NaN and each zero to its own."""
    equal = a == b
    if a.dtype in FLOATS:
        equal = (equal & (a.signbit() == b.signbit())) | (a.isnan() & b.isnan())
    return equal


def torchs(function: Callable[..., torch.Tensor], *x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What torch gives, and where it gives the same of vectors and of single elements, which it takes where they do not lie
    side by side."""
    alone = function(*(torch.stack((one, one), 1)[:, 0] for one in x))
    run = 64
    many = function(*(one.repeat_interleave(run) for one in x)).view(-1, run)
    return alone, same(many, alone[:, None].expand_as(many)).all(1)


def of_torch(name: str, function: Callable[..., torch.Tensor], x: list[torch.Tensor]) -> Case | None:
    """None where torch has no such function of these types."""
    asked = torch.ones(len(x[0]), dtype=torch.bool)
    if name in ("fmod", "remainder", "floor_divide") and x[0].dtype not in FLOATS:
        asked = x[1] != 0
        x = [x[0], torch.where(asked, x[1], torch.ones_like(x[1]))]
    try:
        given, agrees = torchs(function, *x)
    except (RuntimeError, TypeError):
        return None
    return function, given, agrees & asked


def in_one(cases: dict[str, Case]) -> tuple[Callable[..., torch.Tensor], torch.dtype]:
    """A function of a case's number and x that has all cases, since compiling takes longer than all else; the type it gives."""
    wide = torch.int64 if all(given.dtype not in FLOATS for _, given, _ in cases.values()) else torch.float64

    def function(which, *x):
        result = 0
        for k, (one, given, _) in enumerate(cases.values()):
            value = one(*x)
            assert value.dtype == given.dtype, list(cases)[k]
            result = torch.where(which == k, value.to(wide), result).to(wide)
        return result

    return function, wide


def check(cases: dict[str, Case], x: list[torch.Tensor], device: torch.device) -> None:
    """Of functions of x."""
    function, wide = in_one(cases)
    which = torch.arange(len(cases), dtype=torch.int32).repeat_interleave(len(x[0]))
    ours = hl.map(function, which.to(device), *(one.repeat(len(cases)).to(device) for one in x)).cpu()
    wrong: list[str] = []
    for (name, (_, given, asked)), got in zip(cases.items(), ours.view(len(cases), -1), strict=True):
        assert asked.any(), name
        right = same(got, given.to(wide))
        if name in NEAR and given.dtype in FLOATS:
            kind, wanted = torch.finfo(given.dtype), given.double()
            right |= (got - wanted).abs() <= 8 * (kind.eps * wanted.abs()).clamp(min=kind.smallest_normal * kind.eps)
        for i in (asked & ~right).nonzero().view(-1).tolist()[:3]:
            wrong.append(f"{name} of {[one[i].item() for one in x]}: {got[i].item()}, torch {given[i].item()}")
    assert not wrong, "\n".join(wrong)


def operators(dtype: torch.dtype) -> tuple[dict[str, Case], list[torch.Tensor]]:
    """All that are computed in a type or in a wider one of its kind, and the pairs of values that they are called with. What
    there is not is refused."""
    one = edges(dtype)
    x = [one.repeat_interleave(len(one)), one.repeat(len(one))]
    functions = {name: (lambda x, y, name=name: getattr(torch, name)(x)) for name in (*OF_ONE, *CLOSE)}
    functions |= {name: getattr(torch, name) for name in OF_TWO} | (OF_FLOATS if dtype in FLOATS else OF_WHOLE)
    cases = {name: found for name, one in functions.items() if (found := of_torch(name, one, x)) is not None}
    for name in functions:
        if name not in cases:
            with pytest.raises(ConfigError):
                trace("map", functions[name], [dtype] * 2, [(), ()])
        elif dtype not in FLOATS and cases[name][1].dtype in FLOATS:  # of a cast, which another test has
            assert trace("map", functions[name], [dtype] * 2, [(), ()]).dtype == cases.pop(name)[1].dtype
    assert len(cases) > 15
    return cases, x


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_operators_at_the_edges(dtype: torch.dtype, device: torch.device) -> None:
    check(*operators(dtype), device)


@pytest.mark.timeout(120, method="thread")  # nothing else ends a compiler; NVRTC took for ever over quotients of bools
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_all_operators_in_one_compile_for_a_gpu(dtype: torch.dtype, tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    dtypes = [torch.int32, dtype, dtype]
    value = trace("map", in_one(operators(dtype)[0])[0], dtypes, [()] * 3)
    written = map_text(value, dtypes, 1)
    text = Text.of(signature.find(written.text, None), written.text, 0, OPENING)
    assert text.build("sm_90", tmp_path).stat().st_size > 0


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_bound_that_is_no_number_leaves_none(dtype: torch.dtype, device: torch.device) -> None:
    """As in torch 2.13, and in any torch by two such bounds; torch 2.11 takes no heed of one alone."""
    x = edges(dtype).to(device)
    for function in (lambda x: x.clamp(min=math.nan), lambda x: x.clamp(max=math.nan), lambda x: x.clamp(0, math.nan)):
        assert hl.map(function, x).isnan().all()


@pytest.mark.parametrize("wide", (torch.int64, torch.float64), ids=str)
def test_casts_at_the_edges(wide: torch.dtype, device: torch.device) -> None:
    """Of each type to each, but for numbers that a whole one cannot hold. To uint8 torch casts by way of int64."""
    width = max(len(edges(dtype)) for dtype in TYPES)
    x = [edges(dtype).repeat(width)[:width] for dtype in TYPES]
    cases = {}
    for i, given in enumerate(x):
        for dtype in TYPES:
            if (dtype in FLOATS) == (wide in FLOATS):
                asked = torch.ones(width, dtype=torch.bool)
                if given.dtype in FLOATS and dtype not in (*FLOATS, torch.bool):
                    kind = torch.iinfo(torch.int64 if dtype == torch.uint8 else dtype)
                    whole = given.double().trunc()
                    asked = (whole >= kind.min) & (whole < float(kind.max // 2 + 1) * 2)
                cases[f"{given.dtype} to {dtype}"] = (lambda *x, i=i, dtype=dtype: x[i].to(dtype)), given.to(dtype), asked
    check(cases, x, device)


def test_types_are_mixed_at_the_edges(device: torch.device) -> None:
    """Comparisons of each two types, and quotients of whole numbers."""
    width = max(len(edges(dtype)) for dtype in TYPES)
    some = [edges(dtype).repeat(width)[:width] for dtype in TYPES]
    x = [one.repeat_interleave(width) for one in some] + [one.repeat(width) for one in some]

    def compared(a, b):
        return (a == b).to(torch.int8) + 2 * (a < b).to(torch.int8) + 4 * (a >= b).to(torch.int8)

    pairs = [(i, len(TYPES) + j) for i in range(len(TYPES)) for j in range(len(TYPES)) if i < j]
    cases = {}
    for i, j in pairs:
        given, agrees = torchs(compared, x[i], x[j])
        cases[f"{x[i].dtype} and {x[j].dtype}"] = (lambda *x, i=i, j=j: compared(x[i], x[j])), given, agrees
    check(cases, x, device)
    quotients = {}
    for i in range(len(TYPES) - len(FLOATS)):
        given, agrees = torchs(torch.div, x[i], x[len(TYPES) + i])
        quotients[f"div of {x[i].dtype}"] = (lambda *x, i=i: x[i] / x[len(TYPES) + i]), given, agrees
    check(quotients, x, device)


@pytest.mark.parametrize(("c", "dtype"), (("half", torch.float16), ("bfloat16", torch.bfloat16)))
def test_what_has_16_bits_at_the_edges(c: str, dtype: torch.dtype, device: torch.device) -> None:
    """In kernels: all that there are, as floats; edges of floats, as they are kept; operators, each rounded once."""
    step = hl.kernel(f"""
        __global__ void step(array<const {c}> x, array<const {c}> y, array<const float> z, array<float> wide, array<{c}> kept,
                             array<{c}> sum, array<{c}> product, array<{c}> quotient, array<bool> less) {{
          const int64_t i = int64_t{{blockIdx.x}} * blockDim.x + threadIdx.x;
          if (i >= x.size()) return;
          wide[i] = x[i];
          kept[i] = z[i];
          sum[i] = x[i] + y[i];
          product[i] = x[i] * y[i];
          quotient[i] = x[i] / y[i];
          less[i] = x[i] < y[i];
        }}""")
    x = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)
    y = x[torch.randperm(2**16, generator=torch.Generator().manual_seed(2))]
    z = edges(torch.float32)
    kind = torch.finfo(dtype)
    halfway = [
        kind.max * (1 + kind.eps / 4),
        kind.max * (1 + kind.eps / 8),
        1 + kind.eps / 2,
        1 + 1.5 * kind.eps,
        kind.tiny / 3,
    ]
    z = torch.cat([z, torch.tensor(halfway), -torch.tensor(halfway)]).repeat(2**16)[: 2**16]
    wide, less = torch.empty(2**16, device=device), torch.empty(2**16, dtype=torch.bool, device=device)
    kept, total, product, quotient = (torch.empty(2**16, dtype=dtype, device=device) for _ in range(4))
    step(x.to(device), y.to(device), z.to(device), wide, kept, total, product, quotient, less)
    for name, ours, theirs in (
        ("wide", wide, x.float()),
        ("kept", kept, z.to(dtype)),
        ("sum", total, x + y),
        ("product", product, x * y),
        ("quotient", quotient, x / y),
        ("less", less, x < y),
    ):
        ours = ours.cpu()
        equal = (ours == theirs) | ((ours != ours) & (theirs != theirs))
        assert equal.all(), [name, *((one[~equal][:5]).tolist() for one in (x, y, z, ours, theirs))]
