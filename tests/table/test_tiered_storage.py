"""Rows of a file over several tiers: the same rows as the file has, wherever they lie."""

from __future__ import annotations

import gc
import pickle
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland import memory
from hinterland.memory import plan
from hinterland.runtime.errors import ConfigError, IndexOutOfRange, OutOfMemory, StorageError
from hinterland.table import tiered, tiered_storage
from hinterland.table.tiers import plan_tiers

from .test_tiered import ONE, TWO, homes_of, same_for_every_reader

BUDGETS = st.sampled_from([0, 1, 3000, 20_000, 1 << 22])


def fresh(path: Path, rows: int, row_bytes: int, mode: str = "r+", **options: object) -> tuple[torch.Tensor, hl.StorageArray]:
    """Random rows, and the file of them."""
    source = torch.randint(0, 256, (rows, row_bytes), dtype=torch.uint8)
    np.save(path / "x.npy", source.numpy())
    return source, hl.StorageArray.open(path / "x.npy", mode, **{"host_budget": "1MiB", **options})


@settings(deadline=None, max_examples=60)
@given(
    row_bytes=st.integers(1, 300) | st.sampled_from([512, 516, 4100]),
    rows=st.integers(1, 200),
    local=BUDGETS,
    shared=BUDGETS,
    held=BUDGETS,
    homes=st.integers(0, 3),
    by=st.sampled_from(["first", "scores", "order"]),
    wide=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_any_tiers_give_the_same_rows(tmp_path_factory, row_bytes, rows, local, shared, held, homes, by, wide, seed):
    torch.manual_seed(seed)
    source, file = fresh(tmp_path_factory.mktemp("any"), rows, row_bytes)
    scores = torch.randint(0, 5, (rows,)).float() if by == "scores" else None
    order = torch.randperm(rows) if by == "order" else None
    table = file.tiered(local, shared, held, scores, order, ["cpu"] * homes)
    assert (table.shape, table.dtype, table.placement) == (file.shape, file.dtype, "storage")
    index = torch.randint(-rows, rows, (5, 30)).to(torch.int64 if wide else torch.int32)
    changes = torch.randperm(rows)[: rows // 2 + 1]
    new = torch.randint(0, 256, (len(changes), row_bytes), dtype=torch.uint8)
    same_for_every_reader(table, source, index, changes, new)
    counted = table.count(index.reshape(-1))
    assert sum(counted.rows.values()) == 150 and list(counted.rows) == ["local", "peers", "host", "storage"]
    assert table.plan.host_rows * row_bytes <= held and sum(table.plan.tiers.values()) == rows
    for taken in table.held.values():
        assert taken <= local + shared // homes
    table.flush()
    assert np.array_equal(np.load(file.path), source.numpy())
    table.scatter_(changes, new)
    source[changes] = new
    table.close()
    assert torch.equal(file[:], source)
    file.flush()
    assert np.array_equal(np.load(file.path), source.numpy())


@given(
    rows=st.integers(0, 5000),
    row_bytes=st.integers(0, 3000),
    gpus=st.integers(0, 4),
    local=st.integers(0, 1 << 21),
    host=st.integers(0, 1 << 22),
    ordered=st.booleans(),
)
def test_budgets_are_kept_and_used(rows, row_bytes, gpus, local, host, ordered):
    made = plan_tiers(rows, row_bytes, gpus, local, 0, host, ordered=ordered)
    above = plan_tiers(rows, row_bytes, gpus, local, 0, ordered=ordered)
    assert (made.local_rows, made.held_bytes) == (above.local_rows, above.held_bytes)
    assert made.host_rows * row_bytes <= host and made.held <= rows
    if row_bytes and made.held < rows:
        assert host - made.host_rows * row_bytes < row_bytes
    assert (made.number_bytes > 0) <= ordered
    assert re.search(rf"storage +{rows - made.held:,} rows", made.explain())


def test_the_hottest_rows_are_nearest(tmp_path):
    _, file = fresh(tmp_path, 100, 64)
    scores = torch.zeros(100)
    scores[[70, 8, 33]] = torch.tensor([1.0, 3.0, 2.0])
    table = file.tiered(local=1024, host=130, scores=scores, devices=ONE)  # 512 bytes of map, and 8 rows; two more
    assert table.count(torch.tensor([8, 33, 70, 0, 1, 2, 3, 4])).rows == {"local": 8, "peers": 0, "host": 0, "storage": 0}
    assert table.count([5, 6, 7, 99]).rows == {"local": 0, "peers": 0, "host": 2, "storage": 2}
    assert table.count([7, 7, 9]).tiers["storage"] == {"bytes": 4096, "requests": 1, "hits": 3}  # of one page
    assert table.held == {"cpu:0": 1024}
    assert "local=8, peers=0, host=2, storage=90" in repr(table)


def test_what_lies_in_memory_is_not_read_again(tmp_path):
    source, file = fresh(tmp_path, 4000, 512)
    table = file.tiered(host=512 * 1000, order=torch.arange(4000).flip(0))
    hot, before = torch.randint(3000, 4000, (500,)), file.stats()
    assert torch.equal(table[hot], source[hot]) and file.stats() == before
    cold = torch.randint(0, 3000, (500,))
    assert torch.equal(table[torch.cat([hot, cold])], source[torch.cat([hot, cold])])
    after = table.stats()
    assert after.hits + after.misses - before.hits - before.misses <= len(cold)
    asked = []
    file.prefetch = lambda rows: asked.append(rows)
    table.prefetch(torch.cat([hot, cold]))
    assert torch.equal(asked[0], cold)


def test_a_file_is_read_once_to_fill(tmp_path, monkeypatch):
    """In its order, whatever the order of heat: neighbouring rows of a page come together, also where rows come in parts."""
    monkeypatch.setattr(tiered_storage, "BOUNCE_BYTES", 64 << 10)
    _, file = fresh(tmp_path, 8000, 128, host_budget="64KiB")
    file.tiered(local=300_000, host=200_000, order=torch.randperm(8000), devices=TWO)
    pages = -(-8000 * 128 // 4096) + 1
    assert file.stats().reads <= pages + 8


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.complex64, torch.uint16, torch.float8_e5m2])
@pytest.mark.parametrize("shape", [(50,), (50, 3), (50, 2, 5), (50, 0), (0, 4)])
def test_types_and_shapes(tmp_path, device, dtype, shape):
    def same(one, other):
        return torch.equal(one.cpu().contiguous().view(-1).view(torch.uint8), other.contiguous().view(-1).view(torch.uint8))

    source = torch.randint(0, 2, shape).to(dtype)
    with hl.StorageArray.create(tmp_path / "x.bin", shape, dtype) as file:
        file[:] = source
        with file.tiered(2000, host=100, scores=torch.rand(shape[0]), devices=homes_of(device)) as table:
            assert (table.shape, table.dtype, len(table), table.nbytes) == (source.shape, dtype, shape[0], source.nbytes)
            for index in (torch.zeros(0, dtype=torch.int64), torch.zeros((0, 3), dtype=torch.int32)):
                assert same(table[index.to(device)], source[index.long()])
            if shape[0]:
                index = torch.randint(-50, 50, (4, 5), device=device)
                assert same(table[index], source[index.cpu()]) and table[index].device == index.device
                table.scatter_(torch.arange(25, device=device), source[25:].to(device))
                source[:25] = source[25:].clone()
                assert same(table[index], source[index.cpu()])


def test_every_way_to_ask(tmp_path):
    source, file = fresh(tmp_path, 60, 36)
    table = file.tiered("1KiB", host=360, order=torch.randperm(60), devices=ONE)
    assert 0 < table.plan.resident < table.plan.held < 60
    assert torch.equal(table[-1], source[-1]) and torch.equal(table[[5, -60, 5]], source[[5, -60, 5]])
    for part in (slice(None), slice(3, 50, 7), slice(-5, None), slice(9, 3)):
        assert torch.equal(table[part], source[part])
    out = torch.empty(2, 36, dtype=torch.uint8)
    assert table.gather([1, 2], out=out) is out and torch.equal(out, source[1:3])
    assert torch.equal(table.gather(torch.tensor([7]), check="async", max_blocks=1), source[7:8])
    for wrong in (1.5, "a", True, None):
        with pytest.raises(ConfigError):
            table[wrong]


def test_what_cannot_be_used_is_refused(tmp_path):
    _, file = fresh(tmp_path, 30, 8)
    for wrong, words in [
        ({"scores": torch.rand(9)}, "one for each"),
        ({"scores": torch.rand(30), "order": torch.arange(30)}, "leave one out"),
        ({"host": "some"}, "not a size"),
        ({"local": -1}, "negative"),
    ]:
        with pytest.raises(ConfigError, match=words):
            file.tiered(**{"host": 600} | wrong, devices=ONE)
    table = file.tiered(640, host=64, order=torch.randperm(30), devices=ONE)
    for call in (table.gather, table.count, table.prefetch):
        with pytest.raises(IndexOutOfRange, match="index 30 at position 1 is outside a table of 30 rows"):
            call(torch.tensor([3, 30, -31]))
    with pytest.raises(ConfigError, match="shape"):
        table.scatter_([1], torch.zeros(1, 5, dtype=torch.uint8))
    with pytest.raises(ConfigError, match="kernels do not read"):
        table.reach(torch.arange(3))
    with pytest.raises(ConfigError, match=r"send table.file, which is opened again, and call tiered\(\)"):
        pickle.dumps(table)
    table.close()
    table.close()
    for call in (lambda: table[0], lambda: table.scatter_([1], table.file[[1]]), table.flush, lambda: table.count([0])):
        with pytest.raises(ConfigError, match="closed"):
            call()
    assert len(file[:]) == 30  # the file stays open
    file.close()
    read_only = hl.StorageArray.open(file.path)
    with pytest.raises(ConfigError, match="mode='r\\+'"):
        read_only.tiered(host=640).scatter_([1], read_only[[1]])


def test_a_file_that_fails(tmp_path):
    """What was written is held, and written when it can be; a closed file says so."""
    source, file = fresh(tmp_path, 4000, 512)
    table = file.tiered(host=512 * 100)
    table.scatter_([3], torch.full((1, 512), 7, dtype=torch.uint8))
    scatter, file.scatter_ = file.scatter_, lambda *_: (_ for _ in ()).throw(StorageError("no room"))
    with pytest.raises(StorageError, match="no room"):
        table.flush()
    file.scatter_ = scatter
    table.flush()
    source[3] = 7
    assert np.array_equal(np.load(file.path), source.numpy())
    with open(file.path, "r+b") as shorter:
        shorter.truncate(100_000)
    with pytest.raises(StorageError, match="shorter"):
        table[-1]
    assert torch.equal(table[:100], source[:100])
    file.close()
    with pytest.raises(StorageError, match="was closed"):
        table[200]


def test_only_what_was_written_is_written_back(tmp_path):
    _, file = fresh(tmp_path, 1000, 64)
    table = file.tiered(local=8000, host=64 * 200, order=torch.randperm(1000), devices=ONE)
    hot = table._tiers.row_of.long()
    table.scatter_(hot[:100], torch.zeros(100, 64, dtype=torch.uint8))
    table.flush()
    written, scatter = [], file.scatter_
    file.scatter_ = lambda rows, values: (written.extend(rows.tolist()), scatter(rows, values))
    table.scatter_(hot[[3, 150]], torch.ones(2, 64, dtype=torch.uint8))
    table.close()
    assert sorted(written) == sorted(hot[[3, 150]].tolist()) and bool((file[hot[[3, 150]]] == 1).all())


def test_tiers_that_are_closed_while_they_are_looked_up(tmp_path, monkeypatch):
    _, file = fresh(tmp_path, 100, 64)
    table = file.tiered(host=640)
    monkeypatch.setattr(tiered_storage._StoredTiers, "home", lambda self, device: self.close())
    with pytest.raises(ConfigError, match="closed"):
        table[torch.arange(5)]


def test_nothing_written_is_lost_with_the_last_reference(tmp_path, nothing_left):
    _, file = fresh(tmp_path, 20, 16)
    file.tiered("1MiB", host=100, devices=TWO).scatter_([3], torch.full((1, 16), 7, dtype=torch.uint8))
    gc.collect()
    assert file[3].tolist() == [7] * 16


def test_no_memory_is_left_of_tiers_that_do_not_fit(tmp_path, monkeypatch, nothing_left):
    _, file = fresh(tmp_path, 1000, 1024)
    before = memory.report().nbytes
    monkeypatch.setenv("HINTERLAND_HOST_MEMORY", str(before + 5000))
    with pytest.raises(OutOfMemory):
        file.tiered(host="500KiB")
    gc.collect()
    assert memory.report().nbytes == before


def test_gpus_that_cannot_reach_each_other(tmp_path, monkeypatch):
    """Each fills its own memory; GPUs are host memory here."""
    monkeypatch.setattr(tiered, "unlinked", lambda gpus: (torch.device("cuda", 0), torch.device("cuda", 1)))
    source, file = fresh(tmp_path, 100, 64)
    table = file.tiered(local=2048, peers=4096, host=640, scores=torch.rand(100), devices=TWO)
    assert table.plan.local_rows > 0 and table.plan.peer_rows == 0
    assert "cuda:0 cannot read the memory of cuda:1" in table.explain()
    for table._tiers.reader in range(2):
        assert torch.equal(table[torch.arange(100)], source)
    with pytest.raises(ConfigError, match="use one GPU"):
        table.scatter_([1], source[:1])


def test_explain_says_what_to_expect(tmp_path, monkeypatch):
    _, file = fresh(tmp_path, 1000, 8192, host_budget="4MiB")
    table = file.tiered(host=8192 * 10, scores=torch.rand(1000))
    monkeypatch.setattr(plan, "load", lambda: SimpleNamespace(disk=SimpleNamespace(random4k={1: 5e3, 64: 100e3})))
    text = table.explain()
    assert "host     10 rows (1.0%)" in text and "storage  990 rows (99.0%)" in text
    assert "host memory: 80.00 KiB of 80.00 KiB for rows, and 3.96 KiB for what finds them" in text
    assert "random rows on storage are expected at 50 K/s, 0.41 GB/s, by the probe" in text  # two pages each
    monkeypatch.setattr(plan, "load", lambda: None)
    assert "no probe" in table.explain()


def test_writes_go_through_to_readers_on_the_cpu(tmp_path, monkeypatch):
    """The CPU does not read GPU memory: what is newer there is written back for it first."""
    source, file = fresh(tmp_path, 100, 64)
    table = file.tiered(2048, host=640, order=torch.randperm(100), devices=ONE)
    rows = torch.full((100, 64), 9, dtype=torch.uint8)
    table.scatter_(torch.arange(0, 100, 3), rows[::3])
    source[::3] = 9
    monkeypatch.setattr(tiered_storage._StoredTiers, "home", lambda self, device: None)  # as if its home were a GPU
    assert torch.equal(table[torch.arange(100)], source) and not table._tiers.state.written


# What only a GPU can show.


@pytest.mark.gpu
@pytest.mark.parametrize("row_bytes", [9, 64, 480, 512, 1028])
def test_rows_in_gpu_memory(tmp_path, gpu, row_bytes):
    rows = 20_000
    source, file = fresh(tmp_path, rows, row_bytes)
    budget = rows * row_bytes // 3 + 4 * rows
    hl.UnifiedTensor.from_tensor(source[:1]).gather(torch.zeros(1, dtype=torch.int64, device=gpu))  # keeps a record of faults
    before = torch.cuda.memory_allocated(gpu)
    torch.cuda.reset_peak_memory_stats(gpu)
    table = file.tiered(budget, host=rows * row_bytes // 4, scores=torch.rand(rows), devices=[gpu])
    plan = table.plan
    assert 0 < plan.local_rows < plan.held < rows
    assert torch.cuda.memory_allocated(gpu) - before <= table.held[str(gpu)] <= budget
    assert torch.cuda.max_memory_allocated(gpu) - before <= budget + (4 << 20)  # rows go through host memory
    index = torch.randint(-rows, rows, (50_000,), device=gpu)
    assert torch.equal(table[index].cpu(), source[index.cpu()])
    assert torch.equal(table[index.cpu()], source[index.cpu()])
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    found = table.gather(index, stream=side)
    side.synchronize()
    assert torch.equal(found.cpu(), source[index.cpu()])
    changes = torch.randperm(rows)[:5000]
    new = torch.randint(0, 256, (5000, row_bytes), dtype=torch.uint8)
    table.scatter_(changes.to(gpu), new.to(gpu))
    source[changes] = new
    assert torch.equal(table[index].cpu(), source[index.cpu()])
    assert torch.equal(table[index.cpu()], source[index.cpu()])  # the CPU reads no row that is out of date
    table.scatter_(changes[:100], new.flip(0)[:100])
    source[changes[:100]] = new.flip(0)[:100]
    assert torch.equal(table[index].cpu(), source[index.cpu()])
    counted = table.count(index).rows
    assert sum(counted.values()) == 50_000 and counted["local"] and counted["host"] and counted["storage"]
    table.close()
    file.flush()
    assert np.array_equal(np.load(file.path), source.numpy())


@pytest.mark.gpu
def test_host_tiers_alone_and_what_a_gpu_lacks(tmp_path, gpu):
    source, file = fresh(tmp_path, 5000, 64)
    index = torch.randint(0, 5000, (3000,), device=gpu)
    table = file.tiered(host=64 * 2000, scores=torch.rand(5000))
    assert table.devices == [] and torch.equal(table[index].cpu(), source[index.cpu()])
    table.scatter_(index[:50], torch.ones(50, 64, dtype=torch.uint8, device=gpu))
    source[index[:50].cpu()] = 1
    assert torch.equal(table[index].cpu(), source[index.cpu()])


@pytest.mark.parametrize("shape", [(0,), (0, 3), (5, 0)], ids=str)
def test_no_bytes_are_written_from_memory_of_numpy(tmp_path, shape):
    """Whose strides may all be 0."""
    none = np.zeros(shape, np.float32)
    np.save(tmp_path / "x.npy", none)
    with hl.StorageArray.open(tmp_path / "x.npy", "r+") as array, array.tiered(local=4096, devices="cpu") as table:
        table.scatter_(torch.arange(len(none)), torch.from_numpy(none).as_strided(shape, (0,) * len(shape)))
        table.flush()
        assert table[:].shape == shape
