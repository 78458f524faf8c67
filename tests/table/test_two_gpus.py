"""One table, several GPUs of one process: each reads the same host memory, whichever GPU is the current one."""

from __future__ import annotations

import multiprocessing

import pytest
import torch

import hinterland as hl
from hinterland.runtime.errors import ConfigError, IndexOutOfRange

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU"),
]


@pytest.mark.parametrize("placement", ["managed", "pinned"])
@pytest.mark.parametrize("columns", [3, 32, 257])
def test_each_gpu_reads_the_same_rows(placement, columns):
    source = torch.randn(5000, columns)
    table = hl.UnifiedTensor.from_tensor(source, placement=placement)
    rows = torch.randint(-5000, 5000, (2000,))
    for gpu in range(torch.cuda.device_count()):
        device = torch.device("cuda", gpu)
        found = table[rows.to(device)]
        assert found.device == device and torch.equal(found.cpu(), source[rows])
        assert table.cuda(device).device == device
        assert torch.equal((table.cuda(device) + 1).cpu(), source + 1)


def test_a_bad_index_is_told_of_the_gpu_that_met_it():
    table = hl.UnifiedTensor.from_tensor(torch.randn(10, 4))
    for gpu in (1, 0):
        with pytest.raises(IndexOutOfRange, match="10"):
            table[torch.tensor([0, 10], device=f"cuda:{gpu}")]
        assert torch.equal(table[torch.tensor([3], device=f"cuda:{gpu}")].cpu(), table.cpu()[3:4])


def test_the_second_gpu_searches_as_the_first():
    graph = hl.generate("kronecker", scale=12, seed=3, device="cpu")
    source = int(graph.degrees().argmax())
    first, second = (hl.bfs(graph, source, device=f"cuda:{gpu}") for gpu in (0, 1))
    assert second.levels.device == torch.device("cuda", 1)
    assert torch.equal(first.levels.cpu(), second.levels.cpu())
    assert torch.equal(first.parents.cpu(), second.parents.cpu())


def test_a_graph_is_made_on_either_gpu():
    first, second = (hl.generate("uniform", scale=10, seed=5, device=f"cuda:{gpu}") for gpu in (0, 1))
    assert torch.equal(first.indices, second.indices)


linked = pytest.mark.skipif(
    torch.cuda.device_count() < 2 or not torch.cuda.can_device_access_peer(0, 1), reason="the GPUs cannot read each other"
)


def _tiered(placement: str, columns: int) -> tuple[torch.Tensor, hl.TieredTensor]:
    source = torch.randn(20_000, columns)
    host = hl.UnifiedTensor.from_tensor(source, placement=placement)
    nbytes = source.nbytes
    return source, host.tiered(nbytes // 5 + 80_000, nbytes // 3, scores=torch.rand(20_000), devices=["cuda:0", "cuda:1"])


@linked
@pytest.mark.parametrize("columns", [3, 128])
def test_tiers_above_a_file_on_both(tmp_path, columns):
    """The first GPU fills all tiers; each reads what both have, and what one writes the other reads."""
    source = torch.randn(20_000, columns)
    file = hl.StorageArray.create(tmp_path / "x.bin", (20_000, columns), host_budget="1MiB")
    file[:] = source
    sizes = (source.nbytes // 5 + 80_000, source.nbytes // 3, source.nbytes // 5)
    table = file.tiered(*sizes, scores=torch.rand(20_000), devices=["cuda:0", "cuda:1"])
    assert all(table.plan.tiers.values())
    rows = torch.randint(-20_000, 20_000, (30_000,))
    for writer, reader in ((0, 1), (1, 0)):
        assert torch.equal(table[rows.to(f"cuda:{reader}")].cpu(), source[rows])
        new = torch.randn(9000, columns)
        changes = torch.randperm(20_000)[:9000]
        table.scatter_(changes.to(f"cuda:{writer}"), new.to(f"cuda:{writer}"))
        table.synchronize()
        source[changes] = new
        assert torch.equal(table[rows.to(f"cuda:{reader}")].cpu(), source[rows])
    table.close()
    assert torch.equal(file[:], source)


@linked
@pytest.mark.parametrize("placement", ["managed", "pinned"])
@pytest.mark.parametrize("columns", [3, 32, 128, 257])
def test_rows_of_all_tiers_on_both(placement, columns):
    before = [torch.cuda.memory_allocated(gpu) for gpu in range(2)]
    source, table = _tiered(placement, columns)
    assert table.plan.local_rows and table.plan.peer_rows and table.plan.resident < 20_000
    rows = torch.randint(-20_000, 20_000, (50_000,))
    for round_ in range(3):
        for gpu in range(2):
            index = rows.to(f"cuda:{gpu}")
            assert torch.equal(table[index].cpu(), source[rows])
            counted = table.count(index).rows
            assert all(counted.values()) and sum(counted.values()) == 50_000
        writer = f"cuda:{round_ % 2}"
        changes = torch.randperm(20_000)[:3000]
        new = torch.randn(3000, columns)
        table.scatter_(changes.to(writer), new.to(writer))
        source[changes] = new
    assert torch.equal(table[rows], source[rows])
    del index
    for gpu in range(2):  # what the tables of pointers take is in what is held
        assert torch.cuda.memory_allocated(gpu) - before[gpu] <= table.held[f"cuda:{gpu}"] + 8192
    table.close()
    assert torch.equal(table.host.cpu(), source)


@linked
def test_replicas_agree_where_a_row_was_given_twice():
    _, table = _tiered("managed", 64)
    twice = torch.arange(20_000).repeat(2)
    table.scatter_(twice.to("cuda:0"), torch.randn(40_000, 64, device="cuda:0"))
    every = torch.arange(20_000)
    assert torch.equal(table[every.to("cuda:0")].cpu(), table[every.to("cuda:1")].cpu())


def test_rows_can_be_asked_for_where_tiers_are():
    source = torch.randn(1000, 8)
    table = hl.UnifiedTensor.from_tensor(source).tiered("1MiB", devices="cuda:1")
    index = torch.arange(1000, device="cuda:1")
    assert torch.equal(table[index].cpu(), source)
    with pytest.raises(ConfigError, match="name it in devices="):
        table[index.to("cuda:0")]


def _child(table, work, done):
    try:
        index = torch.arange(len(table))
        for gpu in (1, 0):
            done.put(table[index.to(f"cuda:{gpu}")].cpu().numpy())
        work.get(timeout=60)
        done.put(table[index.to("cuda:1")].cpu().numpy())
        changed = torch.arange(0, len(table), 3, device="cuda:1")
        table.scatter_(changed, torch.full((len(changed), table.shape[1]), 4.0, device="cuda:1"))
        done.put("written")
        work.get(timeout=60)
        table.close()
    except Exception as error:
        done.put(repr(error))
        raise


@linked
def test_the_same_gpu_memory_in_another_process():
    context = multiprocessing.get_context("spawn")
    source, table = _tiered("pinned", 128)
    work, done = context.Queue(), context.Queue()
    child = context.Process(target=_child, args=(table, work, done))
    child.start()
    for _ in range(2):
        assert torch.equal(torch.from_numpy(done.get(timeout=200)), source)
    every = torch.arange(20_000, device="cuda:0")
    new = torch.randn(20_000, 128)
    table.scatter_(every, new.to("cuda:0"))
    work.put("read")
    assert torch.equal(torch.from_numpy(done.get(timeout=100)), new)
    assert done.get(timeout=100) == "written"
    new[::3] = 4
    for gpu in range(2):
        assert torch.equal(table[every.to(f"cuda:{gpu}")].cpu(), new)
    work.put("end")
    child.join(100)
    assert child.exitcode == 0
    assert torch.equal(table[every.cpu()], new)
    table.close()
