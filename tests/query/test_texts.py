"""Texts of a query against Python's own: numbered, ordered and compared, as they are and in dictionaries."""

from __future__ import annotations

import itertools
import operator
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

import hinterland as hl  # noqa: E402
from hinterland.query.texts import TextCodes  # noqa: E402
from hinterland.runtime.errors import FormatError  # noqa: E402

from .tables import write  # noqa: E402

ORDERS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
TYPES = [pa.string(), pa.large_string(), pa.string_view()]
texts = st.text(st.sampled_from("ab\0é\U0001f600z"), max_size=20)


@settings(max_examples=80, deadline=None)
@given(
    values=st.lists(st.none() | texts, max_size=60),
    literals=st.lists(texts, min_size=1, max_size=9),
    type_=st.sampled_from(TYPES),
    first=st.integers(0, 5),
)
def test_codes_stand_for_texts(values, literals, type_, first):
    """Whatever part of an array they are."""
    array = pa.array(values, type_)[first:]
    values = values[first:]
    numbers = TextCodes()
    found = numbers.of_texts(array).tolist()
    for (order, holds), literal in itertools.product(ORDERS.items(), literals):
        truths = numbers.truths((order, (literal,)))
        for code, value in zip(found, values, strict=True):
            assert value is None or truths[code] == holds(value, literal)
    assert numbers.of_texts(array).tolist() == found or None in values
    among = numbers.truths(("==", tuple(literals)))
    assert all(value is None or among[code] == (value in literals) for code, value in zip(found, values, strict=True))
    known = list(dict.fromkeys(value for value in values if value is not None))
    assert len(numbers) == len(known)
    asked = np.array([*range(len(known)), *range(len(known))], np.int64)
    shown, rank = numbers.texts(asked)
    assert shown == known * 2
    assert [sorted(known)[place] for place in rank] == shown


def test_many_texts_are_numbered_as_they_come():
    """Also in several arrays, and texts that begin alike."""
    chance = random.Random(1)
    parts = [[f"{chance.randrange(20_000):020d}" for _ in range(30_000)] for _ in range(3)]
    numbers, known = TextCodes(), {}
    for part in parts:
        wanted = [known.setdefault(text, len(known)) for text in part]
        assert numbers.of_texts(pa.array(part)).tolist() == wanted
    assert len(numbers) == len(known)
    assert numbers.texts(np.arange(len(known)))[0] == list(known)


def test_lists_of_many_texts(tmp_path):
    """They are looked for together, also in statistics of pages."""
    table = pa.table({"t": [f"{row:06d}" for row in range(50_000)], "x": range(50_000)})
    pa.parquet.write_table(table, tmp_path / "t", row_group_size=5000, write_page_index=True, use_dictionary=False)
    wanted = [*range(0, 50_000, 50), *range(70_000, 71_000)]
    where = f"t in ({', '.join(repr(f'{row:06d}') for row in wanted)})"
    query = hl.query(tmp_path / "t")
    assert query.filter(where).agg("count()", "sum(x)").rows == [{"count()": 1000, "sum(x)": sum(range(0, 50_000, 50))}]
    assert query.filter(f"not ({where})").agg("count()").rows == [{"count()": 49_000}]
    grouped = query.filter(where).group_by("t").agg("count()").rows
    assert grouped == [{"t": f"{row:06d}", "count()": 1} for row in range(0, 50_000, 50)]
    none = query.filter("t in ('1', '10000', 'z')").agg("count()")
    assert none.rows == [{"count()": 0}] and "10 of 10 row groups" in none.explain()


def test_texts_that_are_no_utf8(tmp_path):
    bad = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")])
    path = write(pa.table({"t": bad}), tmp_path / "t", "arrow", 500)
    with pytest.raises(FormatError, match="the column 't' is damaged: Invalid UTF8"):
        hl.query(path).filter("t == 'x'").agg("count()")


def test_categories_without_any_value(tmp_path):
    """As pandas writes them."""
    array = pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int8()), pa.nulls(0))
    path = write(pa.table({"t": array}), tmp_path / "t", "arrow", 500)
    assert hl.query(path).agg("count(t)").rows == [{"count(t)": 0}]
    assert hl.query(path).filter("t is null").agg("count()").rows == [{"count()": 2}]


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
@pytest.mark.parametrize("type_", TYPES[:2], ids=str)
def test_columns_of_different_texts(tmp_path, kind, type_):
    """More than a writer of Parquet puts in a dictionary, in row groups of which one has a single text."""
    chance = np.random.default_rng(3)
    rows = 60_000
    values = [None if row % 17 == 0 else f"name {row * 7919 % rows:09d}" * 3 for row in range(rows)]
    values[:20_000] = ["few"] * 20_000
    table = pa.table({"t": pa.array(values, type_), "x": chance.random(rows)})
    path = tmp_path / "t"
    if kind != "arrow":
        pa.parquet.write_table(table, path, row_group_size=20_000, dictionary_pagesize_limit=1 << 14)
    else:
        write(table, path, "arrow", 7000)
    x = table.column("x").to_pylist()
    many = [value for value in values[25_000:25_400] if value is not None][:12]
    for where, holds in {
        f"t == '{many[0]}'": lambda text: text == many[0],
        f"t < '{many[0]}'": lambda text: text < many[0],
        f"t in ({', '.join(map(repr, many))})": lambda text: text in many,
        "t != 'few'": lambda text: text != "few",
        "not (t == 'few' or t > 'name 00005')": lambda text: not (text == "few" or text > "name 00005"),
    }.items():
        found = [x[row] for row, text in enumerate(values) if text is not None and holds(text)]
        assert hl.query(path).filter(where).agg("count()", "sum(x)").rows == [
            {"count()": len(found), "sum(x)": pytest.approx(sum(found))}
        ]
    nulls = values.count(None)
    assert hl.query(path).agg("count(t)").rows == [{"count(t)": rows - nulls}]
    assert hl.query(path).filter("t is null").agg("count()").rows == [{"count()": nulls}]
    assert hl.query(path).filter("x < 0.01").agg("count(t)").rows == [
        {"count(t)": sum(text is not None for text, number in zip(values, x, strict=True) if number < 0.01)}
    ]
    grouped = hl.query(path).filter("x < 0.1").group_by("t").agg("count()").rows
    wanted = {}
    for text, number in zip(values, x, strict=True):
        if number < 0.1:
            wanted[text] = wanted.get(text, 0) + 1
    keys = [*sorted(text for text in wanted if text is not None), None]
    assert grouped == [{"t": key, "count()": wanted[key]} for key in keys]


PLAIN = [
    {"compression": "none"},
    {"compression": "snappy", "dictionary_pagesize_limit": 1 << 10, "use_dictionary": True},
    {"compression": "zstd", "data_page_version": "2.0"},
    {"compression": "gzip"},
    {"compression": "snappy", "data_page_version": "2.0", "write_page_index": True},
]


@pytest.mark.parametrize("way", PLAIN, ids=str)
@pytest.mark.parametrize("nulls", [True, False], ids=["nulls", "no nulls"])
def test_plain_texts_of_parquet(tmp_path, way, nulls):
    """Short and long, few and many of which match, with texts as they are and in dictionaries in one chunk."""
    rng, rows = random.Random(5), 12_000
    texts = ["é" * rng.randrange(3) + str(rng.randrange(4000)) + "x" * rng.choice((0, 0, 9, 700)) for _ in range(rows)]
    values = [None if nulls and rng.random() < 0.2 else text for text in texts]
    x = [rng.random() for _ in range(rows)]
    path, way = tmp_path / "t", {"use_dictionary": False, **way}
    pa.parquet.write_table(pa.table({"t": values, "x": x}), path, row_group_size=5000, data_page_size=20_000, **way)
    below = sorted(texts)[rows // 2]
    for where, holds in {
        f"t < '{below}'": lambda text, _: text is not None and text < below,
        f"t == '{below}' and x < 0.9": lambda text, number: text == below and number < 0.9,
        "x < 0.02": lambda text, number: number < 0.02,
        "x < 0.6": lambda text, number: number < 0.6,
        "t is null": lambda text, _: text is None,
    }.items():
        found = [row for row in range(rows) if holds(values[row], x[row])]
        counts = {"count()": len(found), "count(t)": sum(values[row] is not None for row in found)}
        assert hl.query(path).filter(where).agg("count()", "count(t)").rows == [counts]
        by_text = {}
        for row in found:
            by_text[values[row]] = by_text.get(values[row], 0) + 1
        keys = sorted(by_text, key=lambda text: (text is None, text))
        grouped = hl.query(path).filter(where).group_by("t").agg("count()").rows
        assert grouped == [{"t": key, "count()": by_text[key]} for key in keys]


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


@settings(max_examples=200, deadline=None)
@given(
    texts=st.lists(
        st.lists(
            st.sampled_from([b"a", "é".encode(), "\u20ac".encode(), "\U0001f600".encode(), "\ud7ff\ue000\U0010ffff".encode()])
            | st.binary(min_size=1, max_size=1)
            | st.sampled_from(
                [b"\xed\xa0\x80", b"\xe0\x9f\xbf", b"\xf0\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\xc1\xbf", b"\xe2\x82"]
            ),
            max_size=4,
        ).map(b"".join),
        min_size=1,
        max_size=4,
    ),
    dictionary=st.booleans(),
)
def test_only_utf8_is_placed(tmp_path_factory, texts, dictionary):
    """As Python tells it."""
    path = tmp_path_factory.mktemp("utf8") / "t"
    binary = pa.array(texts, pa.binary())
    array = pa.Array.from_buffers(pa.string(), len(texts), binary.buffers())
    pa.parquet.write_table(pa.table({"t": array}), path, use_dictionary=dictionary, write_statistics=False)
    query = hl.query(path).filter("t >= 'a'")
    if all(map(_is_utf8, texts)):
        assert query.agg("count()").rows == [{"count()": sum(text.decode() >= "a" for text in texts)}]
    else:
        with pytest.raises(FormatError, match="the column 't' is damaged"):
            query.agg("count()")
