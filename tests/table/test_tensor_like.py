"""Tables where tensors and arrays are expected: the same bytes, or a sentence."""

import operator

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from hinterland import UnifiedTensor
from hinterland.runtime.errors import ConfigError, IndexOutOfRange, NotATensor

from .. import forked


@pytest.fixture
def t():
    return torch.arange(1.0, 13).view(4, 3)


@pytest.fixture
def u(t):
    return UnifiedTensor.from_tensor(t)


def test_sizes_are_those_of_the_tensor(t, u):
    for name in ("size", "dim", "numel", "element_size", "is_floating_point", "is_complex", "is_contiguous"):
        assert getattr(u, name)() == getattr(t, name)(), name
    for name in ("dtype", "shape", "ndim", "nbytes", "device", "is_cuda", "is_cpu", "requires_grad"):
        assert getattr(u, name) == getattr(t, name), name
    assert (len(u), u.size(0), u.size(-1)) == (4, 4, 3)
    assert u.contiguous() is u
    assert [row.tolist() for row in u] == t.tolist()
    assert (12.0 in u, 13 in u) == (True, False)
    with pytest.raises(IndexOutOfRange, match="dimension 2 is none of a table of 2"):
        u.size(2)
    u.cpu().requires_grad_()
    assert u.requires_grad


def test_view_takes_what_torchs_does(t, u):
    for found, expected in (
        (u.view(3, 4), t.view(3, 4)),
        (u.view(-1), t.view(-1)),
        (u.view((2, -1)), t.view(2, -1)),
        (u.view(torch.Size([6, 2])), t.view(6, 2)),
        (u.view(torch.int32), t.view(torch.int32)),
        (u.view(torch.int16), t.view(torch.int16)),
        (u.view(-1, dtype=torch.uint8), t.view(-1).view(torch.uint8)),
        (u.view(12, torch.int32), t.view(-1).view(torch.int32)),
    ):
        assert torch.equal(found.cpu(), expected) and found.cpu().data_ptr() == u.cpu().data_ptr()
    for wrong in ((5, -1), (-1, -1), (torch.complex128,), (0, -1), ("a",), (2, 2, 4)):
        with pytest.raises(ConfigError):
            u.view(*wrong)


def test_to_is_the_same_bytes(device, t, u):
    for there in (
        u.to(device),
        u.to(device, torch.float32),
        u.to(device=device, non_blocking=True),
        u.to(torch.ones(1, device=device)),
    ):
        assert there.device == device and torch.equal(there.cpu(), t)
        assert device.type == "cuda" or there.data_ptr() == u.cpu().data_ptr()
    assert u.to(torch.float32).data_ptr() == u.to().data_ptr() == u.cpu().data_ptr()
    made = u.to(device, torch.float64, copy=True)
    assert made.device == device and torch.equal(made.cpu(), t.double())
    with pytest.raises(ConfigError, match=r"to\('cpu', torch.float16, copy=True\) is a copy"):
        u.to(torch.float16)


def test_numpy_and_dlpack_share_memory(t, u):
    for shared in (np.asarray(u), np.from_dlpack(u), torch.from_dlpack(u).numpy(), torch.as_tensor(u).numpy()):
        assert np.array_equal(shared, t.numpy())
        assert shared.ctypes.data == u.cpu().data_ptr()
    np.asarray(u)[0] = 7
    assert u.cpu()[0].tolist() == [7, 7, 7]
    for copied in (np.array(u), np.asarray(u, dtype=np.float64), torch.tensor(u).numpy()):
        assert copied.ctypes.data != u.cpu().data_ptr() and copied[0].tolist() == [7, 7, 7]
    assert np.mean(u) == u.cpu().mean()
    with pytest.raises(ConfigError, match="copy=False allows none"):
        u.__array__(np.float64, copy=False)
    bfloat = UnifiedTensor.from_tensor(t.bfloat16())
    with pytest.raises(NotATensor, match=r"numpy has no bfloat16; .*ut.view\(torch.int16\) has the same bytes"):
        np.asarray(bfloat)
    assert torch.equal(torch.from_dlpack(bfloat), t.bfloat16())
    u.cpu().requires_grad_()
    assert np.asarray(u).shape == (4, 3) and torch.from_dlpack(u).shape == (4, 3)


FUNCTIONS = [
    lambda x, o: torch.cat([x, o]),
    lambda x, o: torch.stack((o, x)),
    lambda x, o: torch.matmul(x, o.t()),
    lambda x, o: torch.where(o > 3, x, o),
    lambda x, o: torch.index_select(x, 0, torch.tensor([3, 0], device=o.device)),
    lambda x, o: torch.index_select(x, 1, torch.tensor([2, 0], device=o.device)),
    lambda x, o: x.index_select(-2, torch.tensor([1], device=o.device)),
    lambda x, o: F.embedding(torch.tensor([[3], [1]], device=o.device), x),
    lambda x, o: F.embedding(torch.tensor([3, 1], device=o.device), x, padding_idx=1),
    lambda x, o: F.embedding(torch.tensor([3, 1], device=o.device), x, max_norm=2.0),
    lambda x, o: F.embedding_bag(torch.tensor([[3, 1]], device=o.device), x),
    lambda x, o: F.linear(o, x),
    lambda x, o: torch.sum(x, dim=0),
    lambda x, o: torch.equal(x, x),
    lambda x, o: torch.allclose(x, o),
    lambda x, o: F.normalize(x),
    lambda x, o: o.add(x),
    lambda x, o: o.new_zeros(4, 3).copy_(x),
    lambda x, o: torch.zeros_like(x),
    lambda x, o: torch.mean(input=x),
    lambda x, o: torch.isnan(x).any(),
]


@pytest.mark.parametrize("number", range(len(FUNCTIONS)))
def test_torchs_functions_take_a_table(device, t, u, number):
    function, beside = FUNCTIONS[number], (t * 2).to(device)
    expected, found = function(t.clone(), t * 2), function(u, beside)
    torch.testing.assert_close(found.cpu() if isinstance(found, torch.Tensor) else found, expected)


BINARY = "add sub mul truediv floordiv mod pow eq ne lt le gt ge".split()


@pytest.mark.parametrize("name", BINARY)
def test_operators_are_torchs(device, t, u, name):
    op, there = getattr(operator, name), (t.flip(0) * 1.5).to(device)
    for other in (2, there, UnifiedTensor.from_tensor(t.flip(0))):
        plain = other if isinstance(other, int) else other.cpu()
        for found, expected in ((op(u, other), op(t, plain)), (op(other, u), op(plain, t))):
            torch.testing.assert_close(found.cpu(), expected)
            assert not isinstance(other, torch.Tensor) or found.device == device
    array = t.numpy()[::-1].copy()
    for found, expected in ((op(u, array), op(t, t.flip(0))), (op(array, u), op(t.flip(0), t))):
        torch.testing.assert_close(torch.as_tensor(found), expected)


def test_other_operators_and_equality(t, u):
    assert torch.equal(np.float32(2) * u, t * 2) and torch.equal(u * np.float32(2), t * 2) and torch.equal(True + u, t + 1)
    assert torch.equal(-u, -t) and torch.equal(abs(u), t) and torch.equal(u @ t.t(), t @ t.t())
    ints = UnifiedTensor.from_tensor(torch.tensor([5, 6]))
    assert (ints & 4).tolist() == [4, 4] and (~ints).tolist() == [-6, -7] and (ints ^ ints).tolist() == [0, 0]
    assert (u == None, u == "a", u != None, u == "a") == (False, False, True, False)  # noqa: E711
    assert (u == t).all() and (t == u).all() and not (u != u).any()
    assert u in [u] and {u: 1}[u] == 1 and len({u, UnifiedTensor.from_tensor(t)}) == 2
    with pytest.raises(TypeError):
        u + "a"
    before = u
    u += 1
    u *= t
    assert u is before and torch.equal(u.cpu(), (t + 1) * t)
    torch.add(t, 1, out=u)
    assert torch.equal(u.cpu(), t + 1)


def test_rows_by_numbers_that_torch_refuses(device, u):
    bad = torch.tensor([1, -1], device=device)
    for use in (lambda: F.embedding(bad, u), lambda: torch.index_select(u, 0, bad)):
        with pytest.raises(IndexOutOfRange, match="index -1 at position 1 is outside .*from 0 to 3"):
            use()
    for use in (lambda: F.embedding(bad.abs() + 3, u), lambda: torch.index_select(u, 0, bad.abs() + 3)):
        with pytest.raises(IndexOutOfRange, match="index 4 at position 0"):
            use()


def test_methods_of_tensors_name_the_call_that_has_them(u):
    with pytest.raises(AttributeError, match=r"has no 'mean', which tensors have; ut.cpu\(\) and ut.cuda\(\) are tensors over"):
        u.mean()
    for use in (torch.nn.Parameter, torch.nn.Embedding.from_pretrained):
        with pytest.raises(AttributeError, match=r"ut.cpu\(\) and ut.cuda\(\) are tensors over"):
            use(u)
    assert not hasattr(u, "mean") and not hasattr(u, "no_such_thing")
    with pytest.raises(AttributeError, match="object has no attribute 'no_such_thing'"):
        u.no_such_thing  # noqa: B018


def test_data_sets_of_torch_take_a_table(t, u):
    for rows, numbers in DataLoader(TensorDataset(u, torch.arange(4)), batch_size=2):
        assert torch.equal(rows, t[numbers])
    assert torch.equal(torch.cat([*DataLoader(u, batch_size=3)]), t)


def test_gradients_pass_as_through_a_tensor(t, u):
    theirs, ours = t.clone().requires_grad_(), u.cpu().requires_grad_()
    index = torch.tensor([1, 3, 1])
    for of in (
        lambda x: F.embedding(index, x),
        lambda x: F.embedding(index, x, padding_idx=3),
        lambda x: x[index],
        lambda x: x[index, 1],
        lambda x: x[1:, 2],
        lambda x: x * 2,
    ):
        for leaf, x in ((ours, u), (theirs, theirs)):
            leaf.grad = None
            (of(x) ** 2).sum().backward()
        assert torch.equal(ours.grad, theirs.grad)


def test_rows_are_selected_where_pyg_came_first():
    """It puts a function of its own in the place of torch.index_select."""
    pytest.importorskip("torch_geometric")
    script = (
        "import torch, torch_geometric, hinterland as hl\n"
        "table = hl.UnifiedTensor.from_tensor(torch.arange(12.0).view(4, 3))\n"
        "print(torch.index_select(table, 0, torch.tensor([2])).tolist(), table.index_select(0, torch.tensor([0])).tolist())\n"
        "try:\n"
        "    torch.index_select(table, 0, torch.tensor([1, -1]))\n"
        "except IndexError as error:\n"
        "    print(error)\n"
    )
    done = forked.run("-c", script, check=True)
    first, second = done.stdout.splitlines()
    assert first == "[[6.0, 7.0, 8.0]] [[0.0, 1.0, 2.0]]"
    assert second == "index -1 at position 1 is outside a table of 4 rows; row numbers go from 0 to 3"
