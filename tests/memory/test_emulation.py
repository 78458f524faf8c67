"""The GPU's gather, thread by thread on the CPU: the same header, so its arithmetic is tested without a GPU."""

import ctypes

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hinterland.memory.faults import _IndexFault
from hinterland.memory.gather import OneRange, Padding, RowCopy, row_cut
from hinterland.memory.plan import cut_rows
from hinterland.runtime.params import address


@pytest.fixture(scope="module")
def gpu(emulation):
    return emulation


def _emulate(gpu, table, packed, index, rows, row_bytes, *, warps, into_table=False, visit=None, cut=None, padding=None):
    cut = cut_rows(row_bytes, table, packed, into_table) if cut is None else cut
    fault = _IndexFault()
    copy = _copy(table, packed, index, rows, row_bytes, visit, padding)
    copy.into_table, copy.cut = into_table, row_cut(cut)
    shape = map(ctypes.c_int64, (cut.unit, cut.chunks, warps * 32))
    flag = gpu.emulate(ctypes.byref(copy), *shape, ctypes.byref(fault))
    return flag, [fault.first, fault.value, fault.table_rows, fault.count, fault.lock]


def _copy(table, packed, index, rows, row_bytes, visit, padding=None):
    return RowCopy(
        placement=OneRange(base=table, rows=rows),
        packed=packed,
        indices=index.data_ptr(),
        index_bytes=index.element_size(),
        visit=address(visit),
        valid=0 if padding is None else padding.begin.data_ptr(),
        padding=0 if padding is None else padding.row.data_ptr(),
        count=index.numel(),
        row_bytes=row_bytes,
    )


@settings(deadline=None, max_examples=150)
@given(
    row_bytes=st.integers(1, 700) | st.sampled_from([1024, 1028, 1040, 2048, 4100]),
    rows=st.integers(1, 40),
    count=st.integers(1, 300),
    shift=st.sampled_from([0, 0, 1, 2, 4, 8, 16, 32, 96]),
    warps=st.integers(1, 5),
    wide=st.booleans(),
    ordered=st.booleans(),
    into=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_every_byte_is_copied_once(gpu, row_bytes, rows, count, shift, warps, wide, ordered, into, seed):
    torch.manual_seed(seed)
    memory = torch.randint(0, 256, (rows * row_bytes + 256,), dtype=torch.uint8)
    start = -memory.data_ptr() % 128 + shift
    table = memory[start : start + rows * row_bytes].view(rows, row_bytes)
    if into:  # which of two rows for one place wins is not said, so there is one
        count = min(count, rows)
        index = torch.randperm(rows)[:count].to(torch.int64 if wide else torch.int32)
    else:
        index = torch.randint(-rows, rows, (count,), dtype=torch.int64 if wide else torch.int32)
    packed = torch.randint(0, 256, (count, row_bytes), dtype=torch.uint8)
    visit = torch.randperm(count) if ordered else None
    expected = table.clone()
    if into:
        expected[index.long()] = packed
    before = packed.clone()
    flag, fault = _emulate(
        gpu, table.data_ptr(), packed.data_ptr(), index, rows, row_bytes, warps=warps, into_table=into, visit=visit
    )
    assert flag == 0
    assert fault[3] == 0
    assert torch.equal(table, expected)
    assert torch.equal(packed, before if into else table[index.long()])


@settings(deadline=None, max_examples=80)
@given(
    row_bytes=st.sampled_from([1, 12, 128, 260, 512]),
    parts=st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any),
    warps=st.integers(1, 3),
    into=st.booleans(),
    bad=st.booleans(),
)
def test_rows_in_ranges(gpu, row_bytes, parts, warps, into, bad):
    """Neighbouring rows lie in one memory, and some memories have none; memory of GPUs is padded."""
    rows = sum(parts)
    source = torch.randint(0, 256, (rows, row_bytes), dtype=torch.uint8)
    bounds = torch.tensor([0, *parts]).cumsum(0)
    memories = [torch.zeros(len(part) * row_bytes + 1024, dtype=torch.uint8) for part in source.split(parts)]
    memories = [memory[-memory.data_ptr() % 512 :] for memory in memories]
    held = [memory[: n * row_bytes].view(n, row_bytes) for memory, n in zip(memories, parts, strict=True)]
    for own, part in zip(held, source.split(parts), strict=True):
        own.copy_(part)
    index = torch.randperm(rows) if into else torch.randint(-rows, rows, (70,))
    if bad:
        index[len(index) // 2] = rows
    packed = torch.randint(0, 256, (len(index), row_bytes), dtype=torch.uint8)
    good, expected = index < rows, packed.clone()
    if into:
        source[index[good]] = packed[good]
    else:
        expected = torch.where(good[:, None], source[index % rows], 0)
    cut, fault = cut_rows(row_bytes, 0, packed.data_ptr(), into), _IndexFault()
    copy = _copy(0, packed.data_ptr(), index, 0, row_bytes, None)
    copy.into_table, copy.cut = into, row_cut(cut)
    pointers = torch.tensor([memory.data_ptr() for memory in memories])
    where = (ctypes.c_void_p(pointers.data_ptr()), ctypes.c_void_p(bounds.data_ptr()))
    shape = map(ctypes.c_int64, (len(parts), cut.unit, cut.chunks, warps * 32))
    assert gpu.emulate_ranges(ctypes.byref(copy), *where, *shape, ctypes.byref(fault)) == bad
    assert (fault.count, fault.table_rows) == ((1, rows) if bad else (0, 0))
    assert torch.equal(packed, expected)
    assert torch.equal(torch.cat(held), source)


@settings(deadline=None, max_examples=60)
@given(
    row_bytes=st.sampled_from([1, 8, 24, 128, 516, 1028, 4096]),
    count=st.integers(1, 200),
    bad=st.lists(st.integers(0, 199), min_size=1, max_size=20),
    value=st.sampled_from([10, -11, 2**40, -(2**40)]),
    into=st.booleans(),
)
def test_bad_positions_are_reported_and_give_zero_rows(gpu, row_bytes, count, bad, value, into):
    rows = 10
    table = torch.randint(1, 256, (rows, row_bytes), dtype=torch.uint8)
    before = table.clone()
    index = torch.randint(0, rows, (count,))
    bad = sorted({position % count for position in bad})
    index[bad] = value
    packed = torch.full((count, row_bytes), 7, dtype=torch.uint8)
    flag, fault = _emulate(gpu, table.data_ptr(), packed.data_ptr(), index, rows, row_bytes, warps=3, into_table=into)
    assert flag == 1
    assert fault == [bad[0], value, rows, len(bad), 0]
    if into:
        untouched = torch.ones(rows, dtype=torch.bool)
        untouched[index[(index >= 0) & (index < rows)]] = False
        assert torch.equal(table[untouched], before[untouched])
    else:
        expected = table[index.clamp(0, rows - 1)]
        expected[bad] = 0
        assert torch.equal(packed, expected)


@settings(deadline=None, max_examples=60)
@given(
    row_bytes=st.sampled_from([1, 8, 16, 24, 128, 516, 1028, 4096]),
    count=st.integers(1, 200),
    begin=st.sampled_from([0, 1, 2]) | st.integers(0, 250),
    ordered=st.booleans(),
    bad=st.booleans(),
)
def test_padding_is_read_from_its_own_row(gpu, row_bytes, count, begin, ordered, bad):
    table, index = torch.randint(0, 256, (10, row_bytes), dtype=torch.uint8), torch.randint(0, 10, (count,))
    row, where = torch.randint(0, 256, (1, row_bytes), dtype=torch.uint8), torch.tensor([begin])
    expected = torch.where(torch.arange(count)[:, None] < begin, table[index], row)
    if bad:
        index[0], expected[0] = 10, 0
    visit, packed = torch.randperm(count) if ordered else None, torch.full((2, count, row_bytes), 7, dtype=torch.uint8)
    padding, bulk = Padding(where, row), row_bytes % 16 == 0
    given = (gpu, table.data_ptr(), packed[0].data_ptr(), index, 10, row_bytes)
    flag, _ = _emulate(*given, warps=3, visit=visit, padding=padding)
    assert flag == bad and torch.equal(packed[0], expected)
    if bulk:
        copy = _copy(table.data_ptr(), packed[1].data_ptr(), index, 10, row_bytes, visit, padding)
        assert gpu.emulate_bulk(ctypes.byref(copy), ctypes.c_int64(64), ctypes.byref(_IndexFault())) == bad
        assert torch.equal(packed[1], expected)


@given(row_bytes=st.integers(33, 1200).map(lambda n: n * 4), address=st.integers(0, 31).map(lambda n: n * 4))
def test_the_circular_shift_asks_for_each_line_once(gpu, row_bytes, address):
    """Min 2022, figure 3.5. Only a line that holds both the row's head and its tail may be asked for twice."""
    address += 1 << 20
    count = gpu.requests
    lines = (address + row_bytes - 1) // 128 - address // 128 + 1
    shifted = count(ctypes.c_uint64(address), *map(ctypes.c_int64, (row_bytes, 4, 1)))
    straight = count(ctypes.c_uint64(address), *map(ctypes.c_int64, (row_bytes, 4, 0)))
    assert lines <= shifted <= lines + 1
    assert shifted <= straight


def test_the_dissertations_example(gpu):
    """Rows of 480 bytes: the second begins 32 bytes before a line, and takes 5 requests instead of 8."""
    assert gpu.requests(ctypes.c_uint64(480), *map(ctypes.c_int64, (480, 4, 0))) == 8
    assert gpu.requests(ctypes.c_uint64(480), *map(ctypes.c_int64, (480, 4, 1))) == 5


@given(row_bytes=st.integers(129, 5000), address=st.integers(0, 127))
def test_chunks_ask_for_each_line_once(gpu, row_bytes, address):
    address += 1 << 20
    lines = (address + row_bytes - 1) // 128 - address // 128 + 1
    asked = gpu.chunk_requests(ctypes.c_uint64(address), ctypes.c_int64(row_bytes))
    # The head may share its line with the tail of the row, or fall into an access of its own.
    assert lines <= asked <= lines + 1


@settings(deadline=None, max_examples=40)
@given(row_bytes=st.integers(33, 600).map(lambda n: n * 4), warps=st.integers(1, 3))
def test_chunks_and_units_agree(gpu, row_bytes, warps):
    table = torch.randint(0, 256, (20 * row_bytes + 64,), dtype=torch.uint8)
    index = torch.randint(0, 20, (60,))
    packed = torch.zeros(2, 60, row_bytes, dtype=torch.uint8)
    units = cut_rows(row_bytes, table.data_ptr(), packed[0].data_ptr(), into_table=True)
    assert not units.chunks
    for out, cut in zip(packed, (units, None), strict=True):
        _emulate(gpu, table.data_ptr(), out.data_ptr(), index, 20, row_bytes, warps=warps, cut=cut)
    assert torch.equal(packed[0], packed[1])
    assert torch.equal(packed[0], table[: 20 * row_bytes].view(20, row_bytes)[index])


@given(row_bytes=st.integers(1, 10000), table=st.integers(0, 300), packed=st.integers(0, 300), into=st.booleans())
def test_cuts_cover_a_row(row_bytes, table, packed, into):
    cut = cut_rows(row_bytes, table, packed, into)
    assert cut.lanes in (1, 2, 4, 8, 16, 32)
    assert row_bytes % cut.unit == table % cut.unit == packed % cut.unit == 0
    pieces = -(-(table % 16 + row_bytes) // 16) if cut.chunks else row_bytes // cut.unit
    assert pieces <= cut.lanes * cut.steps
    assert cut.lanes * (cut.steps - 1) <= pieces
    assert cut.steps == 1 or cut.lanes == 32


@settings(deadline=None, max_examples=80)
@given(
    row_bytes=st.sampled_from([16, 256, 272, 512, 4096]),
    rows=st.integers(1, 40),
    count=st.integers(1, 300),
    threads=st.integers(1, 400),
    wide=st.booleans(),
    ordered=st.booleans(),
    bad=st.dictionaries(st.integers(0, 299), st.sampled_from([40, -41, 2**31 - 1, -(2**31)]), max_size=5),
)
def test_rows_in_bulk(gpu, row_bytes, rows, count, threads, wide, ordered, bad):
    table = torch.randint(0, 256, (rows, row_bytes), dtype=torch.uint8)
    index = torch.randint(-rows, rows, (count,), dtype=torch.int64 if wide else torch.int32)
    expected = table[index.long()]
    bad = {at: value for at, value in bad.items() if at < count}
    for at, value in bad.items():
        index[at], expected[at] = value, 0
    packed = torch.full((count, row_bytes), 7, dtype=torch.uint8)
    visit = torch.randperm(count) if ordered else None
    fault = _IndexFault()
    copy = _copy(table.data_ptr(), packed.data_ptr(), index, rows, row_bytes, visit)
    assert gpu.emulate_bulk(ctypes.byref(copy), ctypes.c_int64(threads), ctypes.byref(fault)) == int(bool(bad))
    assert torch.equal(packed, expected)
    if bad:
        assert (fault.first, fault.value, fault.table_rows, fault.count) == (min(bad), bad[min(bad)], rows, len(bad))
