"""UnifiedTensor.over: tables over memory that exists. Every answer is the tensor's own, and nothing is copied."""

import array
import copy
import gc
import mmap
import multiprocessing
import os
import pickle
import warnings
import weakref

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland import UnifiedEmbeddingBag, UnifiedTensor, memory
from hinterland.memory import existing
from hinterland.runtime.errors import ConfigError, DeviceError

from .. import forked

TYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.float16, torch.bfloat16,
    torch.float32, torch.float64, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2,
]  # fmt: skip
MODES = ["r", "r+", "c"]
on_gpu = pytest.mark.gpu


def same(rows, expected):
    """Whether these are the same bytes, wherever they lie."""
    return torch.equal(rows.cpu().contiguous().view(torch.uint8), expected.contiguous().view(torch.uint8))


def mapped_file(path, mode, rows=1000, dim=24):
    """A memmap of a file of random rows, and the rows."""
    held = np.random.default_rng(3).standard_normal((rows, dim)).astype("f4")
    held.tofile(path)
    return np.memmap(path, "f4", mode, shape=(rows, dim)), torch.from_numpy(held)


@given(
    shape=st.lists(st.integers(0, 7), min_size=1, max_size=4),
    dtype=st.sampled_from(TYPES),
    begin=st.integers(0, 3),
    seed=st.integers(0, 99),
)
def test_any_contiguous_tensor(shape, dtype, begin, seed):
    generator = torch.Generator().manual_seed(seed)
    shape[0] += begin
    whole = torch.randint(0, 2, shape, generator=generator).to(dtype)
    part = whole[begin:]
    table = UnifiedTensor.over(part)
    assert (table.shape, table.dtype, table.nbytes) == (part.shape, dtype, part.nbytes)
    assert part.numel() == 0 or table.cpu().data_ptr() == part.data_ptr()
    index = torch.randint(0, max(len(part), 1), (11 if len(part) else 0,), generator=generator)
    assert same(table[index], part[index])
    rows = torch.randint(0, 2, (len(index), *shape[1:]), generator=generator).to(dtype)
    if len(part):
        index, rows = index[:1], rows[:1]
        table.scatter_(index, rows)
        assert same(part[index], rows)


def test_what_is_written_to_one_is_in_the_other():
    tensor = torch.zeros(6, 3)
    table = UnifiedTensor.over(tensor)
    tensor[2] = 1
    table[torch.tensor([4])] = 2
    table[5] = 3
    table[table == 1] = 7
    assert table[2].tolist() == [7, 7, 7] and tensor[:, 0].tolist() == [0, 0, 7, 0, 2, 3]
    learning = torch.ones(3, requires_grad=True)
    assert not UnifiedTensor.over(learning).requires_grad


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.arange(12, dtype="f4").reshape(3, 4),
        lambda: bytearray(range(12)),
        lambda: array.array("d", [1, 2, 3]),
        lambda: memoryview(np.arange(6, dtype="i8").reshape(2, 3)),
        lambda: mmap.mmap(-1, 4096),
    ],
)
def test_arrays_and_buffers(make):
    given = make()
    table, seen = UnifiedTensor.over(given), np.asarray(given)
    if isinstance(given, mmap.mmap):
        seen = np.frombuffer(given, "u1")
    assert torch.equal(table.cpu(), torch.from_numpy(seen)) and np.shares_memory(np.asarray(table), seen)
    seen.reshape(-1)[1] = 9
    assert table.cpu().view(-1)[1] == 9


def test_what_has_an_array_interface():
    class Held:
        def __init__(self, held):
            self.held, self.__array_interface__ = held, held.__array_interface__

    held = np.arange(5)
    assert UnifiedTensor.over(Held(held)).cpu().data_ptr() == held.ctypes.data


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: torch.zeros(3, 4).t(), "strides .* not contiguous.*from_tensor"),
        (lambda: torch.zeros(3, 4)[:, 1:], "not contiguous.*from_tensor"),
        (lambda: torch.zeros(3, dtype=torch.complex64).conj(), "lazy view.*from_tensor"),
        (lambda: torch.zeros(3, 4).to_sparse(), "layout"),
        (lambda: torch.zeros(3, device="meta"), "meta device"),
        (lambda: torch.tensor(3.0), "at least one dimension"),
        (lambda: np.asfortranarray(np.zeros((3, 4))), "not contiguous row by row.*from_tensor"),
        (lambda: np.zeros(6)[::2], "not contiguous.*from_tensor"),
        (lambda: np.zeros(3, ">f4"), r"from_tensor.*astype\('f4'\)"),
        (lambda: np.zeros(3, "M8[s]"), r"view\('u1'\)"),
        (lambda: np.zeros(3, [("a", "f4")]), "no type"),
        (lambda: np.frombuffer(bytes(9), "f4", 2, 1), "no multiple of 4.*from_tensor"),
        (lambda: [1.0, 2.0], "gives no memory.*from_tensor"),
        (lambda: 3, "gives no memory.*from_tensor"),
        (lambda: UnifiedTensor.empty(3), "gives no memory.*from_tensor"),
    ],
)
def test_what_would_need_a_copy_is_refused(make, reason):
    with pytest.raises(ConfigError, match=reason):
        UnifiedTensor.over(make())


def read_only(kind, folder):
    values = np.arange(12, dtype="f4").reshape(3, 4)
    if kind == "array":
        values.flags.writeable = False
        return values
    if kind == "bytes":
        return values.tobytes()
    values.tofile(folder / "rows.bin")
    return np.memmap(folder / "rows.bin", "f4", "r", shape=(3, 4))


@pytest.mark.parametrize("kind", ["array", "bytes", "memmap"])
def test_what_is_only_read_is_not_written(kind, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = UnifiedTensor.over(read_only(kind, tmp_path))
        before = table.cpu().clone()
        assert same(table[torch.tensor([2, 0])], before[[2, 0]])
    row = before[:1]
    with pytest.raises(ConfigError, match="only read"):
        table.scatter_([0], row)
    for index in (0, slice(1, 2), torch.tensor([1]), ..., before > 3):
        with pytest.raises(ConfigError, match="only read"):
            table[index] = 1
    assert not np.asarray(table).flags.writeable
    if kind == "memmap":
        tiers = table.tiered(16, devices=["cpu"])
        assert same(tiers[[2, 0]], before[[2, 0]])
        with pytest.raises(ConfigError, match="only read"):
            tiers.scatter_([0], row)
        tiers.close()
        bag = UnifiedEmbeddingBag.from_pretrained(table, mode="sum")
        assert torch.equal(bag(torch.tensor([[0, 2]])), before[[0, 2]].sum(0, keepdim=True))
        for use in (lambda: UnifiedEmbeddingBag.from_pretrained(table, freeze=False), bag.reset_parameters):
            with pytest.raises(ConfigError, match="only read"):
                use()
    assert same(table.cpu(), before)
    with pytest.raises(ConfigError, match="only read"):
        hl.kernels.map_chunks(lambda rows: rows + 1, before, out=table)
    add = hl.kernel("__global__ void add(array<float> a) { if (blockIdx.x + threadIdx.x == 0) a[0] = 1; }")
    with pytest.raises(ConfigError, match="only read"):
        add(table)
    other = copy.deepcopy(table)
    other[0] = 1
    assert same(pickle.loads(pickle.dumps(table)).cpu(), before)


def test_tables_above_it_and_embeddings():
    tensor = torch.randn(40, 8)
    table = UnifiedTensor.over(tensor)
    index = torch.randint(0, 40, (33,))
    tiers = table.tiered(8 * 32, scores=torch.rand(40), devices=["cpu"])
    assert same(tiers[index], tensor[index])
    tiers.scatter_([3], torch.ones(1, 8))
    tiers.close()
    assert tensor[3].tolist() == [1] * 8
    cached = table.cached(4096, "cpu")
    assert same(cached[index], tensor[index])
    bag = UnifiedEmbeddingBag.from_pretrained(table, freeze=False, mode="sum")
    assert torch.allclose(bag(index.view(3, 11)), tensor[index.view(3, 11)].sum(1))
    bag.reset_parameters()
    assert same(bag.weight.cpu(), tensor)


def test_the_owner_lives_as_long_as_a_view():
    gone, before = [], memory.report().nbytes
    held = np.arange(12.0)
    weakref.finalize(held, gone.append, 1)
    table = UnifiedTensor.over(held.reshape(3, 4))
    part = table.view((4, 3))[1]
    del held, table
    gc.collect()
    assert not gone and part.tolist() == [3, 4, 5] and memory.report().nbytes == before + 96
    del part
    gc.collect()
    assert gone == [1] and memory.report().nbytes == before


def test_a_buffer_that_is_in_use_cannot_be_closed_or_resized():
    held, mapped = bytearray(16), mmap.mmap(-1, 4096)
    tables = [UnifiedTensor.over(held), UnifiedTensor.over(mapped)]
    for spoil in (lambda: held.extend(b"more"), mapped.close):
        with pytest.raises(BufferError):
            spoil()
    del tables
    gc.collect()
    held.extend(b"more")
    mapped.close()


def test_the_report_lists_it_and_no_limit_counts_it(monkeypatch):
    tensor = torch.zeros(1 << 20, 25)  # 100 MiB
    monkeypatch.setenv("HINTERLAND_HOST_MEMORY", "64MiB")
    table = UnifiedTensor.over(tensor)
    assert memory.report().totals["over"] == tensor.nbytes
    assert any(held.name.startswith("float32 [1048576, 25]") for held in memory.report().buffers)
    assert UnifiedTensor.empty(1 << 20, torch.uint8).nbytes == 1 << 20
    del table


@pytest.mark.parametrize("start", ["spawn", "fork"])
def test_shared_memory_goes_to_another_process(start):
    tensor = torch.zeros(5, 3).share_memory_()
    table = UnifiedTensor.over(tensor[1:])
    context = multiprocessing.get_context(start)
    done = context.Queue()
    child = context.Process(target=_add_and_pass_on, args=(table, done))
    child.start()
    assert done.get(timeout=60) == [[1.0] * 3, [4.0] * 3]
    child.join(60)
    assert child.exitcode == 0
    assert tensor[:, 0].tolist() == [0, 1, 0, 0, 9]


def _add_and_pass_on(table, done):
    table[0] = 1
    table[3] = 4
    done.put([table[0].tolist(), table[3].tolist()])
    table.scatter_([3], torch.full((1, 3), 9.0))


@pytest.mark.parametrize("make", [lambda: torch.zeros(3), lambda: np.zeros(3)])
def test_memory_of_one_process_goes_to_no_other(make):
    table = UnifiedTensor.over(make())
    with pytest.raises(ConfigError, match="belongs to one process"):
        multiprocessing.reduction.ForkingPickler.dumps(table)
    with pytest.raises(ConfigError, match="multiprocessing alone"):
        memory.pickle_shared(UnifiedTensor.over(torch.zeros(3).share_memory_()))


def test_a_forked_process_has_its_own(tmp_path):
    code = """
import os, torch, hinterland as hl
t = torch.arange(6.)
u = hl.UnifiedTensor.over(t)
child = os.fork()
if child == 0:
    u[0] = 5
    v = hl.UnifiedTensor.over(torch.ones(3))
    ok = u[0] == 5 and v[torch.tensor([1])].item() == 1
    del u, v
    os._exit(0 if ok else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert u[0] == 0 and t[0] == 0
"""
    forked.run("-c", code, check=True)


def test_where_a_mapping_is_told(tmp_path):
    """What decides whether pages are registered."""
    for mode, writable, private in (("r", False, False), ("r+", True, False), ("c", True, True)):
        held, _ = mapped_file(tmp_path / "rows.bin", mode)
        (found,) = existing._mapped(held.ctypes.data, held.ctypes.data + held.nbytes)
        assert (found.writable, found.private) == (writable, private) and found.file.endswith("rows.bin")
    held = np.zeros(1 << 22)
    assert {(found.writable, found.file) for found in existing._mapped(held.ctypes.data, held.ctypes.data + held.nbytes)} == {
        (True, "")
    }


class Cuda:
    """The driver's register of host memory: which bytes are in it, each in one range."""

    def __init__(self, monkeypatch):
        self.held, self.read_only, self.refuses = {}, set(), False
        for name in ("register", "unregister", "is_pinned"):
            monkeypatch.setattr(existing.cuda, name, getattr(self, name))
        monkeypatch.setattr(existing.devices, "cuda_available", lambda: True)
        monkeypatch.setattr(memory.allocator, "captures", lambda: False)

    def register(self, address, nbytes, writable=True):
        if self.refuses or any(address < begin + size and begin < address + nbytes for begin, size in self.held.items()):
            raise DeviceError("CUDA could not register this")
        self.held[address] = nbytes
        self.read_only |= set() if writable else {address}

    def unregister(self, address):
        del self.held[address]

    def is_pinned(self, address, nbytes):
        return False


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.integers(0, 30), st.integers(1, 30), st.booleans()), min_size=1, max_size=14))
def test_bytes_are_registered_once_and_let_go_with_the_last_buffer(steps, monkeypatch):
    with monkeypatch.context() as patch:
        cuda, whole, buffers = Cuda(patch), torch.zeros(64, dtype=torch.uint8), []
        for begin, size, ends in steps:
            buffers.append(existing.borrow(existing.existing(whole[begin : begin + size])))
            assert buffers[-1].mapping == "pinned"
            if ends:
                del buffers[(begin * size) % len(buffers)]
            known = {address + i for address, nbytes in cuda.held.items() for i in range(nbytes)}
            needed = {buffer.address + i for buffer in buffers for i in range(buffer.nbytes)}
            assert known >= needed
            assert existing.edges() == {at for first, nbytes in cuda.held.items() for at in (first, first + nbytes)}
        buffers.clear()
        assert not cuda.held and not existing._ranges


def test_a_table_that_goes_while_another_is_made(monkeypatch):
    """As the garbage collector may let go of one at any time."""
    cuda, whole = Cuda(monkeypatch), torch.zeros(64, dtype=torch.uint8)
    going = [existing.borrow(existing.existing(whole[20:30]))]
    register = existing.cuda.register

    def meanwhile(*what):
        going.clear()
        gc.collect()
        register(*what)

    monkeypatch.setattr(existing.cuda, "register", meanwhile)
    made = existing.borrow(existing.existing(whole))
    assert made.mapping == "pinned" and sum(cuda.held.values()) == 64
    del made
    gc.collect()
    assert not cuda.held


def test_what_is_refused_half_way_is_undone(monkeypatch):
    cuda, whole = Cuda(monkeypatch), torch.zeros(64, dtype=torch.uint8)
    middle = existing.borrow(existing.existing(whole[20:30]))
    register, calls = existing.cuda.register, []

    def second_is_refused(*what):
        calls.append(what)
        cuda.refuses = len(calls) == 2
        register(*what)

    monkeypatch.setattr(existing.cuda, "register", second_is_refused)
    refused = existing.borrow(existing.existing(whole))
    assert (refused.mapping, refused.unseen) == ("pageable", "CUDA could not register this")
    assert cuda.held == {whole.data_ptr() + 20: 10}
    del middle
    gc.collect()
    assert not cuda.held


def test_pages_of_a_file_are_registered_if_that_copies_none_and_there_is_room(tmp_path, monkeypatch):
    cuda = Cuda(monkeypatch)
    for mode, writable in (("r", False), ("r+", True)):
        held, _ = mapped_file(tmp_path / "rows.bin", mode)
        buffer = existing.borrow(existing.existing(held))
        assert buffer.mapping == "pinned" and (held.ctypes.data not in cuda.read_only) == writable
        del buffer
        gc.collect()
    cuda.refuses = True
    for mode in ("r", "r+"):
        held, _ = mapped_file(tmp_path / "rows.bin", mode)
        unseen = existing.borrow(existing.existing(held)).unseen
        assert "CUDA could not register this" in unseen and ("mode='r'" in unseen) == (mode == "r+")
    cuda.refuses = False
    private, _ = mapped_file(tmp_path / "rows.bin", "c")
    assert "private mapping" in existing.borrow(existing.existing(private)).unseen
    large = np.memmap(tmp_path / "large.bin", "u1", "w+", shape=(64 << 20,))
    monkeypatch.setenv("HINTERLAND_HOST_MEMORY", "32MiB")
    assert "can be had by HINTERLAND_HOST_MEMORY" in existing.borrow(existing.existing(large)).unseen
    assert existing.borrow(existing.existing(torch.zeros(64 << 20, dtype=torch.uint8))).mapping == "pinned"


def test_an_empty_table_is_seen_by_gpus(monkeypatch):
    cuda = Cuda(monkeypatch)
    for empty in (torch.zeros(0, 4), torch.zeros(3, 0)):
        assert existing.borrow(existing.existing(empty)).mapping == "pinned" and not cuda.held


@pytest.mark.parametrize(("mapping", "managed"), [("managed", 4096), ("split", 1024), ("pinned", 0)])
def test_memory_of_a_table_of_ours_keeps_its_mapping(mapping, managed, monkeypatch):
    below = UnifiedTensor.empty(4096, torch.uint8, "pageable")
    monkeypatch.setattr(below._buffer, "mapping", mapping)
    monkeypatch.setattr(below._buffer, "managed", managed)
    cuda, held = Cuda(monkeypatch), memory.allocator.managed_bytes()
    for begin in (0, 512, 2048):
        buffer = existing.borrow(existing.existing(below.cpu()[begin:]))
        expected = max(managed - begin, 0)
        whole = expected == 4096 - begin
        assert buffer.managed == expected
        assert buffer.mapping == ("managed" if whole else "split" if expected else "pinned")
    assert not cuda.held and memory.allocator.managed_bytes() == held


# On a GPU.


def gpu_rows(table, index):
    rows = table.gather(index.cuda())
    assert rows.is_cuda
    return rows


def is_registered(address):
    from cuda.bindings import driver

    kind = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
    error, value = driver.cuPointerGetAttribute(kind, address)
    return error == driver.CUresult.CUDA_SUCCESS and int(value) == driver.CUmemorytype.CU_MEMORYTYPE_HOST.value


MAKERS = {
    "tensor": lambda: torch.randn(5000, 36),
    "small": lambda: torch.randn(3, 5),
    "pinned": lambda: torch.randn(5000, 36).pin_memory(),
    "shared": lambda: torch.randn(5000, 36).share_memory_(),
    "numpy": lambda: np.random.default_rng(1).standard_normal((5000, 36)),
    "part": lambda: torch.randn(5001, 37)[1:],
    "bytes": lambda: bytearray(os.urandom(1 << 16)),
}


@on_gpu
@pytest.mark.parametrize("made", MAKERS)
def test_a_gpu_reads_it_where_it_lies(made, gpu):
    held = MAKERS[made]()
    tensor = held if isinstance(held, torch.Tensor) else torch.from_numpy(np.asarray(memoryview(held)))
    table = UnifiedTensor.over(held)
    assert table.placement == "pinned" and table.cuda().data_ptr() == tensor.data_ptr()
    index = torch.randint(0, len(tensor), (3000,))
    assert same(gpu_rows(table, index), tensor[index]) and same(table[index], tensor[index])
    rows = torch.randint(0, 2, (1, *tensor.shape[1:])).to(tensor.dtype)
    table.scatter_(torch.tensor([1], device=gpu), rows.to(gpu))
    assert same(tensor[1:2], rows)
    tiers = table.tiered("512KiB", scores=torch.rand(len(tensor)), devices=[gpu])
    assert same(gpu_rows(tiers, index), tensor[index])
    tiers.close()
    cached = table.cached(1 << 20, gpu)
    assert same(gpu_rows(cached, index), tensor[index])
    cached.close()
    assert "pinned" in table.explain()


@on_gpu
@pytest.mark.parametrize("dim", [3, 129, 512])
def test_rows_that_begin_anywhere(dim, gpu):
    """A table of ours begins with a page, one over memory with any element."""
    whole = torch.randint(0, 256, (2000 * dim + 64,), dtype=torch.uint8)
    index = torch.randint(0, 2000, (5000,))
    for begin in (1, 2, 4, 8, 16):
        tensor = whole[begin : begin + 2000 * dim].view(2000, dim)
        table = UnifiedTensor.over(tensor)
        assert same(gpu_rows(table, index), tensor[index])
        tiers = table.tiered(500 * dim + 16_000, scores=torch.rand(2000), devices=[gpu])
        cached = table.cached(500 * dim + 40_000, gpu)
        for above in (tiers, cached):
            assert same(gpu_rows(above, index), tensor[index])
            assert same(above.gather(index.to(gpu), max_blocks=4), tensor[index])
            above.close()


@on_gpu
def test_memory_is_let_go_with_the_last_table(gpu):
    whole = torch.randn(1 << 16, 8)
    first, last = whole.data_ptr(), whole.data_ptr() + whole.nbytes - 1
    assert not is_registered(first)
    parts = [whole[: 1 << 15], whole[1 << 14 :], whole[1 << 14 : 1 << 15]]
    tables = [UnifiedTensor.over(part) for part in parts]
    assert [table.placement for table in tables] == ["pinned"] * 3 and is_registered(first) and is_registered(last)
    index = torch.randint(0, 1 << 14, (1000,))
    for part, table in zip(parts, tables, strict=True):
        assert same(gpu_rows(table, index), part[index])
        assert same(table.to(gpu, copy=True), part)
    beside = torch.zeros_like(whole, device=gpu)
    memory.copy(beside, whole)
    assert same(beside, whole)
    while tables:
        del table
        table = tables.pop()
        assert same(gpu_rows(table, index), parts[len(tables)][index])
    assert is_registered(first)
    del table
    gc.collect()
    assert not is_registered(first) and not is_registered(last) and not existing._ranges


@on_gpu
def test_arrays_of_one_page_have_nothing_to_do_with_each_other(gpu):
    page = torch.arange(4096, dtype=torch.uint8)
    parts = [page[:100], page[300:700], page[700:900]]
    tables = [UnifiedTensor.over(part) for part in parts]
    other = page[100:300]
    assert same(other.to(gpu), other)
    index = torch.arange(100)
    while tables:
        for part, table in zip(parts, tables, strict=False):
            assert same(gpu_rows(table, index), part[index])
        del table, tables[0], parts[0]
        gc.collect()
    assert not existing._ranges


@on_gpu
def test_pinned_memory_of_torch_stays_pinned(gpu):
    held = torch.zeros(5000, 8).pin_memory()
    table = UnifiedTensor.over(held[10:])
    assert table.placement == "pinned" and not existing._ranges
    del table
    gc.collect()
    assert held.is_pinned() and is_registered(held.data_ptr())


@on_gpu
@pytest.mark.parametrize("placement", ["managed", "pinned", "pageable"])
def test_over_a_table_of_ours(placement, gpu):
    gc.collect()
    before = memory.allocator.managed_bytes()
    below = UnifiedTensor.from_tensor(torch.randn(4000, 9), placement)
    table = UnifiedTensor.over(below.cpu()[100:])
    assert table.placement == ("pinned" if placement == "pageable" else placement)
    index = torch.randint(0, 3900, (500,))
    assert same(gpu_rows(table, index), below.cpu()[100:][index])
    assert memory.allocator.managed_bytes() - before == (below.nbytes if placement == "managed" else 0)


@on_gpu
@pytest.mark.parametrize("mode", MODES)
def test_a_mapped_file(mode, tmp_path, gpu):
    """Registered, or why not is said."""
    held, expected = mapped_file(tmp_path / "rows.bin", mode)
    table = UnifiedTensor.over(held)
    index = torch.randint(0, 1000, (500,))
    assert same(table[index], expected[index])
    if table.placement == "pinned":
        assert mode != "c" and "pinned" in table.explain() and same(gpu_rows(table, index), expected[index])
    else:
        assert table.placement == "pageable"
        assert ("private mapping" if mode == "c" else "register") in table.explain()
        with pytest.raises(ConfigError, match="register"):
            table.cuda()
    if mode != "r":
        table[7] = 1
        assert held[7].tolist() == [1] * 24


@on_gpu
def test_what_cuda_refuses_is_pageable(monkeypatch, gpu):
    def refuse(*_):
        raise DeviceError("CUDA could not register 1 MiB of host memory: CUDA_ERROR_INVALID_VALUE")

    monkeypatch.setattr(existing.cuda, "register", refuse)
    table = UnifiedTensor.over(np.zeros(1 << 17))
    assert table.placement == "pageable" and "CUDA_ERROR_INVALID_VALUE" in table.explain() and not existing._ranges


@on_gpu
def test_memory_that_is_written_after_a_fork_is_what_the_gpu_reads(gpu):
    held = np.zeros((1 << 14, 16), "f4")
    table = UnifiedTensor.over(held)
    done, end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(end)
        os.read(done, 1)  # and keeps its pages meanwhile
        os._exit(0)
    held[:] = 1
    assert (table.cuda() == 1).all()
    table.cuda().fill_(2)
    torch.cuda.synchronize()
    assert (held == 2).all()
    os.close(end)
    os.waitpid(child, 0)
    os.close(done)


@on_gpu
def test_a_shared_tensor_is_registered_in_both_processes(gpu):
    tensor = torch.zeros(5000, 3).share_memory_()
    table = UnifiedTensor.over(tensor)
    context = multiprocessing.get_context("spawn")
    done = context.Queue()
    child = context.Process(target=_write_by_gpu, args=(table, done))
    child.start()
    assert done.get(timeout=60) == "pinned"
    child.join(60)
    assert (table.cuda()[100] == 5).all() and tensor[100].tolist() == [5] * 3


def _write_by_gpu(table, done):
    table.scatter_(torch.tensor([100], device="cuda"), torch.full((1, 3), 5.0, device="cuda"))
    torch.cuda.synchronize()
    done.put(table.placement)


@pytest.mark.parametrize(
    "write",
    [
        lambda table: table.__iadd__(1),
        lambda table: torch.add(1, table, out=table),
        lambda table: torch.relu_(table),
        lambda table: torch.nn.functional.relu(table, inplace=True),
        lambda table: torch.nn.functional.embedding(torch.tensor([1]), table, max_norm=1.0),
    ],
    ids=["+=", "out=", "relu_", "inplace=", "max_norm="],
)
def test_no_function_of_torch_writes_to_what_is_only_read(tmp_path, write):
    held, _ = mapped_file(tmp_path / "rows.bin", "r")
    table = UnifiedTensor.over(held)
    with pytest.raises(ConfigError, match="read"):
        write(table)
    other = torch.zeros(table.shape, dtype=table.dtype)
    other.copy_(table)
    assert torch.equal(other, table + 0) and torch.equal(other.add_(table), 2 * (table + 0))


def test_a_tensor_over_memory_that_is_only_read_is_not_written_to(tmp_path):
    held, _ = mapped_file(tmp_path / "rows.bin", "r")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, that it knows no tensors that are only read
        table = UnifiedTensor.over(torch.from_numpy(held))
    with pytest.raises(ConfigError, match="read"):
        table[0] = 1


def test_a_file_cannot_be_closed_below_a_table(tmp_path):
    held, _ = mapped_file(tmp_path / "rows.bin", "r")
    table = UnifiedTensor.over(held)
    with pytest.raises(BufferError):
        held._mmap.close()
    del table
    gc.collect()
    held._mmap.close()


def test_a_tensor_that_has_moved_is_told():
    source = torch.zeros(1000, 4)
    table = UnifiedTensor.over(source)
    source.share_memory_()
    for use in (
        lambda: table[torch.tensor([1])],
        lambda: table[1],
        lambda: table[:2],
        lambda: table + 1,
        lambda: torch.sum(table),
        lambda: np.asarray(table),
        lambda: torch.from_dlpack(table),
        lambda: copy.deepcopy(table),
        lambda: table.view(4000),
    ):
        with pytest.raises(ConfigError, match="lies elsewhere since"):
            use()[0]


def test_a_view_begins_where_its_elements_may():
    table = UnifiedTensor.over(np.zeros(65, np.uint8)[1:])
    with pytest.raises(ConfigError, match="no multiple of 4"):
        table.view(4, 4, dtype=torch.float32)
