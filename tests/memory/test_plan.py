"""The planner: it sorts where an H200 was seen to gain from it, and says so."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hinterland import memory
from hinterland.memory import plan

GIB = 1 << 30


@pytest.fixture(autouse=True)
def built_in(monkeypatch):
    monkeypatch.setattr(plan, "load", lambda: None)


@pytest.mark.parametrize(
    ("mapping", "rows", "row_bytes", "table", "sort"),
    [
        ("managed", 1 << 20, 64, 48 * GIB, True),
        ("managed", 1 << 20, 128, 48 * GIB, True),
        ("managed", 1 << 20, 256, 48 * GIB, False),
        ("managed", 1 << 20, 512, 48 * GIB, False),
        ("managed", 1000, 64, 48 * GIB, False),
        ("pinned", 1 << 22, 512, 48 * GIB, True),
        ("pinned", 1 << 20, 128, 8 * GIB, True),
        ("pinned", 1 << 22, 512, GIB // 2, False),
        ("pageable", 1 << 22, 64, 48 * GIB, False),
    ],
)
def test_choices(mapping, rows, row_bytes, table, sort):
    chosen = memory.plan_sort(mapping, rows, row_bytes, table)
    assert chosen.sort is sort
    assert plan.sorts(mapping, rows, row_bytes, table) is sort
    assert ("sorted first" in chosen.explain()) is sort
    assert str(row_bytes) in chosen.explain()


# reference: million rows a second on an H200, tables in docs/memory.md
@pytest.mark.parametrize(
    ("mapping", "gib", "log_rows", "row_bytes", "random", "ordered"),
    [
        ("managed", 48, 18, 64, 299, 330),
        ("managed", 48, 22, 64, 302, 388),
        ("managed", 24, 22, 64, 306, 435),
        ("managed", 8, 18, 64, 315, 428),
        ("pinned", 48, 18, 512, 28, 35),
        ("pinned", 48, 22, 128, 29, 157),
        ("pinned", 24, 18, 128, 32, 41),
        ("pinned", 8, 18, 64, 43, 113),
    ],
)
def test_predictions_are_near_the_measurements(mapping, gib, log_rows, row_bytes, random, ordered):
    rows = 1 << log_rows
    chosen = memory.plan_sort(mapping, rows, row_bytes, gib * GIB)
    assert rows / chosen.as_given / 1e6 == pytest.approx(random, rel=0.15)
    assert rows / chosen.sorted / 1e6 == pytest.approx(ordered, rel=0.3)


def test_a_split_table_lies_between_its_mappings():
    """Each part is read at its own rate: seconds add up, and the more is mapped the fewer they are."""
    whole, rows = 96 * GIB, 1 << 20
    parts = (0, 16 * GIB, 48 * GIB, 80 * GIB, whole)
    seconds = [memory.plan_sort("split", rows, 128, whole, part).as_given for part in parts[1:-1]]
    ends = [memory.plan_sort(mapping, rows, 128, whole).as_given for mapping in ("pinned", "managed")]
    assert [ends[0], *seconds, ends[1]] == sorted([ends[0], *seconds, ends[1]], reverse=True)
    assert [rows / s for s in seconds] == pytest.approx([plan.row_rate("split", 128, whole, p) for p in parts[1:-1]])
    front = memory.plan_sort("managed", rows // 2, 128, 48 * GIB).as_given
    back = memory.plan_sort("pinned", rows // 2, 128, 48 * GIB).as_given
    assert seconds[1] == pytest.approx(front + back)
    chosen = memory.plan_sort("split", 1 << 22, 512, whole, 16 * GIB)
    assert chosen.sort and plan.sorts("split", 1 << 22, 512, whole, 16 * GIB)  # 512 B fill the link from managed memory alone
    assert "96.00 GiB (16.00 GiB managed, the rest pinned) of split memory" in chosen.explain()


def test_a_measured_machine_decides(monkeypatch):
    class Point:
        mapping, table_bytes, row_bytes, random = "managed", 48 * GIB, 64, 64 * 20e6

    class Machine:
        rows = (Point(),)
        link = None
        sort = {1 << 20: 1e-4, 3 << 20: 3e-4}  # noqa: RUF012

    monkeypatch.setattr(plan, "load", lambda: Machine())
    assert memory.plan_sort("managed", 1 << 20, 64, 48 * GIB).as_given == pytest.approx((1 << 20) / 20e6)
    for rows, seconds in ((1 << 17, 1e-4), (1 << 20, 1e-4), (2 << 20, 2e-4), (6 << 20, 6e-4)):
        assert memory.plan_sort("managed", rows, 64, 48 * GIB).sorting == pytest.approx(seconds)
    Machine.sort = {1 << 20: 1.0}
    assert not memory.plan_sort("managed", 1 << 20, 64, 48 * GIB).sort


@given(
    rows=st.integers(1, 1 << 20),
    row_bytes=st.integers(0, 5000),
    wide=st.booleans(),
    seed=st.integers(0, 9),
)
def test_visiting_order_is_a_permutation_by_page(rows, row_bytes, wide, seed):
    torch.manual_seed(seed)
    index = torch.randint(-rows, rows, (200,), dtype=torch.int64 if wide else torch.int32)
    _goes_by_page(index, plan.visiting_order(index, row_bytes, rows * row_bytes), row_bytes)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_a_gpu_has_the_same_order(dtype):
    index = torch.randint(0, 1 << 28, (10_000,), dtype=dtype, device="cuda")
    for row_bytes in (64, 128, 656):
        _goes_by_page(index.cpu(), plan.visiting_order(index, row_bytes, row_bytes << 28).cpu(), row_bytes)


def _goes_by_page(index, visit, row_bytes):
    assert visit.dtype == torch.int64
    assert torch.equal(visit.sort().values, torch.arange(len(index)))
    rows_per_page = max(1, 1 << max(0, ((2 << 20) // max(row_bytes, 1)).bit_length() - 1))
    pages = torch.div(index.long()[visit], rows_per_page, rounding_mode="floor")
    assert (pages.diff() >= 0).all()


@given(
    mapping=st.sampled_from(["managed", "pinned", "pageable"]),
    rows=st.integers(1, 1 << 26),
    row_bytes=st.integers(1, 8192),
    table=st.integers(1, 1 << 40),
)
def test_the_short_answer_is_the_plans(mapping, rows, row_bytes, table):
    table = max(table, row_bytes)
    assert plan.sorts(mapping, rows, row_bytes, table) == memory.plan_sort(mapping, rows, row_bytes, table).sort
