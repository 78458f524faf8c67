"""Copies, pickles and checkpoints of tables, and tables that processes share."""

import copy
import io
import pickle
import zipfile

import pytest
import torch

from hinterland import UnifiedTensor, memory

from .. import forked

PLACEMENTS = ["pageable", "pinned", "host", pytest.param("managed", marks=pytest.mark.gpu)]


def saved(table):
    file = io.BytesIO()
    torch.save({"x": table, "epoch": 3}, file)
    file.seek(0)
    return torch.load(file, weights_only=True)["x"]


def pickled(table):
    return pickle.loads(pickle.dumps(table))


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled, saved])
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_copy_has_the_same_rows_in_the_same_place(nothing_left, copied, placement):
    for t in (torch.randn(5, 3), torch.zeros(0, 4, dtype=torch.uint16), torch.randn(4, 2, 2).bfloat16()):
        u = UnifiedTensor.from_tensor(t, placement)
        other = copied(u)
        assert type(other) is UnifiedTensor and other.placement == u.placement
        assert torch.equal(other.cpu(), t) and other.dtype == t.dtype and other.shape == t.shape
        other.cpu().fill_(1)
        assert torch.equal(u.cpu(), t)
        assert not other.requires_grad
        if t.is_floating_point():
            u.cpu().requires_grad_()
            assert copied(u).requires_grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint16, torch.bool])
def test_a_table_is_saved_beside_a_tensor_over_it(dtype):
    u = UnifiedTensor.from_tensor(torch.ones(4, 2).to(dtype))
    table, tensor = saved([u, u.cpu()])
    assert torch.equal(table.cpu(), u.cpu()) and torch.equal(tensor, u.cpu())


def test_a_file_that_names_the_module_of_before_is_loaded():
    table = UnifiedTensor.from_tensor(torch.arange(6.0).view(3, 2), "pageable")
    before = pickle.dumps(table, protocol=0).replace(b"hinterland.table.unified", b"hinterland.memory.unified")
    assert b"hinterland.memory.unified" in before
    assert torch.equal(pickle.loads(before).cpu(), table.cpu())
    file = io.BytesIO()
    torch.save(table, file)
    older = io.BytesIO(with_stored_name(file.getvalue(), b"hinterland.table.unified", b"hinterland.memory.unified"))
    assert torch.equal(torch.load(older, weights_only=True).cpu(), table.cpu())


def with_stored_name(saved: bytes, name: bytes, other: bytes) -> bytes:
    """A file of ``torch.save`` in which a module has another name."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved)) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as new:
        for entry in old.namelist():
            new.writestr(entry, old.read(entry).replace(name, other))
    return made.getvalue()


def test_a_view_is_copied_alone_and_a_table_once():
    u = UnifiedTensor.from_tensor(torch.arange(12))
    for copied in (copy.deepcopy, pickled):
        first, second = copied([u, u])
        assert first is second
        assert copied(u.view(2, 2)).nbytes == 32 and copied(u.view(2, 2)).cpu().tolist() == [[0, 1], [2, 3]]
    same = copy.copy(u)
    assert same is not u and same.cpu().data_ptr() == u.cpu().data_ptr()


def test_what_lay_where_gpus_see_it_is_pageable_without_a_gpu(monkeypatch):
    u = UnifiedTensor.from_tensor(torch.arange(6.0), "pageable")
    for placement in ("managed", "split"):
        monkeypatch.setattr(u._buffer, "mapping", placement)
        for copied in (copy.deepcopy, pickled, saved):
            other = copied(u)
            assert other.placement == UnifiedTensor.empty(1).placement and torch.equal(other.cpu(), u.cpu())


def test_a_checkpoint_outlives_the_process_that_wrote_it(tmp_path):
    """Of pinned memory too, of which multiprocessing sends no rows."""
    code = (
        "import sys, torch\nfrom hinterland import UnifiedTensor\n"
        "torch.save(UnifiedTensor.from_tensor(torch.arange(4.0), placement='pinned'), sys.argv[1])\n"
    )
    forked.run("-c", code, tmp_path / "x.pt", check=True)
    other = torch.load(tmp_path / "x.pt", weights_only=True)
    assert other.placement == "pinned" and other.cpu().tolist() == [0, 1, 2, 3]


def test_what_is_shared_is_the_same_memory():
    u = UnifiedTensor.from_tensor(torch.zeros(4), placement="pinned")
    table = u.tiered(8, devices=["cpu"])
    for other in (pickle.loads(memory.pickle_shared({"x": u}))["x"], pickle.loads(memory.pickle_shared(table))):
        other.scatter_([3], torch.tensor([5.0]))
        assert u[3] == 5
        u[3] = 0
