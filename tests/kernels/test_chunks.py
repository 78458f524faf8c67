"""Functions of chunks: torch's results of whole arrays as the oracle, over arrays in every kind of memory."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import hinterland as hl
from hinterland.kernels import chunks, filter_chunks, map_chunks, reduce_chunks
from hinterland.memory import copies
from hinterland.runtime import warned
from hinterland.runtime.errors import ConfigError

from ..split import across_boundary
from .test_kernels import KINDS, ROWS, WIDTH, table

FEW = "8KiB"  # of a chunk: some hundred rows


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many chunks, none of which is compiled, which takes seconds on a CPU."""
    monkeypatch.setattr(chunks, "compiled", lambda function: function)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("cache", (FEW, "256MiB"))
@pytest.mark.parametrize("kind", KINDS)
def test_arrays_of_every_kind_of_memory(kind: str, cache: str, device: torch.device, tmp_path: Path) -> None:
    x, y = torch.randn(ROWS, WIDTH), torch.randn(ROWS)
    there, ys = table(kind, x, device, tmp_path), y.to(device)
    how = {"device": device, "cache": cache}
    for _ in range(2):
        assert torch.equal(map_chunks(lambda rows: rows * 2 - 1, there, **how).cpu(), x * 2 - 1)
        mixed = map_chunks(lambda rows, y: (rows[:, 3] * y)[:, None] + rows, there, ys, **how)
        assert torch.equal(mixed.cpu(), (x[:, 3] * y)[:, None] + x)
        assert torch.equal(map_chunks(lambda rows: rows.amax(1), there, **how).cpu(), x.amax(1))
        found = filter_chunks(lambda rows, y: (rows[:, 0] > y) & (rows[:, -1] > 0), there, ys, **how)
        assert torch.equal(found.cpu(), torch.nonzero((x[:, 0] > y) & (x[:, -1] > 0)).view(-1))
        squares = map_chunks(lambda rows: (rows * rows).sum(1), there, **how)
        assert squares.device == device
        torch.testing.assert_close(squares.cpu(), (x * x).sum(1))
        assert torch.equal(map_chunks(lambda rows: rows, there, **how).cpu(), x)  # which gives what it got


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("kind", KINDS)
def test_out_is_a_table_of_any_kind(kind: str, device: torch.device, tmp_path: Path) -> None:
    x = torch.randn(ROWS, WIDTH)
    out = table(kind, torch.zeros(ROWS, WIDTH), device, tmp_path)
    if kind == "cached":
        with pytest.raises(ConfigError):  # whose rows are only read
            map_chunks(lambda rows: rows + 1, x.to(device), out=out, cache=FEW)
        return
    if kind == "storage":
        out.close()
        out = hl.StorageArray.open(tmp_path / "x.npy", "r+", host_budget="1MiB")
    assert map_chunks(lambda rows: rows + 1, x.to(device), out=out, cache=FEW) is out
    assert torch.equal(out[torch.arange(ROWS, device=device)].cpu(), x + 1)
    assert map_chunks(lambda rows: rows * rows[:, :1], out, out=out, cache=FEW, device=device) is out
    assert torch.equal(out[torch.arange(ROWS, device=device)].cpu(), (x + 1) * (x + 1)[:, :1])
    out.close() if kind == "storage" else None


def test_compiled_chunks_are_rounded_as_the_first_one(device: torch.device, tmp_path: Path) -> None:
    """One kernel of the function, also for the last chunk, which is shorter; on a GPU no product goes into a sum unrounded."""
    a, b, c = (torch.randn(20_001) for _ in range(3))
    held, stored = hl.UnifiedTensor.from_tensor(b), table("storage", c, device, tmp_path)
    compiled = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    ours = map_chunks(lambda a, b, c: a * b + c / a, a.to(device), held, stored, cache="60KiB")
    assert torch.equal(ours.cpu(), a * b + c / a)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == compiled + 1


def test_without_a_compiler_functions_run_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_):
        raise RuntimeError("no g++")

    monkeypatch.setattr(torch, "compile", lambda *_, **__: refused)
    monkeypatch.setattr(warned, "_told", set())
    x = torch.randn(20_000)
    with pytest.warns(UserWarning, match=r"torch.compile failed.*no g\+\+"):
        assert torch.equal(map_chunks(lambda x: x + 1, x, cache="40KiB"), x + 1)

    def unlike(x):
        if len(x) < 4096:
            raise KeyError("mine")
        return x

    with pytest.raises(KeyError, match="mine"):
        map_chunks(unlike, x[:10_500], cache="40KiB")


LOOKUPS = {
    "index": lambda prices, at: prices[at],
    "gather": lambda prices, at: prices.gather(0, at),
    "embedding": lambda prices, at: torch.nn.functional.embedding(at, prices[:, None]).squeeze(1),
    "scatter": lambda prices, at: torch.zeros(len(at), 10).scatter(1, at[:, None], at[:, None].float())[:, 3],
}


@pytest.mark.parametrize("how", LOOKUPS)
def test_a_number_out_of_range_in_a_later_chunk(how: str, recwarn: pytest.WarningsRecorder) -> None:
    """Compiled for a CPU it would end the process."""
    prices, at, function = torch.arange(10.0), torch.randint(0, 10, (20_000,)), LOOKUPS[how]
    ours = map_chunks(lambda at: function(prices, at), at, cache="64KiB")
    assert torch.equal(ours, function(prices, at))
    assert not [one for one in recwarn if "torch.compile failed" in str(one.message)]
    at[15_000] = 10
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        map_chunks(lambda at: function(prices, at), at, cache="64KiB")


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(("element", "wanted"), ((900, [300, 700]), (901, [300, 1, 699])))
def test_chunks_are_cut_where_two_mappings_meet(element: int, wanted: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, seen = torch.randn(1000, 3), torch.randn(1000, 3), []
    at = x.data_ptr() + element * x.itemsize
    monkeypatch.setattr(copies, "boundaries", lambda: [at])

    def next_one(rows: torch.Tensor) -> torch.Tensor:
        seen.append(len(rows))
        return rows + 1

    assert torch.equal(map_chunks(next_one, x), x + 1) and seen == wanted
    seen.clear()
    assert map_chunks(next_one, y, out=x) is x and torch.equal(x, y + 1) and seen == wanted


@pytest.mark.gpu
@pytest.mark.parametrize("row_bytes", (128, 480))
def test_tables_of_two_mappings(row_bytes: int, device: torch.device) -> None:
    """Half of it mapped and half of it registered, by compiled chunks and others."""
    source = torch.randint(0, 256, (4099, row_bytes), dtype=torch.uint8)
    split, out = across_boundary(source), across_boundary(torch.zeros_like(source))
    for cache in ("64KiB", "256MiB"):
        map_chunks(lambda rows: rows ^ 3, split, out=out, cache=cache, device="cuda")
        torch.cuda.synchronize()
        assert torch.equal(out.cpu(), source ^ 3)
        map_chunks(lambda rows: rows, split, out=out, cache=cache, device="cuda")
        torch.cuda.synchronize()
        assert torch.equal(out.cpu(), source)
        assert reduce_chunks("sum", lambda rows: rows, split, cache=cache, device="cuda") == source.long().sum()


@pytest.mark.usefixtures("eager")
def test_chunks_have_whole_tiles_and_all_rows_in_order() -> None:
    x = torch.arange(100_003)
    seen: list[torch.Tensor] = []
    map_chunks(lambda x: seen.append(x.clone()) or x, x, cache="80KiB")
    assert [len(one) for one in seen[:-1]] == [8192] * (len(seen) - 1) and torch.equal(torch.cat(seen), x)


def test_types_are_torchs(device: torch.device) -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.complex64, torch.int16):
        x = torch.arange(50).to(dtype)
        ours = map_chunks(lambda x: x * 2 + 1, x.to(device))
        assert ours.dtype == dtype and torch.equal(ours.cpu(), x * 2 + 1)


def test_out_is_written(device: torch.device) -> None:
    x = torch.randn(ROWS, WIDTH)
    there, held = x.to(device, copy=True), hl.UnifiedTensor.empty((ROWS, WIDTH))
    out = torch.empty_like(there)
    assert map_chunks(lambda x: x + 1, there, out=out) is out and torch.equal(out.cpu(), x + 1)
    assert map_chunks(lambda x: x + 2, there, out=held) is held
    if device.type == "cuda":
        torch.cuda.synchronize()
    assert torch.equal(held.cpu(), x + 2)
    map_chunks(lambda x: x * x.sum(1, keepdim=True), there, out=there)
    torch.testing.assert_close(there.cpu(), x * x.sum(1, keepdim=True))
    with pytest.raises(ConfigError, match="out does not lie in one piece"):
        map_chunks(lambda x: x + 1, x.to(device), out=torch.empty(WIDTH, ROWS, device=device).T)


def test_nothing(device: torch.device) -> None:
    none, no_rows = torch.empty(0, device=device), torch.empty(0, 3, device=device)
    assert map_chunks(lambda x: x + 1, none).shape == (0,)
    assert map_chunks(lambda x: x.sum(1), no_rows).shape == (0,)
    assert map_chunks(lambda x: x > 1, no_rows).shape == (0, 3)
    assert map_chunks(lambda x: x + 1, torch.empty(4, 0, device=device)).shape == (4, 0)
    assert filter_chunks(lambda x: x > 1, none).tolist() == []
    assert filter_chunks(lambda x: x.sum(1) > 1, no_rows).dtype == torch.int64


X = torch.ones(6)
TABLE = torch.ones(6, 3)
REFUSED = {
    "no function": (X, [X], "takes a function first"),
    "no array": (lambda: 1, [], "there are none"),
    "lengths": (lambda a, b: a + b, [X, torch.ones(5)], "6, 5 rows"),
    "list": (lambda x: x, [[1.0]], "array_0 must be a torch tensor, not list"),
    "scalar": (lambda x: x, [torch.tensor(1.0)], "has no dimension"),
    "sparse": (lambda x: x, [X.to_sparse()], "array_0 has the layout"),
    "gradient": (lambda x: x, [X.clone().requires_grad_()], "requires a gradient"),
    "number": (lambda x: 3.0, [X], "of 6 rows the function gives 3.0, and must give a tensor"),
    "sum": (lambda x: x.sum(), [X], "with an entry for each row"),
    "fewer": (lambda x: x[:3], [X], "with an entry for each row"),
    "sparse values": (lambda x: x.to_sparse(), [X], "sparse_coo .*dense and"),
    "nested values": (lambda x: torch.nested.as_nested_tensor([x]), [X], "a nested tensor.*dense and"),
    "other device": (lambda x: x.to("meta"), [X], "on meta, and must give a tensor on cpu"),
}


@pytest.mark.parametrize("call", (map_chunks, filter_chunks, lambda *x: reduce_chunks("sum", *x)))
@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_in_a_sentence(what: str, call) -> None:
    function, arrays, reason = REFUSED[what]
    with pytest.raises(ConfigError, match=reason):
        call(function, *arrays)


def test_what_a_function_raises_is_its_users() -> None:
    with pytest.raises(ConfigError, match="no such function of this type: .*; cast"):
        filter_chunks(lambda x: x > 1, X.to(torch.complex64))
    with pytest.raises(KeyError, match="missing"):
        map_chunks(lambda x: x + {}["missing"], X)
    with pytest.raises(RuntimeError, match="size of tensor"):
        map_chunks(lambda x: x + torch.ones(5), X)


@pytest.mark.parametrize(
    ("out", "reason"),
    (
        (lambda: torch.empty(6, dtype=torch.float64), r"are float32 \[6\], and out is float64 \[6\].*\.to\(torch.float64\)"),
        (lambda: torch.empty(5), r"are float32 \[6\], and out is float32 \[5\]"),
        (lambda: [1.0], "out must be a torch tensor, not list"),
    ),
)
def test_an_out_that_does_not_fit(out, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        map_chunks(lambda x: x + 1, X, out=out())


def test_an_out_over_rows_that_are_still_to_be_read(tmp_path: Path) -> None:
    long = torch.ones(12)
    with pytest.raises(ConfigError, match="out overlaps array_0"):
        map_chunks(lambda x: x + 1, long[:6], out=long[1:7])
    map_chunks(lambda x: x + 1, long[:6], out=long[6:])
    held = hl.UnifiedTensor.from_tensor(long)
    with pytest.raises(ConfigError, match="out overlaps array_0"):
        map_chunks(lambda x: x + 1, held.cpu()[:6], out=held.cpu()[3:9])
    np.save(tmp_path / "x.npy", long.numpy())
    with hl.StorageArray.open(tmp_path / "x.npy") as stored, pytest.raises(ConfigError, match=r"x\.npy.*r\+"):
        map_chunks(lambda x: x + 1, long, out=stored)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    "unlike", (lambda x: x[:, :1], lambda x: x[:, 0], lambda x: x.double(), lambda x: x > 1), ids=("one", "row", "type", "bool")
)
def test_later_chunks_that_are_unlike_the_first(unlike) -> None:
    x, reason = torch.ones(9000, 4), r"from row 4096 on the function gives .*, and gave float32 \[4\] before"

    def made(rows: torch.Tensor) -> torch.Tensor:
        return rows if len(rows) == 4096 else unlike(rows)

    with pytest.raises(ConfigError, match=reason):
        map_chunks(made, x[:5000], cache="64KiB")
    for how in ("sum", "min", "count"):
        with pytest.raises(ConfigError, match=reason):
            reduce_chunks(how, made, x[:5000], cache="64KiB")


@pytest.mark.usefixtures("eager")
def test_an_out_over_rows_that_lie_apart() -> None:
    wide = torch.ones(100, 10)
    with pytest.raises(ConfigError, match="out overlaps array_0"):
        map_chunks(lambda x: x + 1, wide[:, 0], out=wide.view(-1)[500:600], cache="64B")
    one = torch.ones(1)
    assert torch.equal(map_chunks(lambda x: x + 1, one.expand(100), out=torch.empty(100)), torch.full((100,), 2.0))


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("cache", ("1KiB", "256MiB"))
def test_rows_of_out_that_are_given_turned(cache: str, device: torch.device) -> None:
    for turned in (lambda x: x.mT, lambda x: x[:, 0, :, None].expand(-1, 2, 2)):
        x = torch.randn(500, 2, 2)
        there = x.to(device, copy=True)
        assert torch.equal(map_chunks(turned, there, out=there, cache=cache).cpu(), turned(x))


def test_an_out_that_requires_a_gradient() -> None:
    out = torch.zeros(6, requires_grad=True)
    with pytest.raises(ConfigError, match="out requires a gradient"):
        map_chunks(lambda x: x + 1, X, out=out)
    with torch.no_grad():
        assert map_chunks(lambda x: x + 1, X, out=out) is out and out.sum() == 12


def test_a_filter_gives_a_bool_for_each_row() -> None:
    with pytest.raises(ConfigError, match="gives float32, not bool; compare"):
        filter_chunks(lambda x: x, X)
    with pytest.raises(ConfigError, match=r"3 bools for each row; end it with \.any\(1\)"):
        filter_chunks(lambda rows: rows > 0, TABLE)


@pytest.mark.usefixtures("eager")
def test_row_numbers_are_in_order(device: torch.device) -> None:
    x = torch.randn(100_003)
    ours = filter_chunks(lambda x: torch.isnan(x) | (x > 1), x.to(device), cache="40KiB")
    assert ours.dtype == torch.int64 and torch.equal(ours.cpu(), torch.nonzero(x > 1).view(-1))


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


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("count", (1, 31, 4095, 4096, 4097, 100_000, 4096 * 4096 + 5))
def test_floats_are_added_in_the_order_that_is_promised(count: int, device: torch.device) -> None:
    x = torch.randn(count, generator=torch.Generator().manual_seed(count))
    ours = reduce_chunks("sum", itself, x.to(device))
    assert ours.dtype == torch.float64 and ours.shape == () and ours.device == device
    assert ours.item() == in_order(x.double().numpy())
    rounds = max(1, math.ceil(math.log(count, 4096))) if count > 1 else 1
    assert abs(ours.item() - math.fsum(x.tolist())) <= 132 * rounds * 2.0**-53 * x.double().abs().sum().item()
    assert reduce_chunks("mean", itself, x.to(device)).item() == pytest.approx(ours.item() / count, rel=1e-15)
    if count <= 100_000:
        for cache in ("100KiB", "4000B"):  # chunks of whole tiles, and others
            assert reduce_chunks("sum", itself, x.to(device), cache=cache) == ours


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("kind", KINDS)
def test_reduced_arrays_of_every_kind_of_memory(kind: str, device: torch.device, tmp_path: Path) -> None:
    x, y = torch.randn(ROWS, WIDTH), torch.randn(ROWS)
    there, ys = table(kind, x, device, tmp_path), y.to(device)
    how = {"device": device, "cache": FEW}
    assert reduce_chunks("sum", itself, there, **how).item() == in_order(x.double().numpy().ravel())
    product = (x[:, 2] * y).double().numpy()
    assert reduce_chunks("sum", lambda rows, y: rows[:, 2] * y, there, ys, **how).item() == in_order(product)
    assert reduce_chunks("max", itself, there, **how).item() == x.max().item()
    assert reduce_chunks("min", lambda rows: rows.amax(1), there, **how).item() == x.amax(1).min().item()
    assert reduce_chunks("count", lambda rows: rows > 1, there, **how).item() == (x > 1).sum().item()
    assert reduce_chunks("count", lambda rows: (rows > 1).any(1), there, **how).item() == (x > 1).any(1).sum().item()


def test_threads_change_nothing(set_threads) -> None:
    x, threads, found = torch.randn(300_000), torch.get_num_threads(), set()
    try:
        for count in (1, 2, 5):
            set_threads(count)
            torch.set_num_threads(count)
            found.add(reduce_chunks("sum", lambda x: x * 1.1, x).item())
    finally:
        torch.set_num_threads(threads)
    assert len(found) == 1


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("count", (0, 1, 5000, 70_001))
@pytest.mark.parametrize("dtype", (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64), ids=str)
def test_whole_numbers_are_added_exactly(dtype: torch.dtype, count: int) -> None:
    low, high = (0, 1) if dtype == torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    x = torch.randint(low, high, (count,), generator=torch.Generator().manual_seed(count), dtype=torch.int64).to(dtype)
    x[::3] = high
    total = sum(x.tolist())
    if -(2**63) <= total < 2**63:
        ours = reduce_chunks("sum", itself, x, cache="100KiB")
        assert ours.dtype == torch.int64 and ours.item() == total
    else:
        with pytest.raises(ConfigError, match=f"the sum {total} does not fit into int64; add floats"):
            reduce_chunks("sum", itself, x, cache="100KiB")
    mean = reduce_chunks("mean", itself, x)
    assert mean.dtype == torch.float64 and (mean.item() == total / count if count else math.isnan(mean.item()))


def test_halves_that_cross_64_bits(device: torch.device) -> None:
    """What overflows on the way does not matter."""
    x = torch.tensor([2**63 - 1] * 9000 + [-(2**63)] * 9000 + [9007])
    assert reduce_chunks("sum", itself, x.to(device)).item() == 7
    with pytest.raises(ConfigError, match="does not fit into int64"):
        reduce_chunks("sum", itself, x[:9000].to(device))
    assert reduce_chunks("sum", lambda x: x.double(), x[:9000].to(device)).item() == 9000 * 2.0**63


@pytest.mark.usefixtures("eager")
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
        ours = reduce_chunks(how, itself, there, cache="7KiB")
        if how in ("any", "all"):
            wanted = wanted.bool()  # of uint8 torch gives uint8
        assert ours.dtype == wanted.dtype and ours.shape == () and ours.cpu() == wanted, how
    assert not reduce_chunks("any", lambda x: x == 101, there) and reduce_chunks("all", lambda x: x <= 127, x.char().to(device))


@pytest.mark.parametrize("dtype", (torch.uint16, torch.uint32, torch.float8_e4m3fn, torch.float8_e5m2), ids=str)
def test_types_that_torch_knows_little_of(dtype: torch.dtype) -> None:
    x = torch.tensor([1.0, 0.0, 1.0, 1.0] * 3000).to(dtype)
    assert reduce_chunks("sum", itself, x) == 9000 and reduce_chunks("mean", itself, x) == 0.75
    assert reduce_chunks("count", itself, x) == 9000
    assert reduce_chunks("any", itself, x) and not reduce_chunks("all", itself, x)
    for how in ("min", "max"):
        with pytest.raises(ConfigError, match=f"torch has no {how} of .*; cast"):
            reduce_chunks(how, itself, x)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("at", (0, 17, 5000, 9999))
def test_nan_is_the_least_and_the_greatest(at: int, device: torch.device) -> None:
    x = torch.randn(10_000)
    x[at] = math.nan
    for how in ("min", "max", "sum", "mean"):
        assert math.isnan(reduce_chunks(how, itself, x.to(device), cache="7KiB").item())
    assert reduce_chunks("count", itself, x.to(device)).item() == 10_000
    assert reduce_chunks("count", lambda x: torch.isnan(x), x.to(device)).item() == 1


def test_infinities(device: torch.device) -> None:
    x = torch.tensor([1.0, math.inf, 2.0], device=device)
    assert reduce_chunks("sum", itself, x) == math.inf and reduce_chunks("max", itself, x) == math.inf
    assert math.isnan(reduce_chunks("sum", lambda x: torch.where(x == 1, -math.inf, x), x))


def test_of_nothing(device: torch.device) -> None:
    for none in (torch.empty(0, device=device), torch.empty(0, 4, device=device), torch.empty(4, 0, device=device)):
        total = reduce_chunks("sum", itself, none)
        assert total.item() == 0 and total.dtype == torch.float64 and total.device == device
        assert math.isnan(reduce_chunks("mean", itself, none))
        assert reduce_chunks("count", itself, none) == 0
        assert not reduce_chunks("any", itself, none) and reduce_chunks("all", itself, none)
        for how in ("min", "max"):
            with pytest.raises(ConfigError, match=f"there is no {how} of no values"):
                reduce_chunks(how, itself, none)
    assert reduce_chunks("sum", lambda rows: rows.sum(1), torch.empty(0, 4, device=device)) == 0
    assert reduce_chunks("sum", itself, torch.empty(0, dtype=torch.int8, device=device)).dtype == torch.int64


def test_what_is_not_reduced() -> None:
    for call, reason in (
        (lambda: reduce_chunks("median", itself, X), "how 'median' is not one of sum, mean"),
        (lambda: reduce_chunks(itself, X), "is not one of sum"),
        (lambda: reduce_chunks("sum", itself, X.to(torch.complex64)), "not complex64; cast"),
        (lambda: reduce_chunks("sum", itself, X.to(torch.uint64)), "not uint64; cast"),
    ):
        with pytest.raises(ConfigError, match=reason):
            call()


def test_the_names_of_before_take_functions_of_a_row(device: torch.device) -> None:
    """And warn."""
    x, y = torch.randn(77, 5), torch.randn(77)
    there, ys = x.to(device), y.to(device)

    def same(function, wanted: torch.Tensor, *arrays: torch.Tensor) -> None:
        with pytest.warns(UserWarning, match=r"hl\.map goes away.*hl\.kernels\.map_chunks"):
            ours = hl.map(function, *arrays)
        assert ours.dtype == wanted.dtype and ours.shape == wanted.shape
        torch.testing.assert_close(ours.cpu(), wanted)

    same(lambda x: torch.where(x > 0, x, 0.5) ** 2, torch.where(y > 0, y, 0.5) ** 2, ys)
    same(lambda row: (row * row).sum().sqrt() / len(row), (x * x).sum(1).sqrt() / 5, there)
    same(lambda row, y: row / row.abs().max() + y, x / x.abs().amax(1, keepdim=True) + y[:, None], there, ys)
    same(lambda row: row[3] - row.mean(), x[:, 3] - x.mean(1), there)
    same(lambda row: row.sum(), torch.empty(0), torch.empty(0, 5))
    with pytest.warns(UserWarning, match=r"hl\.filter goes away"):
        found = hl.filter(lambda row, y: (row > -1).all() & (y > 0), there, ys)
    assert torch.equal(found.cpu(), torch.nonzero((x > -1).all(1) & (y > 0)).view(-1))
    with pytest.warns(UserWarning, match=r"hl\.reduce goes away"):
        assert hl.reduce("max", lambda row: row.sum(), there).item() == pytest.approx(x.sum(1).max().item())
