"""Edge lists as others write them: separators, headings, KONECT's lists, columns that are no weight, and names of vertices."""

from __future__ import annotations

import csv
from collections import Counter

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import hinterland as hl
from hinterland.graph.formats import text
from hinterland.graph.reorder import restored
from hinterland.runtime import warned
from hinterland.runtime.errors import ConfigError, FormatError, OutOfMemory

from .samples import few, listed, memory_folder


@pytest.fixture(scope="module")
def folder():
    yield from memory_folder()


NO_WEIGHTS = ("inf", "Infinity", "nan", "NaN", "NA", "null", "None")


def written(folder, content, name="list.txt"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def named(graph: hl.Graph) -> Counter:
    """The stored edges by the names of their ends."""
    return Counter((graph.labels[u], graph.labels[v], *rest) for u, v, *rest in listed(graph))


@pytest.mark.parametrize("separator", [",", ";", "|", "\t", " ", "  \t", " , "])
@pytest.mark.parametrize("heading", [("", "", ""), ("Source%Node", "Target%Node", "Edge%Weight"), ("Von", "Ä", "n")])
def test_any_one_separator_and_a_heading_with_blanks(tmp_path, separator, heading):
    heading = [word.replace("%", " " if separator.strip() else "_") for word in heading]
    lines = [separator.join(heading)] * bool(heading[0]) + [separator.join(map(str, edge)) for edge in [(0, 1, 5), (1, 2, 7)]]
    assert listed(hl.load_graph(written(tmp_path, "\n".join(lines)))) == [(0, 1, 5), (1, 2, 7)]
    lines = [line.rpartition(separator)[0] for line in lines]
    assert listed(hl.load_graph(written(tmp_path, "\n".join(lines)))) == [(0, 1), (1, 2)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("1,000 2\n", r'line 1: after the neighbour follows "2"'),
        ("1 2,5\n", r'line 1: after the vertex follows "2,5", and not the ","'),
        (
            "1,2\n1 2\n",
            r'line 2: after the vertex follows "2", and not the "," that stands between the columns of the first line',
        ),
        ("1,2,3\n1,2 3\n", r'line 2: after the neighbour follows "3", and not the ","'),
        ("1 2\n1,2\n", r'line 2: the vertex is "1,2", and the columns of the first line have blanks between them'),
        ("1;2\n1,2\n", r'line 2: the vertex is "1,2"'),
        ("alice 1\n", r'line 1: the vertex is "alice".*ids=\'any\''),
        ("alice bob\ncarol dave\n", r'line 2: the vertex is "carol".*ids=\'any\''),
        ("alice bob\n", r"only 'alice bob', a heading unless ids='any' is said"),
        ("12345678901234567890 2\n", r"vertices must be whole numbers from 0 up to 2\^48.*ids=\'any\'"),
        ("1::2::5\n", r'1 column, "1::2::5"; .* blanks, commas, semicolons or bars'),
        ("1 2 5 1000\n", r'4 columns; .* These are "1", "2", "5", "1000"'),
        ("Source,Target,Type,Weight\n0,1,Directed,2\n", r'4 columns; .* These are "Source", "Target", "Type", "Weight"'),
        ("0 1 2 3\n", r"networkx.read_adjlist"),
        ("0 1 {}\n", r"networkx wrote what it keeps of an edge"),
        ("0 1 {'weight': 3}\n", r"data=False or data=\['weight'\]"),
        ("0 1\n京 2\n", 'line 2: the vertex is "京", which'),
        ("0 1\n東京\x7f\x85\xa0é\t1\n", 'the vertex is "東京\\?\\?\xa0é", which'),
        ("0 1\n" + "京" * 41 + " 2\n", f'the vertex is "{"京" * 40}\\.\\.\\.", which'),
        (b"0 1\n\xe6\x9d\xff\xed\xa0\x80 2\n", r'the vertex is "\?{6}", which'),
        ("0 1 1e-400\n", 'line 1: the weight is "1e-400", which is too small for a double; write 0'),
        ("0 1 -1e400\n", 'the weight is "-1e400", which is too large for a double; scale'),
        ("0 1 inf\n", 'the weight is "inf", which is not a finite number'),
        ('0 1 5"3"\n', "the weight is .* not a finite number"),
        ('0 1 "3\n', "the weight is .* not a finite number"),
        ('0 1 "3 "\n', "the weight is .* not a finite number"),
        ('"0 1 5\n', "the vertex is .* not a vertex number"),
        ("target,source\n5,7\n", 'line 1: the heading calls column 2 "source" and column 1 "target", but the first column'),
        ("id,source,target\n0,5,7\n", 'column 2 "source" and column 3 "target"'),
        ("weight;Source Node;Target Node\n9;5;7\n", 'column 2 "Source Node" and column 3 "Target Node"'),
        ("weight,u,v\n9,5,7\n", 'the heading calls column 1 "weight", but the first column must be the source'),
        ("u,Time,v\n5,9,7\n", 'the heading calls column 2 "Time", but'),
        ("from_city,km,to_city\n5,9,7\n", 'column 1 "from_city" and column 3 "to_city"'),
        ("head,relation,tail\n5,1,7\n", 'column 1 "head" and column 3 "tail"'),
        ('"source","target"\n"1",5,7\n', '3 columns, ""1"", "5", "7", below a heading of 2'),
        ("source,target,time,weight\n1,2,3,4\n", "4 columns; .* in a last column that is called so"),
        ("0 -> 1\n1 -> 2\n", 'line 1: "->" stands between the ends of an edge'),
        ("a,b\n0,--,1\n", 'line 2: "--" stands between'),
        ("(0, 1)\n(1, 2)\n", r'line 1: "\(0, 1\)" is a tuple or a list in brackets; write the ends'),
        ("[0, 1, 5],\n[1, 2, 6]\n", r"is a tuple or a list in brackets"),
    ],
)
def test_what_no_edge_list_has(tmp_path, content, words):
    with pytest.raises(FormatError, match=words):
        hl.load_graph(written(tmp_path, content))


def test_hashes_are_refused_with_the_way_to_read_them(tmp_path):
    with pytest.raises(OutOfMemory, match="as ids='any' does"):
        hl.load_graph(written(tmp_path, "1234567890123 2\n"))


@pytest.mark.parametrize("sides", ["", "% 3 7 2\n"])
def test_the_two_sides_of_a_bipartite_list_of_konect_are_apart(tmp_path, sides):
    path = written(tmp_path, f"% bip unweighted\n{sides}1 1\n1 2\n2 1\n", "out.toy")
    left = 7 if sides else 2  # as many as the second line says, or as there are
    assert listed(hl.load_graph(path)) == [(1, left + 1), (1, left + 2), (2, left + 1)]
    assert hl.load_graph(path).num_vertices == left + 3
    assert listed(hl.load_graph(path, symmetrize=True)) == sorted(
        edge for u, v in [(1, left + 1), (1, left + 2), (2, left + 1)] for edge in ((u, v), (v, u))
    )
    with pytest.raises(ConfigError, match="numbered apart"):
        hl.load_graph(path, ids="any")
    with pytest.raises(FormatError, match="from 1"):
        hl.load_graph(written(tmp_path, "% bip\n0 1\n"))


def test_konects_fourth_column_is_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(warned, "_told", set())
    content = "% asym weighted\n1\t2 5\t1082040961 \n2 3 -1 1082155839.5\n"
    with pytest.warns(UserWarning, match="the third is read as weights, and the fourth, times, is left out"):
        graph = hl.load_graph(written(tmp_path, content))
    assert listed(graph) == [(1, 2, 5), (2, 3, -1)] and graph.directed
    for line, words in (
        ("2 3 1", "the line ends before its time"),
        ("2 3 1 x", 'the time is "x"'),
        ("1 2 3 4 5", 'follows "5"'),
    ):
        with pytest.raises(FormatError, match=f"line 4: .*{words}"):
            hl.load_graph(written(tmp_path, content + line))
    assert listed(hl.load_graph(written(tmp_path, "% sym\n1 2\n"))) == [(1, 2)]  # one line an edge, as in all lists


@pytest.mark.parametrize("ids", [None, "any"])
@pytest.mark.parametrize("called", ["timestamp", "Time", "unix_time", "date"])
def test_a_column_that_the_heading_calls_times_is_no_weight(tmp_path, monkeypatch, ids, called):
    for weights in ("", ",9"):
        monkeypatch.setattr(warned, "_told", set())
        weight = ",weight" * bool(weights)
        content = f"source,target{weight},{called}\n5,7{weights},1600000000\n7,8{weights},1600000000.5\n"
        with pytest.warns(UserWarning, match=f'the last column, "{called}", has times, .* left out'):
            graph = hl.load_graph(written(tmp_path, content), ids=ids)
        edges = [(5, 7, 9), (7, 8, 9)] if weights else [(5, 7), (7, 8)]
        assert (listed(graph) if ids is None else sorted(named(graph))) == edges
    with pytest.raises(FormatError, match='line 2: the time is "2020-01-01", which is no number; write times as numbers'):
        hl.load_graph(written(tmp_path, f"source,target,{called}\n5,7,2020-01-01\n"), ids=ids)


@pytest.mark.parametrize("wide", [False, True])
def test_numbers_may_stand_in_quotation_marks(tmp_path, wide):
    edges = [(i, i + 1, 2**40 * wide + i) for i in range(1500)]
    path = tmp_path / "quoted.csv"
    with path.open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([("source", "target", "n"), *edges])
    assert listed(hl.load_graph(path)) == edges and hl.load_graph(path).weights.dtype == (torch.int64 if wide else torch.int32)
    assert named(hl.load_graph(path, ids="any")) == Counter(edges)


signed, unsigned = st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**64 - 1)
texts = st.text(st.characters(exclude_categories=("Cc", "Cs"), exclude_characters='"'), max_size=40).map(
    lambda name: f'n{name}"'
)


# Names as lists without quotation marks have them: Unicode's other blanks are part of them.
unquoted = st.text(st.sampled_from("ab京\xa0\u3000\x85\u2028"), min_size=1, max_size=4).map("n{}".format)


@few
@given(st.lists(st.tuples(unquoted, unquoted), min_size=1, max_size=6), st.sampled_from(" \t,;|"), st.booleans())
def test_columns_are_what_the_parser_takes_for_them(folder, edges, separator, weighted):
    lines = [separator.join([*edge, "7"] if weighted else edge) for edge in edges]
    graph = hl.load_graph(written(folder, "\n".join(lines)), ids="any")
    assert named(graph) == Counter((*edge, 7) if weighted else edge for edge in edges)


def edges_of(ends):
    return st.lists(st.tuples(ends, ends, st.integers(0, 9)), min_size=1, max_size=40)


@few
@given(edges_of(signed) | edges_of(unsigned) | edges_of(signed | st.integers(-3, 3)) | edges_of(texts), st.booleans())
def test_vertices_may_be_called_anything(folder, edges, symmetrize):
    lines = [",".join('"' + str(end).replace('"', '""') + '"' for end in edge[:2]) + f",{edge[2]}" for edge in edges]
    graph = hl.load_graph(written(folder, "# names\n" + "\n".join(lines)), ids="any", symmetrize=symmetrize)
    assert list(graph.labels) == sorted({end for edge in edges for end in edge[:2]})
    mirrored = [(v, u, weight) for u, v, weight in edges if u != v] if symmetrize else []
    assert named(graph) == Counter([*edges, *mirrored])
    for form in (graph, hl.reorder(graph, "degree"), hl.compress(graph)):
        hl.save_graph(form, folder / "named.hl")
        again = hl.load_graph(folder / "named.hl")
        assert list(again.labels) == list(graph.labels) and named(restored(again)) == named(graph)


@pytest.mark.parametrize(
    ("ends", "labels"),
    [
        ("7 -2 1234567890123456789", [-2, 7, 1234567890123456789]),
        ("0 18446744073709551615 5", [0, 5, 2**64 - 1]),
        ("-5 18446744073709551615 5", ["-5", "18446744073709551615", "5"]),  # which no type of 64 bits holds together
        ("007 7 8", ["007", "7", "8"]),  # texts, which are not the same
        ("+7 7 8", ["+7", "7", "8"]),
        ("-0 7 8", ["-0", "7", "8"]),
        ("18446744073709551616 7 8", ["18446744073709551616", "7", "8"]),
        ("a Z ä", ["Z", "a", "ä"]),
    ],
)
def test_names_are_integers_where_all_are_and_ascend(tmp_path, ends, labels):
    graph = hl.load_graph(written(tmp_path, "\n".join(f"{end} {end}" for end in ends.split())), ids="any")
    assert list(graph.labels) == labels and list(map(type, graph.labels)) == list(map(type, labels))
    assert listed(graph) == [(0, 0), (1, 1), (2, 2)]


@pytest.mark.parametrize(
    ("content", "edges"),
    [
        ("alice bob\nbob carol\n", [("alice", "bob"), ("bob", "carol")]),
        ("source target\nalice bob\n", [("alice", "bob")]),
        ("From_Node;To Node\nalice;bob\n", [("alice", "bob")]),
        ("source target\ntarget sink\n", [("source", "target"), ("target", "sink")]),  # a heading's words are no vertices
        ("author,paper,n\nalice,x,2\n", [("alice", "x", 2)]),  # a weight is a number
        ("id_1,id_2\n77,-5\n-5,3\n", [(77, -5), (-5, 3)]),
        ("New York\tBoston\nBoston\tLos Angeles  \n", [("New York", "Boston"), ("Boston", "Los Angeles")]),
        ('"New York, NY",Boston\nBoston , "a ""b"" c"\n', [("New York, NY", "Boston"), ("Boston", 'a "b" c')]),
        ("a b 1\r\n\r\nb c 0.5\r\n", [("a", "b", 1), ("b", "c", 0.5)]),
        (
            "http://a/?x=1;y=2 http://b/\nhttp://b/ http://c/,d\n",
            [("http://a/?x=1;y=2", "http://b/"), ("http://b/", "http://c/,d")],
        ),
        ("Smith, J\tDoe\nDoe\tAnn\n", [("Smith, J", "Doe"), ("Doe", "Ann")]),
        ('a #b\n"#b" c\n', [("a", "#b"), ("#b", "c")]),
        ("Ann\xa0Lee Bob\nCy Dan\nDan Ann\n", [("Ann\xa0Lee", "Bob"), ("Cy", "Dan"), ("Dan", "Ann")]),
        ("山田\u3000太郎 花子\n花子 次郎\n", [("山田\u3000太郎", "花子"), ("花子", "次郎")]),
        ("a\x85b,\u2028c\u3000,7\nd,e,8\n", [("a\x85b", "\u2028c\u3000", 7), ("d", "e", 8)]),
        ("Fromm,Tolstoy\nSartre,Camus\n", [("Fromm", "Tolstoy"), ("Sartre", "Camus")]),
        ("fromage tomate\nx y\n", [("fromage", "tomate"), ("x", "y")]),
        ("Startup,Enduser\nx,y\n", [("Startup", "Enduser"), ("x", "y")]),
        ("source_1,target_1\nsource_2,target_2\n", [("source_1", "target_1"), ("source_2", "target_2")]),
        ("src_ip,dst_ip\nx,y\n", [("x", "y")]),
        ("FromStation,ToStation\nx,y\n", [("x", "y")]),
        ("source2;targetName\nx;y\n", [("x", "y")]),
        ("head,tail\nx,y\n", [("x", "y")]),
        ("(a) b\tc (d)\nc (d)\te\n", [("(a) b", "c (d)"), ("c (d)", "e")]),
        ("(a,b)\t(c\n", [("(a,b)", "(c")]),
        ('a "->" 3\nb c 4\n', [("a", "->", 3), ("b", "c", 4)]),
        ("{x\ty\ny\t{z}\n", [("{x", "y"), ("y", "{z}")]),
        ("x\t{y\n", [("x", "{y")]),
        ("[x]\t[y\n", [("[x]", "[y")]),
        ('"a","b","3"\n"c","d","0.5"\n', [("a", "b", 3), ("c", "d", 0.5)]),
    ],
)
def test_lists_of_names_as_they_come(tmp_path, content, edges):
    assert named(hl.load_graph(written(tmp_path, content), ids="any")) == Counter(edges)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a b\n#b c\n", 'line 2: the line starts with "#b", a name or a comment'),
        ("a b\nb\n", "line 2: the line ends before its neighbour"),
        ("a,b\nb,,\n", 'line 2: the neighbour is "", which is no whole name'),
        ('a,b\n"b,c\n', "line 2: the vertex is .* which is no whole name"),
        ("a,b\nb,c,d\n", "line 2: after the neighbour follows"),
        ("caf\xe9 b\n".encode("latin1"), r"the name b'caf\\xe9' is no UTF-8.*iconv"),
        ("# nothing\n# Nodes: 7\n", "holds no edge"),
        ("source,target\n", "only 'source,target', which reads like a heading; there is no graph"),
        *[(f"alice bob {word}\nbob cy 2\n", f'line 1: the weight is "{word}", which is not a finite') for word in NO_WEIGHTS],
        ("target,source\nalice,bob\n", 'column 2 "source" and column 1 "target"'),
        ("(0, 1)\n(1, 2)\n", r'line 1: "\(0, 1\)" is a tuple or a list in brackets'),
        ("('a', 'b', 3)\n", "is a tuple or a list in brackets"),
        ('["a", "b"]\n', "is a tuple or a list in brackets"),
        ("0 -> 1\n1 -> 2\n", 'line 1: "->" stands between the ends of an edge'),
        ("a -- b\n", 'line 1: "--" stands between'),
        ("a - 5\n", 'line 1: "-" stands between .* if it is a name'),
        ("a b\n東京 京都 x\n", 'line 2: after the neighbour follows "x"'),
    ],
)
def test_names_that_are_none(tmp_path, content, words):
    with pytest.raises(FormatError, match=words):
        hl.load_graph(written(tmp_path, content), ids="any")


@pytest.mark.parametrize("threads", [1, 7])
def test_many_names_are_numbered_as_pandas_sorts_them(tmp_path, monkeypatch, threads, set_threads):
    """Several blocks and pieces, short names and long ones, tables that grow, a weight that widens the list."""
    monkeypatch.setattr(text, "TEXT_BYTES", 300_000)
    rng = np.random.default_rng(8)
    called = np.array([f"n{i}" + "-" * (i % 40) for i in rng.integers(0, 2**40, 30_000)], object)
    ends = called[rng.integers(0, len(called), (60_000, 2))]
    weights = rng.integers(0, 9, 60_000) + np.arange(60_000) // 59_999 / 2
    table = pd.DataFrame({"from": ends[:, 0], "to": ends[:, 1], "weight": weights})
    table.to_csv(tmp_path / "list.csv", index=False)
    set_threads(threads)
    graph = hl.load_graph(tmp_path / "list.csv", ids="any")
    numbers = pd.Categorical(ends.ravel()).codes.reshape(-1, 2).astype(int)
    assert graph.labels == sorted(set(ends.ravel()))
    expected = hl.from_edges(torch.from_numpy(numbers[:, 0]), torch.from_numpy(numbers[:, 1]), torch.from_numpy(weights))
    assert torch.equal(graph.indptr, expected.indptr) and torch.equal(graph.indices, expected.indices)
    assert torch.equal(graph.weights.double(), expected.weights)


@pytest.mark.parametrize("dtype", [np.int16, np.int64, np.uint64, ">i8"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("layout", ["[2,E]", "[E,2]"])
def test_edge_arrays_of_any_integers(tmp_path, dtype, order, layout):
    pairs = np.array([[700, 3], [3, 9], [9, 700], [700, 3]])
    if dtype == np.uint64:
        pairs = pairs.astype(np.uint64) + np.uint64(2**63)
    np.save(tmp_path / "e.npy", np.asarray(pairs if layout == "[E,2]" else pairs.T, dtype, order=order))
    graph = hl.load_graph(tmp_path / "e.npy", ids="any")
    assert list(graph.labels) == np.unique(pairs).tolist()
    assert named(graph) == Counter(map(tuple, pairs.tolist()))


def test_edge_arrays_of_what_is_no_integer(tmp_path):
    np.save(tmp_path / "e.npy", np.zeros((2, 3)))
    with pytest.raises(FormatError, match="what an edge array calls its vertices are integers"):
        hl.load_graph(tmp_path / "e.npy", ids="any")


@pytest.mark.parametrize(("ids", "name"), [("all", "g.txt"), (True, "g.txt"), ("any", "g.hl"), ("any", "g.mtx")])
def test_ids_that_cannot_be(tmp_path, ids, name):
    hl.save_graph(hl.from_edges(torch.tensor([0]), torch.tensor([1])), tmp_path / name)
    with pytest.raises(ConfigError, match="ids="):
        hl.load_graph(tmp_path / name, ids=ids)


@pytest.mark.parametrize(
    ("nodes", "kept"),
    [
        (["b", "a", "ä\t"], True),
        ([3, -1, 2**62], True),
        ([2**64 - 1, 5, 1], True),
        (["", "a", "b"], True),
        (["a\nb", "c", "d"], False),
        ([("a", 1), "b", 3], False),
        ([1, "1", 2], False),
        ([2**64, 1, 0], False),
        (["\ud800", "a", "b"], False),
        ([True, False, 2], False),
        (list(np.array([5, 3, 8])), True),
        ([np.uint64(2**64 - 1), np.int8(5), 1], True),
        ([np.str_("b"), "a", np.str_("ä")], True),
        ([np.float64(1), 2, 3], False),
    ],
)
def test_files_of_ours_keep_names_of_texts_or_integers(tmp_path, recwarn, nodes, kept):
    theirs = nx.path_graph(3)
    graph = hl.from_networkx(nx.relabel_nodes(theirs, dict(enumerate(nodes))))
    assert graph.labels == nodes
    for form in (graph, hl.reorder(graph, "degree"), hl.compress(graph)):
        hl.save_graph(form, tmp_path / "g.hl")
        assert any("names are left out" in str(warning.message) for warning in recwarn) is not kept
        found = hl.load_graph(tmp_path / "g.hl")
        assert (found.labels if found.labels is None else list(found.labels)) == (nodes if kept else None)
        if kept:
            assert list(hl.load_graph(tmp_path / "g.hl", "storage").labels) == nodes
            assert nx.utils.edges_equal(found.to_networkx().edges, nx.relabel_nodes(theirs, dict(enumerate(nodes))).edges)


def test_a_transpose_has_the_names_too(tmp_path):
    graph = hl.load_graph(written(tmp_path, "b a\nc a\n"), ids="any")
    assert graph.transpose().labels == ["a", "b", "c"]
    hl.save_graph(graph, tmp_path / "g.hl", transpose=True)
    assert hl.load_graph(tmp_path / "g.hl", transpose=True).transpose().labels == ["a", "b", "c"]
    assert hl.load_graph(tmp_path / "g.hl").to_igraph().vs["name"] == ["a", "b", "c"]
    assert hl.load_graph(written(tmp_path, "9 7\n"), ids="any").to_igraph().vs["name"] == [7, 9]
