"""Tables for people: texts as they are, whole, on one line each, and no two of them alike."""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import re
import sys

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

import hinterland as hl
from hinterland.cli.info import info
from hinterland.cli.output import print_table
from hinterland.cli.query import _repr_of, query
from hinterland.runtime.errors import ConfigError

pa = pytest.importorskip("pyarrow")
import pyarrow.feather  # noqa: E402


def printed(call, *given, **named):
    """Its lines, without the spaces at their ends."""
    with contextlib.redirect_stdout(io.StringIO()) as output:
        call(*given, **named)
    return [line.rstrip() for line in re.sub("\x1b\\[[0-9;]*m", "", output.getvalue()).split("\n")]


KEYS = {
    "[/foo] x": "[/foo] x",
    "[red]": "[red]",
    ":warning:": ":warning:",
    "a\\nb": "a\\nb",
    "a\nb": r"'a\nb'",
    "a\tb": r"'a\tb'",
    "\x1b[31mred": r"'\x1b[31mred'",
    "null": "'null'",
    None: "null",
    "": "''",
    " ": "' '",
    "a": "a",
    "a ": "'a '",
    "'null'": "\"'null'\"",
    "it's": "it's",
    "日本": "日本",
    "x" * 300: "x" * 300,
    "x" * 299 + "y": "x" * 299 + "y",
}


def test_a_query_prints_texts_as_they_are(tmp_path):
    """Those that could be taken for others, or for null, as Python writes them."""
    names = {"price[usd]": 'sum("price[usd]")', "a\nb": 'sum("a\nb")'}
    table = {"[b]key": list(KEYS), "price[usd]": range(len(KEYS)), "a\nb": [1] * len(KEYS)}
    pyarrow.feather.write_feather(pa.table(table), tmp_path / "t[i].arrow")
    lines = printed(query, tmp_path / "t[i].arrow", select=", ".join(names.values()), group_by="[b]key")
    assert lines[0].startswith(f"{tmp_path / 't[i].arrow'}: {len(KEYS)} rows match")
    headings = ["[b]key", names["price[usd]"], repr(names["a\nb"])]
    assert re.split("  +", lines[1].strip()) == headings
    found = {re.split("  +", line.strip())[0] for line in lines[2 : 2 + len(KEYS)]}
    assert found == set(KEYS.values())
    assert lines[2 + len(KEYS) : 4 + len(KEYS)][0] == ""
    assert [line.split(": ")[0] for line in lines[3 + len(KEYS) : -1]] == ["[b]key", "price[usd]", r"'a\nb'"]


@pytest.mark.parametrize(("listed", "names"), [
    ("a,b", ["a", "b"]), (" b , `a` ", ["b", "a"]), ("`a,b`", ["a,b"]), ("`a,b`,`a `,a", ["a,b", "a ", "a"]),
    ('" a\n",[b]key', [" a\n", "[b]key"]), ('"`"', ["`"]), ("it's", ["it's"]), ("in,two words", ["in", "two words"]),
])  # fmt: skip
def test_groups_by_columns_of_odd_names(tmp_path, capsys, listed, names):
    every = ["a", "b", "a,b", "a ", " a\n", "[b]key", "`", "it's", "in", "two words"]
    pyarrow.feather.write_feather(pa.table({name: [at, at] for at, name in enumerate(every)}), tmp_path / "t")
    query(tmp_path / "t", group_by=listed, json=True)
    row = dict.fromkeys(names) | {name: every.index(name) for name in names} | {"count()": 2}
    assert [list(one.items()) for one in json.loads(capsys.readouterr().out)["rows"]] == [list(row.items())]


@pytest.mark.parametrize("listed", ["`a", "a,`b` c", '"a,b'])
def test_groups_by_columns_between_quotes_without_an_end(tmp_path, listed):
    pyarrow.feather.write_feather(pa.table({"a": [1], "b": [2]}), tmp_path / "t")
    with pytest.raises(ConfigError, match=r"from character \d on: a name between quotes has no end, or no comma after it"):
        query(tmp_path / "t", group_by=listed)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from([*KEYS, *KEYS.values()])


@given(st.lists(TEXTS | st.none(), min_size=1, unique=True))
@example(["\x85", "\u2028", "\u202e", "\u00a0", "[", "]", "\\[", "[", "'", '"', "\r"])
def test_no_two_texts_print_alike(texts):
    lines = printed(print_table, "title", [("k", False)], [[_repr_of(text)] for text in texts])
    assert lines[:2] == ["title", " k"]
    assert lines[2 + len(texts) :] == ["", ""]
    assert len(set(lines[2 : 2 + len(texts)])) == len(set(texts))


def test_a_terminal_folds_what_is_wide(monkeypatch):
    """And nothing is cut: not long cells, nor columns that have no room."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    lines = printed(print_table, "[red]t :smile:", [("k", False), ("n[usd]", True)], [["abcdefghij" * 20, "7"]])
    assert lines[0] == "[red]t :smile:"
    assert "n[usd]" in lines[2]
    assert max(map(len, lines)) <= 60
    assert "".join("".join(lines[4:]).replace("7", "").split()) == "abcdefghij" * 20
    many = printed(print_table, "t", [(f"c{number}", True) for number in range(40)], [[str(number) for number in range(40)]])
    assert " ".join(many).split()[-40:] == [str(number) for number in range(40)]


def test_texts_that_an_encoding_lacks(monkeypatch):
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stdout)
    print_table("é", [("é", False)], [["\udcff"], ["日"]])
    stdout.flush()
    lines = [line.strip() for line in stdout.buffer.getvalue().decode("ascii").split("\n")]
    assert lines[:4] == [r"\xe9", r"\xe9", r"\udcff", r"\u65e5"]


def test_a_file_of_an_odd_name_is_described_line_by_line(tmp_path):
    name = str(tmp_path / "a\nvertices  7.el")
    hl.save_graph(hl.from_edges(torch.tensor([0, 1]), torch.tensor([1, 2])), name)
    lines = printed(info, name, "pageable", None, json=False)
    assert [line.split()[0] for line in lines[:4]] == ["file", "format", "file", "vertices"]
    assert repr(name) in lines[0]


def test_numbers_by_themselves(tmp_path, capsys):
    pyarrow.feather.write_feather(pa.table({"x": [1]}), tmp_path / "t")
    assert printed(query, tmp_path / "t", select="0.1, 2")[1:3] == [" 0.1  2", " 0.1  2"]
    query(tmp_path / "t", select="0.1, 2", group_by="", json=True)
    assert json.loads(capsys.readouterr().out)["rows"] == [{"0.1": 0.1, "2": 2}]


def test_times_in_json(tmp_path, capsys):
    """By ISO 8601, whatever they are in Python."""
    moment = datetime.datetime(2019, 3, 1, 12, 30)
    table = {"d": [moment.date()], "us": [moment], "ns": pa.array([moment], pa.timestamp("ns"))}
    pyarrow.feather.write_feather(pa.table(table), tmp_path / "t")
    query(tmp_path / "t", select="max(d), max(us), max(ns)", group_by="", json=True)
    assert list(json.loads(capsys.readouterr().out)["rows"][0].values()) == [
        "2019-03-01", "2019-03-01T12:30:00", "2019-03-01T12:30:00.000000000"
    ]  # fmt: skip
