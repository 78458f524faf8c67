"""Every form of an index, of a table and of the tensor that has the same content."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

import hinterland as hl
from hinterland import UnifiedTensor
from hinterland.runtime.errors import ConfigError, HinterlandError, IndexOutOfRange, NotATensor

from .far_rows import FarRows

shared_fixture = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def parts(draw, size):
    """Part of an index for a dimension, as torch takes it, and mostly within."""
    whole = st.integers(-size - 1, size)
    ends = st.none() | st.integers(-size - 2, size + 2)
    inside = st.integers(-size, size - 1) if size else whole
    return draw(
        st.one_of(
            whole,
            inside.map(np.int64),
            st.builds(slice, ends, ends, st.none() | st.integers(1, 3)),
            st.just(slice(None)),
            st.lists(inside, min_size=1, max_size=4),
            st.lists(inside, min_size=2, max_size=2).map(torch.tensor),
            st.lists(inside, min_size=2, max_size=2).map(lambda rows: np.array(rows, dtype=np.int64)),
            st.lists(st.booleans(), min_size=size, max_size=size).map(lambda rows: torch.tensor(rows, dtype=torch.bool)),
            st.lists(st.booleans(), min_size=size, max_size=size).map(lambda rows: np.array(rows, dtype=bool)),
        )
    )


@st.composite
def indices(draw):
    """A shape, and an index of it: a part alone, or several with ``...`` and None among them."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    if draw(st.booleans()):
        return shape, draw(parts(shape[0]))
    chosen = [draw(parts(size)) for size in shape[: draw(st.integers(0, len(shape)))]]
    if draw(st.booleans()):
        tail = [draw(parts(size)) for size in reversed(shape[len(chosen) :])][: draw(st.integers(0, 1))]
        chosen = [*chosen, ..., *reversed(tail)]
    if draw(st.booleans()):
        chosen.insert(draw(st.integers(0, len(chosen))), None)
    return shape, tuple(chosen)


def outcome(call):
    try:
        return call()
    except (IndexError, ValueError, TypeError, RuntimeError) as error:
        return error


def on(device, index):
    """An index whose tensors are on a device."""
    if isinstance(index, tuple):
        return tuple(on(device, part) for part in index)
    return index.to(device) if isinstance(index, torch.Tensor) else index


@shared_fixture
@given(indices(), st.sampled_from([torch.float32, torch.bfloat16, torch.uint16, torch.complex64]))
def test_an_index_gives_what_torch_gives(device, drawn, dtype):
    shape, index = drawn
    t = torch.arange(torch.Size(shape).numel()).view(shape).to(dtype)
    u = UnifiedTensor.from_tensor(t)
    expected, found = outcome(lambda: t[index]), outcome(lambda: u[on(device, index)])
    if isinstance(found, NotImplementedError):  # torch's own word: its GPU does not index such a type by tensors
        assert device.type == "cuda" and dtype == torch.uint16, (index, found)
        return
    if isinstance(expected, Exception):
        assert isinstance(found, HinterlandError) and isinstance(found, type(expected)), (index, expected, found)
        return
    assert isinstance(found, torch.Tensor), (index, found)
    assert found.shape == expected.shape and found.dtype == dtype
    assert found.cpu().tolist() == expected.tolist()


@shared_fixture
@given(indices(), st.sampled_from([torch.float32, torch.bool, torch.uint16, torch.complex128]), st.booleans())
def test_what_an_index_sets_is_what_torch_sets(device, drawn, dtype, whole):
    shape, index = drawn
    t = torch.zeros(shape).to(dtype)
    u = UnifiedTensor.from_tensor(t)
    selected = outcome(lambda: torch.arange(t.numel()).view(shape)[index])
    if isinstance(selected, Exception):
        with pytest.raises(HinterlandError):
            u[on(device, index)] = 1
        assert not u.cpu().any()
        return
    value = torch.arange(1, selected.numel() + 1).view(selected.shape) if whole else 1
    u[on(device, index)] = value
    if not whole:
        expected = torch.zeros(t.numel()).index_fill(0, selected.reshape(-1), 1).view(shape).to(dtype)
        assert u.cpu().tolist() == expected.tolist()
        return
    # Of an element that is named twice one of the values counts.
    allowed = {}
    for place, number in zip(selected.reshape(-1).tolist(), value.reshape(-1).to(dtype).tolist(), strict=True):
        allowed.setdefault(place, []).append(number)
    for place, number in enumerate(u.cpu().view(-1).tolist()):
        assert number in allowed.get(place, [0]), index


def test_calls_that_torch_users_make(device):
    t = torch.arange(24.0).view(6, 4)
    u = UnifiedTensor.from_tensor(t)
    mask = t[:, 0] > 7
    rows = torch.tensor([4, 0])
    for found, expected in (
        (u[mask.to(device)], t[mask]),
        (u[mask.numpy()], t[mask]),
        (u[mask.tolist()], t[mask]),
        (u[...], t),
        (u[..., 1], t[..., 1]),
        (u[:, 1], t[:, 1]),
        (u[1::2, -1], t[1::2, -1]),
        (u[None, 2], t[None, 2]),
        (u[np.int64(-2)], t[-2]),
        (u[torch.tensor(True)], t[torch.tensor(True)]),
        (u[torch.tensor(False), 1], t[torch.tensor(False), 1]),
        (u[np.array([1, -1], dtype=np.int16)], t[[1, -1]]),
        (u[np.array([1, 2], dtype=np.uint64)], t[[1, 2]]),
        (u[range(1, 3)], t[1:3]),
        (u[rows.to(device), 1], t[rows, 1]),
        (u[rows.to(device), 1:3], t[rows, 1:3]),
        (u[u > 7], t[t > 7]),
        (u[UnifiedTensor.from_tensor(rows)], t[rows]),
    ):
        assert torch.equal(found.cpu(), expected)
    assert u[mask.to(device)].device == device and u[rows.to(device), 1].device == device
    for view in (u[...], u[:, 1], u[None], u[2:, 1:]):  # the same bytes
        assert view.untyped_storage().data_ptr() == u.cpu().untyped_storage().data_ptr()
    ints = hl.UnifiedTensor.from_tensor(torch.arange(3))
    assert torch.equal(ints[torch.tensor([True, False, True])], torch.tensor([0, 2]))
    pandas = pytest.importorskip("pandas")
    assert torch.equal(u[pandas.Series([2, 3])], t[[2, 3]])
    assert torch.equal(u[pandas.Series(mask.numpy())], t[mask])


def test_calls_that_set(device):
    t = torch.arange(24.0).view(6, 4)
    u = UnifiedTensor.from_tensor(t)

    def both(index, value):
        u[on(device, index)] = value.to(device) if isinstance(value, torch.Tensor) else value
        t[index] = torch.as_tensor(value, dtype=t.dtype)
        assert torch.equal(u.cpu(), t)

    both(0, 5)
    both(torch.tensor([1, -1]), torch.tensor([[1.0], [2.0]]))
    both(t[:, 1] > 12, torch.tensor([1, 2, 3, 4]))
    both((slice(None), 3), np.arange(6))
    both((torch.tensor([1, 2]), torch.tensor([0, 3])), torch.tensor([0.5, 0.25]))
    both(slice(1, 5, 2), torch.full((2, 4), 9.0, dtype=torch.float64))
    both(..., [1, 2, 3, 4])
    u[u > 2] = 0
    u[[0, 1]] += 1
    t[t > 2] = 0
    t[[0, 1]] += 1
    assert torch.equal(u.cpu(), t)
    u[1:3] = u[0:2] * 2
    u[torch.tensor([3, 4])] = u[0:2]  # its own memory
    u[4:] = u[2:4]
    u[0, 0] = UnifiedTensor.from_tensor(torch.tensor([7.0]))[0]
    assert u.cpu()[0, 0] == 7 and torch.equal(u.cpu()[3, 1:], u.cpu()[0, 1:]) and torch.equal(u.cpu()[4:], u.cpu()[2:4])
    with pytest.raises(ConfigError, match=r"rows of shape \(2, 4\)"):
        u[:2] = torch.ones(3)
    with pytest.raises(ConfigError, match="written"):
        u[torch.tensor([0, 1]), torch.tensor([0, 1])] = torch.ones(3)
    with pytest.raises(ConfigError, match="are written here"):
        u[0] = "seven"
    u.cpu().requires_grad_()
    for index in (0, torch.tensor([1]), (slice(None), 1)):
        with pytest.raises(ConfigError, match=r"torch.no_grad\(\)"):
            u[index] = 1
    with torch.no_grad():
        u[0] = 1
    assert u.cpu()[0].tolist() == [1] * 4


@pytest.mark.parametrize(
    ("index", "kind", "words"),
    [
        (6, IndexOutOfRange, "index 6 at position 0 is outside a table of 6 rows"),
        (np.int64(-7), IndexOutOfRange, "index -7"),
        ([0, 9], IndexOutOfRange, "index 9 at position 1"),
        ((0, 4), IndexOutOfRange, "index 4 at position 0 is outside of dimension 1, which has 4 elements"),
        ((slice(None), torch.tensor([0, -5])), IndexOutOfRange, "index -5 at position 1 is outside of dimension 1"),
        ((torch.tensor([0, 8]), 1), IndexOutOfRange, "index 8 at position 1 is outside a table of 6 rows"),
        ((0, 0, 0), IndexOutOfRange, "is of 3 dimensions, and the table has 2"),
        (torch.ones(5, dtype=torch.bool), IndexOutOfRange, r"mask of shape \(5,\)"),
        (np.ones((6, 3), dtype=bool), IndexOutOfRange, r"mask of shape \(6, 3\)"),
        (np.array([2**64 - 1], dtype=np.uint64), IndexOutOfRange, "outside of every table"),
        (np.array([0.5]), ConfigError, "whole numbers"),
        (slice(None, None, -1), ConfigError, "not selected backwards"),
        ((0, slice(None, None, -1)), ConfigError, "elements of dimension 1 are not selected backwards"),
        (slice(0, 3, 0), ConfigError, "a step that is not 0"),
        ((..., ...), ConfigError, "comes once"),
        ("x", ConfigError, "indexed by rows"),
    ],
)
def test_what_a_table_does_not_have_gets_a_sentence(device, index, kind, words):
    u = UnifiedTensor.from_tensor(torch.zeros(6, 4))
    for use in (lambda: u[on(device, index)], lambda: u.__setitem__(on(device, index), 1)):
        with pytest.raises(kind, match=words):
            use()
    assert not u.cpu()[1:].any()  # and rows of other numbers may have been written


@pytest.fixture(params=["tiered", "cached", "storage", "tiered storage", "far"])
def other(request, tmp_path):
    """Tables whose rows lie in several places, or elsewhere, and their content."""
    t = torch.arange(24.0).view(6, 4)
    if "storage" in request.param:
        np.save(tmp_path / "x.npy", t.numpy())
        array = hl.StorageArray.open(tmp_path / "x.npy", mode="r+")
        return t, array if request.param == "storage" else array.tiered(32, host=32, devices=["cpu"])
    if request.param == "far":
        return t, FarRows(t)
    u = UnifiedTensor.from_tensor(t)
    return t, u.tiered(32, devices=["cpu"]) if request.param == "tiered" else u.cached("16KiB", device="cpu")


def test_other_tables_give_rows_by_all_forms(other):
    t, table = other
    mask = t[:, 0] > 7
    for index in (
        mask,
        mask.numpy(),
        mask.tolist(),
        ...,
        (slice(None), 1),
        (..., -1),
        (torch.tensor([[4, 0]]), slice(1, 3)),
        (2, None, slice(None, None, 2)),
        np.int64(-2),
        np.array([1, -1], dtype=np.int32),
        range(3),
    ):
        assert torch.equal(table[index], t[list(index) if isinstance(index, range) else index]), index
    assert torch.equal(table[::-2], t.flip(0)[::2])
    alone = torch.tensor(True), torch.tensor(False), np.array(True), (torch.tensor(True), 1)  # masks without a dimension
    for index in (None, (torch.tensor([0]), torch.tensor([1])), t > 3, True, *alone):
        with pytest.raises(ConfigError, match="gives rows first"):
            table[index]
    for index in (6, (0, 4), torch.ones(3, dtype=torch.bool)):
        with pytest.raises(IndexOutOfRange):
            table[index]


def test_other_tables_are_written_by_rows(other):
    t, table = other
    if isinstance(table, hl.CachedTensor):
        with pytest.raises(ConfigError, match="read only"):
            table[0] = 1
        return
    mask = t[:, 0] > 15
    for index, value in ((0, 5), (mask, torch.arange(4)), (slice(1, 3), np.ones((2, 4))), (..., t * 2), ([4, 3], [[1], [2]])):
        table[index] = value
        t[index] = torch.as_tensor(value, dtype=t.dtype)
        assert torch.equal(table[:], t)
    with pytest.raises(ConfigError, match="whole rows"):
        table[:, 1] = 0
    for index in (torch.tensor(True), torch.tensor(False), True):
        with pytest.raises(ConfigError, match="gives rows first"):
            table[index] = 1
    assert torch.equal(table[:], t)


class Changing(TorchDispatchMode):
    """What another thread does to row numbers once they were looked at."""

    def __init__(self, index):
        super().__init__()
        self.index = index

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        if function is torch.ops.aten.any.default:
            self.index.fill_(1 << 40)
        return found


def test_row_numbers_are_read_once(other):
    t, table = other
    wanted = torch.tensor([4, -6, 0])

    def call(use):
        index = wanted.clone()
        with Changing(index):
            return use(index)

    assert torch.equal(call(lambda index: table[index]), t[wanted])
    assert sum(call(table.count).rows.values()) == 3
    if isinstance(table, hl.StorageArray):
        call(table.prefetch)
        call(table.pin).unpin()
        assert call(lambda index: table.expect([index])) == 1
    if not isinstance(table, hl.CachedTensor):
        t[wanted] = 0
        call(lambda index: table.scatter_(index, torch.zeros(3, 4)))
        assert torch.equal(table[:], t)


def test_other_tables_are_no_tensors_and_say_what_is(other):
    t, table = other
    for use in (
        lambda: table + 1,
        lambda: table == t,
        lambda: table != table,
        lambda: torch.cat([table, t]),
        lambda: np.asarray(table),
        lambda: torch.from_dlpack(table),
        lambda: 3.0 in table,
    ):
        with pytest.raises(NotATensor, match=r"takes tensors, and a \w+ is none; .*(table|cached|array)") as raised:
            use()
        assert isinstance(raised.value, TypeError)
    with pytest.raises(AttributeError, match="no 'mean', which tensors have; "):
        table.mean()
    assert (table == None, table == "a", table in [table]) == (False, False, True)  # noqa: E711
    assert {table: 1}[table] == 1
    index = torch.tensor([5, 0])
    assert torch.equal(torch.index_select(table, 0, index), t[index])
    assert torch.equal(torch.nn.functional.embedding(index, table), t[index])
    assert (table.size(), table.size(-1), table.dim(), table.numel()) == (t.size(), 4, 2, 24)
