"""Rows of a UnifiedTensor against torch's own indexing."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hinterland import UnifiedTensor
from hinterland.memory.gather import Padding
from hinterland.runtime.errors import ConfigError, IndexOutOfRange, OutOfMemory

from .. import forked
from ..split import across_boundary
from .far_rows import FarRows

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.uint16,
    torch.int32,
    torch.uint32,
    torch.int64,
    torch.uint64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
]
shared_fixture = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _random(shape, dtype):
    count = torch.Size(shape).numel()
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, dtype=torch.uint8).bool()
    return torch.randint(0, 256, (count * dtype.itemsize,), dtype=torch.uint8).view(dtype).view(shape)


def _bytes(tensor):
    """The rows as bytes, so that NaNs of random content compare equal to themselves."""
    row_bytes = tensor.shape[1:].numel() * tensor.dtype.itemsize
    return tensor.cpu().contiguous().view(-1).view(torch.uint8).view(len(tensor), row_bytes)


@shared_fixture
@given(
    dtype=st.sampled_from(DTYPES),
    rows=st.integers(1, 50),
    row=st.lists(st.integers(0, 20), max_size=3),
    index_shape=st.lists(st.integers(0, 7), max_size=3),
    wide=st.booleans(),
    seed=st.integers(0, 99),
)
def test_gather_matches_torch(device, dtype, rows, row, index_shape, wide, seed):
    torch.manual_seed(seed)
    table = _random((rows, *row), dtype)
    index = torch.randint(-rows, rows, index_shape, dtype=torch.int64 if wide else torch.int32)
    taken = UnifiedTensor.from_tensor(table)[index.to(device)]
    assert taken.device == device
    assert taken.dtype == dtype
    assert taken.shape == index.shape + table.shape[1:]
    assert torch.equal(_bytes(taken.view(index.numel(), *row)), _bytes(table)[index.long().view(-1)])


@shared_fixture
@given(
    dtype=st.sampled_from(DTYPES),
    rows=st.integers(1, 50),
    row=st.lists(st.integers(1, 20), max_size=2),
    wide=st.booleans(),
    seed=st.integers(0, 99),
)
def test_scatter_matches_torch(device, dtype, rows, row, wide, seed):
    torch.manual_seed(seed)
    table = _random((rows, *row), dtype)
    index = torch.randperm(rows)[: rows // 2 + 1].to(torch.int64 if wide else torch.int32)
    values = _random((len(index), *row), dtype)
    unified = UnifiedTensor.from_tensor(table)
    assert unified.scatter_(index.to(device), values.to(device)) is unified
    expected = _bytes(table.clone())
    expected[index.long()] = _bytes(values)
    assert torch.equal(_bytes(unified.cpu()), expected)


@pytest.mark.parametrize("row_bytes", [1, 3, 100, 128, 130, 512, 1028, 4096, 100_001])
@pytest.mark.parametrize("count", [1, 31, 5000])
def test_row_sizes(device, row_bytes, count):
    count = count if row_bytes < 5000 else min(count, 31)
    table = torch.randint(0, 256, (257, row_bytes), dtype=torch.uint8)
    index = torch.randint(0, 257, (count,))
    assert torch.equal(UnifiedTensor.from_tensor(table)[index.to(device)].cpu(), table[index])


def test_views_and_properties():
    source = torch.arange(24, dtype=torch.int16).view(4, 3, 2)
    table = UnifiedTensor.from_tensor(source)
    assert (table.shape, table.dtype, table.ndim, len(table)) == (source.shape, torch.int16, 3, 4)
    assert (table.nbytes, table.row_bytes) == (48, 12)
    assert "int16" in repr(table)
    assert table.cpu().data_ptr() == table.cpu().data_ptr()
    table.cpu()[2] = 7
    assert (table[2] == 7).all()
    assert torch.equal(table[1:3], table.cpu()[1:3])
    assert torch.equal(table[[0, -1]], table.cpu()[[0, -1]])
    assert table[[]].shape == (0, 3, 2)
    assert table[-1].data_ptr() == table.cpu()[-1].data_ptr()
    assert torch.equal(table.view((8, 3)).cpu(), table.cpu().view(8, 3))
    assert torch.equal(table.view((5, 2)).cpu(), table.cpu().view(-1)[:10].view(5, 2))
    assert table.view((5, 2)).nbytes == 20
    assert table.view(48, torch.uint8).cpu().data_ptr() == table.cpu().data_ptr()


def test_as_a_tensor_of_a_device_nothing_is_copied(device):
    table = UnifiedTensor.from_tensor(torch.arange(12.0).view(4, 3))
    there = table.to(device)
    assert there.device == device and there.shape == (4, 3)
    there[1] = 7
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    assert table.cpu()[1].tolist() == [7, 7, 7]


def test_source_tensors_of_any_layout():
    base = torch.randn(6, 4, dtype=torch.complex64)
    for source in (base, base.t(), base[::2], base[:, 1:], base.conj(), base.real, base.requires_grad_(), base[:0]):
        assert torch.equal(UnifiedTensor.from_tensor(source).cpu(), source.detach().resolve_conj())


def test_indices_of_any_layout(device):
    table = torch.randn(40, 5)
    index = torch.randint(0, 40, (12, 6))
    unified = UnifiedTensor.from_tensor(table)
    for view in (index.t(), index[::2], index[:, 2:4], index[3], index[2, 2]):
        assert torch.equal(unified[view.to(device)].cpu(), table[view])


def test_out_and_options(device):
    table = torch.randn(300, 33)
    unified = UnifiedTensor.from_tensor(table)
    index = torch.randint(0, 300, (1000,), device=device)
    out = torch.empty(1000, 33, device=device)
    for options in (
        {},
        {"max_blocks": 1},
        {"sort": True},
        {"sort": False},
        {"check": "async"},
        {"sort": True, "max_blocks": 2},
    ):
        out.zero_()
        assert unified.gather(index, out=out, **options) is out
        unified.synchronize()
        assert torch.equal(out.cpu(), table[index.cpu()])


KINDS = {
    "host": UnifiedTensor.from_tensor,
    "pinned": lambda rows: UnifiedTensor.from_tensor(rows, "pinned"),
    "split": across_boundary,
    "tiered": lambda rows: UnifiedTensor.from_tensor(rows).tiered(local="8KiB", order=torch.randperm(len(rows))),
    "cached": lambda rows: UnifiedTensor.from_tensor(rows).cached("32KiB"),
}


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_padding_is_not_read(device, kind, dtype):
    rows = torch.randn(1000, 24).to(dtype)
    table, begin = KINDS[kind](rows), torch.zeros((), dtype=torch.int64, device=device)
    index, row = torch.randint(-1000, 1000, (700,), device=device), torch.full((1, 24), 7, device=device).to(dtype)
    for count in (0, 1, 350, 700, 900):
        found = table.gather_padded(index, Padding(begin.fill_(count), row), max_blocks=2)
        assert torch.equal(found[:count].cpu(), rows[index[:count].cpu()]) and (found[count:].float() == 7).all()
    with pytest.raises(ConfigError, match="kernels do not read rows of a FarRows; gather them first"):
        FarRows(rows).gather_padded(index, Padding(begin, row))


@pytest.mark.parametrize("value", [50, -51, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_first_bad_index_is_named(device, value, dtype):
    table = torch.randn(50, 3)
    unified = UnifiedTensor.from_tensor(table)
    index = torch.randint(0, 50, (4000,), dtype=dtype)
    index[[1234, 3999, 2000]] = value
    for sort in (False, True):
        with pytest.raises(IndexOutOfRange, match=rf"index {value} at position 1234 .* 50 rows \(3 such"):
            unified.gather(index.to(device), sort=sort)
    index[1234:] = 0
    assert torch.equal(unified[index.to(device)].cpu(), table[index])  # and nothing is left of the fault


def test_rows_of_bad_indices_are_zero_and_never_written(device):
    table = torch.randn(50, 3)
    unified = UnifiedTensor.from_tensor(table)
    index = torch.tensor([1, 50, 2], device=device)
    out = torch.ones(3, 3, device=device)
    with pytest.raises(IndexOutOfRange):
        unified.gather(index, out=out)
    assert torch.equal(out.cpu(), torch.stack([table[1], torch.zeros(3), table[2]]))
    with pytest.raises(IndexOutOfRange, match="position 1"):
        unified.scatter_(index, torch.ones(3, 3, device=device))
    table[[1, 2]] = 1
    assert torch.equal(unified.cpu(), table)


def test_bad_indices_where_there_is_nothing_to_copy(device):
    for shape in ((0, 4), (3, 0)):
        unified = UnifiedTensor.empty(shape)
        assert unified[torch.empty(0, dtype=torch.int64, device=device)].shape == (0, shape[1])
        with pytest.raises(IndexOutOfRange, match="position 0"):
            unified[torch.tensor([3], device=device)]
    assert UnifiedTensor.empty((3, 0))[torch.tensor([2], device=device)].shape == (1, 0)
    with pytest.raises(IndexError):
        UnifiedTensor.empty((3, 2))[3]


def test_wrong_arguments_get_a_sentence(device):
    unified = UnifiedTensor.from_tensor(torch.randn(8, 2))
    index = torch.tensor([1, 2], device=device)
    for bad in (index.to(torch.uint8), index.float(), index.to(torch.int16)):
        with pytest.raises(ConfigError, match="int32 or int64"):
            unified[bad]
    for bad in ("a", 1.5, (0, "a"), (..., ...), [0.5]):
        with pytest.raises(ConfigError):
            unified[bad]
    for out in (
        torch.empty(2, 3, device=device),
        torch.empty(2, 2, dtype=torch.float64, device=device),
        torch.empty(2, 4, device=device)[:, ::2],
    ):
        with pytest.raises(ConfigError, match="out must be"):
            unified.gather(index, out=out)
    with pytest.raises(ConfigError, match="rows must be"):
        unified.scatter_(index, torch.empty(3, 2, device=device))
    with pytest.raises(ConfigError, match="max_blocks"):
        unified.gather(index, max_blocks=0)
    with pytest.raises(ConfigError, match="sort"):
        unified.gather(index, sort="yes")
    with pytest.raises(ConfigError, match="check"):
        unified.gather(index, check="never")
    with pytest.raises(ConfigError, match="at least one dimension"):
        UnifiedTensor.empty(())
    with pytest.raises(ConfigError, match="at least one dimension"):
        UnifiedTensor.from_tensor(torch.tensor(1.0))
    with pytest.raises(ConfigError, match="none below 0"):
        UnifiedTensor.empty((2, -1))
    with pytest.raises(ConfigError, match="placement"):
        UnifiedTensor.empty(3, placement="gpu")
    with pytest.raises(ConfigError, match="viewed"):
        unified.view((3, 6))


def test_forked_workers_gather_alone():
    """A data loader's workers: they have the parent's OpenMP pool, but none of its threads."""
    code = """
import os, signal, torch
from hinterland import UnifiedTensor
from hinterland.memory.gather import Padding
table = UnifiedTensor.from_tensor(torch.randn(20000, 64), placement="pageable")
index = torch.randint(0, 20000, (50000,))
expected = table[index]
child = os.fork()
if child == 0:
    signal.alarm(30)
    os._exit(0 if torch.equal(table[index], expected) else 1)
print(os.waitpid(child, 0)[1])
"""
    done = forked.run("-c", code)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_too_large_is_refused_before_allocating(monkeypatch):
    with pytest.raises(OutOfMemory, match="can be had"):
        UnifiedTensor.empty((1 << 50,), torch.uint8)
    monkeypatch.setenv("HINTERLAND_HOST_MEMORY", "1MiB")
    with pytest.raises(OutOfMemory, match="HINTERLAND_HOST_MEMORY"):
        UnifiedTensor.empty((2 << 20,), torch.uint8)


def test_lazily_conjugated_and_negated_rows_are_written_as_they_read():
    complex_rows = torch.randn(3, 4, dtype=torch.complex64)
    table = UnifiedTensor.from_tensor(torch.zeros(3, 4, dtype=torch.complex64))
    table.scatter_([0, 1, 2], complex_rows.conj())
    assert torch.equal(table.cpu(), complex_rows.conj())
    table = UnifiedTensor.from_tensor(torch.zeros(3, 4))
    table.scatter_([0, 1, 2], torch._neg_view(complex_rows.real.contiguous()))
    assert torch.equal(table.cpu(), -complex_rows.real)
    with pytest.raises(ConfigError, match="resolve_conj"):
        UnifiedTensor.from_tensor(complex_rows).gather([0], out=torch.zeros(1, 4, dtype=torch.complex64).conj())


def test_a_copy_within_the_table_is_refused():
    values = torch.arange(24.0).view(6, 4)
    table = UnifiedTensor.from_tensor(values)
    with pytest.raises(ConfigError, match="own memory"):
        table.gather(torch.arange(6).flip(0), out=table.cpu())
    with pytest.raises(ConfigError, match="own memory"):
        table.scatter_([1, 0], table.cpu()[4:])
    with pytest.raises(ConfigError, match="own memory"):
        table.view((12, 2)).gather([0, 1], out=table.cpu().view(12, 2)[10:])
    assert torch.equal(table.cpu(), values)
    table.scatter_([1, 0], table.cpu()[4:].clone())
    assert torch.equal(table.cpu()[:2], values[[5, 4]])


@pytest.mark.parametrize(
    "use",
    [
        lambda table: table[["a"]],
        lambda table: table[[[1], [2, 3]]],
        lambda table: table[[2**70]],
        lambda table: table.gather(3),
        lambda table: table.gather([1], out=[0.0]),
        lambda table: table.scatter_([1], [1.0, 2.0]),
        lambda table: UnifiedTensor.from_tensor([1.0]),
        lambda table: UnifiedTensor.from_tensor(torch.eye(3).to_sparse()),
        lambda table: UnifiedTensor.from_tensor(torch.eye(3).to_sparse_csr()),
        lambda table: UnifiedTensor.from_tensor(torch.empty(3, device="meta")),
        lambda table: UnifiedTensor.empty((2.5,)),
        lambda table: UnifiedTensor.empty("ab"),
        lambda table: UnifiedTensor.empty((2,), dtype="float32"),
    ],
)
def test_what_is_no_tensor_gets_a_sentence(use):
    with pytest.raises(ConfigError):
        use(UnifiedTensor.from_tensor(torch.zeros(4, 2)))
