"""Files that are not what they promise: each gets a sentence with the file, the place, the value and the remedy."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import hinterland as hl
from hinterland.graph.formats import arrays as array_files
from hinterland.graph.formats import hl as ours
from hinterland.runtime.errors import ConfigError, FormatError, GraphError, OutOfMemory, StorageError

MTX = b"%%MatrixMarket matrix coordinate "

TEXT = {
    # Matrix Market
    "beyond.mtx": (MTX + b"pattern general\n% x\n100 100 2\n1 2\n3 9999\n", r"line 5: neighbour 9999 exceeds the 100 vertices"),
    "zero.mtx": (MTX + b"pattern general\n3 3 1\n0 1\n", r"line 3: vertex 0 is below 1"),
    "short.mtx": (MTX + b"pattern general\n3 3 3\n1 1\n2 2    \n", r"truncated: .* 3 entries, but the file ends after 2"),
    "long.mtx": (MTX + b"pattern general\n3 3 1\n\n1 1\n% c\n2 2\n", r"line 6: this is more than the 1 entries"),
    "promise.mtx": (
        MTX + b"pattern general\n9 9 1000000000000\n1 1\n",
        r"line 2: the header promises 1000000000000 entries, at",
    ),
    "wide.mtx": (MTX + b"real general\n3 4 1\n1 1 1\n", r"3 rows and 4 columns; only a square one is a graph"),
    "dense.mtx": (b"%%MatrixMarket matrix array real general\n1 1\n1\n", r"a dense matrix \(array\) is no graph"),
    "complex.mtx": (MTX + b"complex general\n1 1 1\n1 1 1 1\n", r"complex entries"),
    "hermitian.mtx": (MTX + b"complex hermitian\n1 1 1\n1 1 1 0\n", r"complex entries"),
    "banner.mtx": (b"%%MatrixMarket matrix coordinate\n1 1 1\n1 1\n", r"line 1: the banner must read"),
    "field.mtx": (MTX + b"quaternion general\n1 1 1\n1 1 1\n", r"known are"),
    "skewpattern.mtx": (MTX + b"pattern skew-symmetric\n2 2 1\n2 1\n", r"no values to negate"),
    "diagonal.mtx": (MTX + b"real skew-symmetric\n2 2 1\n2 2 1.0\n", r"entry \(2, 2\) lies on the diagonal"),
    "mirror.mtx": (
        MTX + b"integer skew-symmetric\n3 3 2\n3 1 5\n2 1 -9223372036854775808\n",
        r"entry \(2, 1\) is -9223372036854775808, but its mirror would be 2\^63",
    ),
    "nosize.mtx": (MTX + b"real general\n% only comments\n", r"ends before its size line"),
    "size.mtx": (MTX + b"real general\n1 1\n1 1 1\n", r"the size line holds 2 numbers"),
    "negsize.mtx": (MTX + b"real general\n-1 1 1\n1 1 1\n", r"must hold whole numbers"),
    "hugesize.mtx": (MTX + b"real general\n99999999999999999999 1 1\n", r"must hold whole numbers"),
    "nan.mtx": (MTX + b"real general\n2 2 1\n1 2 nan\n", r'line 3: the weight is "nan", which is not a finite number'),
    "inf.mtx": (MTX + b"real general\n2 2 1\n1 2 -inf\n", r"not a finite number"),
    "overflow.mtx": (MTX + b"real general\n2 2 1\n1 2 1e999\n", r"too large for a double"),
    "fraction.mtx": (MTX + b"integer general\n2 2 1\n1 2 1.5\n", r"no 64-bit integer"),
    "noweight.mtx": (MTX + b"real general\n2 2 1\n1 2      \n", r"line 3: the line ends before its weight"),
    "third.mtx": (MTX + b"pattern general\n2 2 1\n1 2 7\n", r'after the neighbour follows "7"'),
    # Edge lists
    "word.txt": (b"0 1\n1 two\n", r'line 2: the neighbour is "two", which is not a vertex number'),
    "negative.txt": (b"0 1\n-1 2\n", r'line 2: the vertex is "-1"'),
    "float.txt": (b"0 1\n1.0 2\n", r'line 2: the vertex is "1.0"'),
    "one.txt": (b"0 1\n5\n", r"line 2: the line ends before its neighbour"),
    "four.txt": (b"0 1 2 3\n", r"line 1: 4 columns; an edge list has two or three"),
    "ragged.txt": (b"0 1 2\n1 2\n", r"line 2: the line ends before its weight"),
    "ragged2.txt": (b"0 1\n1 2 5\n", r'line 2: after the neighbour follows "5"'),
    "gap.csv": (b"0,1,1\n1,,2\n", r"line 2: the neighbour is \"\""),
    "large.txt": (b"0 1\n281474976710656 1\n", r"exceeds 2\^48"),
    "digits.txt": (b"0 1\n99999999999999999999999999 1\n", r"not a vertex number"),
    "nothing.txt": (b"# only\n# comments\n", r"holds no edge"),
    "nanweight.txt": (b"0 1 nan\n", r"not a finite number"),
    "column.txt": (b"0 1 x\n", r'the weight is "x"'),
    "unprintable.txt": (b"0 1\n1 \x7f\xff\n", r'the neighbour is "\?\?"'),
    # DIMACS
    "order.gr": (b"c x\na 1 2 3\np sp 2 1\n", r"must read: p sp"),
    "kind.gr": (b"p edge 2 1\ne 1 2\n", r"only shortest-path graphs"),
    "arcs.gr": (b"p sp 2 2\na 1 2 3\n        ", r"truncated: .* 2 arcs, but the file ends after 1"),
    "promise.gr": (b"p sp 2 99999999\na 1 2 3\n", r"promises 99999999 arcs, at least"),
    "tag.gr": (b"p sp 2 1\ne 1 2 3\n", r'line 2: the line starts with "e"'),
    "beyond.gr": (b"p sp 2 1\na 1 3 3\n", r"line 2: neighbour 3 exceeds the 2 vertices"),
    # neither
    "empty.txt": (b"", r"the file is empty; write it again"),
    "noise.txt": (b"\x01\x02\x03\x04 0 1\n", r"it begins with 01 02 03 04 20 30 20 31\) is of no graph format"),
}


@pytest.mark.parametrize("name", TEXT)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_text(tmp_path, name, packed):
    content, words = TEXT[name]
    if packed and "promise" in name:
        words = r"truncated: the header promises"  # a compressed file's size proves nothing: found at its end
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if packed else content)
    if packed and name == "empty.txt":
        words = r"holds no edge"
    if packed and name == "noise.txt":
        words = r"of no graph format.*--help"
    with pytest.raises(FormatError, match=words) as error:
        hl.load_graph(path)
    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"0 0\n5 200000000\n", "the largest number is on line 2"),
        (MTX + b"pattern general\n200000000 200000000 1\n1 1\n", "in the header"),
        (MTX + b"pattern general\n5000000 5000000 1\n1 1\n", "in the header"),
    ],
)
def test_absurdly_sparse(tmp_path, content, words):
    (tmp_path / "g").write_bytes(content)
    with pytest.raises(OutOfMemory, match=f"{words}.*renumber the vertices"):
        hl.load_graph(tmp_path / "g")


def test_too_large_for_the_memory(tmp_path, monkeypatch):
    (tmp_path / "g.txt").write_text("0 1\n" * 2000 + "0 3000000\n")
    hl.save_graph(hl.from_edges(torch.tensor([0]), torch.tensor([2_000_000])), tmp_path / "g.hl")
    monkeypatch.setenv("HINTERLAND_HOST_MEMORY", "4MiB")
    for name in ("g.txt", "g.hl"):
        with pytest.raises(OutOfMemory, match=rf"^{tmp_path}/{name}: .*of host memory asked for"):
            hl.load_graph(tmp_path / name)


@pytest.mark.parametrize("cut", [1, 12, 25])
def test_truncated_gzip(tmp_path, cut):
    path = tmp_path / "g.txt.gz"
    path.write_bytes(gzip.compress(b"0 1\n" * 50 + b"7 1234567\n")[:-cut])
    with pytest.raises(FormatError, match="truncated: the gzip data stops"):
        hl.load_graph(path)


def test_damaged_gzip(tmp_path):
    path = tmp_path / "g.txt.gz"
    content = bytearray(gzip.compress(b"".join(b"%d %d\n" % (i, i * i % 1000) for i in range(1000))))
    content[-6] ^= 1
    path.write_bytes(content)
    with pytest.raises(FormatError, match="damaged gzip data before offset"):
        hl.load_graph(path)


def test_a_line_without_end(tmp_path):
    path = tmp_path / "g.txt"
    path.write_bytes(b"0 1\n" + b"1" * (3 << 20))
    with pytest.raises(FormatError, match="line 2"):
        hl.load_graph(path)


def gap_file(path, directed=0, edges=2, vertices=3, offsets=(0, 1, 2, 2), neighbours=(1, 0)):
    path.write_bytes(
        struct.pack("<Bqq", directed, edges, vertices)
        + np.array(offsets, "<i8").tobytes()
        + np.array(neighbours, "<i4").tobytes()
    )
    return path


def test_gap(tmp_path):
    path = gap_file(tmp_path / "g.sg")
    assert hl.load_graph(path).indices.tolist() == [1, 0]
    whole = path.read_bytes()
    for content, words in (
        (whole[:-1], r"57 bytes, but the file holds 56; it is truncated"),
        (whole + b"\0\0", r"of another format"),
        (whole[:9], r"truncated: 9 bytes"),
        (b"\x02" + whole[1:], r"byte 0 is 2"),
        (b"\0" + struct.pack("<qq", -1, 3) + whole[17:], r"promises -1 edges"),
        (b"\0" + struct.pack("<qq", 2, 1 << 40) + whole[17:], r"fewer than 2\^31"),
        (b"\0" + struct.pack("<qq", 1 << 62, 3) + whole[17:], r"promises 4611686018427387904 edges"),
    ):
        path.write_bytes(content)
        with pytest.raises(FormatError, match=words):
            hl.load_graph(path)
    for arrays, words in (
        ({"offsets": (0, 2, 1, 2)}, r"indptr\[2\] is 1, less than indptr\[1\] = 2"),
        ({"offsets": (1, 1, 2, 2)}, r"indptr\[0\] is 1"),
        ({"offsets": (0, 1, 1, 1)}, r"indptr ends with 1"),
        ({"offsets": (0, 9, 9, 2)}, r"indptr"),
        ({"neighbours": (1, 3)}, r"indices\[1\] is 3"),
        ({"neighbours": (-1, 0)}, r"indices\[0\] is -1"),
        ({"neighbours": (1, 2)}, r"not every edge has its reverse: 0 -> 1 is there more often"),
    ):
        with pytest.raises(FormatError, match=words) as error:
            hl.load_graph(gap_file(path, **arrays))
        assert str(error.value).startswith(str(path))


def test_weighted_gap(tmp_path):
    path = tmp_path / "g.wsg"
    graph = hl.from_edges(torch.tensor([0, 1]), torch.tensor([1, 2]), torch.tensor([5, 6], dtype=torch.int32))
    hl.save_graph(graph, path)
    content = bytearray(path.read_bytes())
    struct.pack_into("<i", content, 17 + 32, 77)
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"neighbours\[0\] is 77, but vertex numbers lie between 0 and 2"):
        hl.load_graph(path)


def test_emogi(tmp_path):
    base = tmp_path / "g.bel"
    graph = hl.from_edges(torch.tensor([0, 1, 1]), torch.tensor([1, 0, 1]), torch.tensor([1, 2, 3]))

    for part, content, words in (
        ("col", struct.pack("<qq3q", 3, 0, 0, 1, 9), "indptr ends with 9"),
        # What BaM's converter writes: the number of edges where the number of vertices plus one belongs.
        ("col", struct.pack("<qq5q", 3, 0, 0, 1, 3, 3, 3), "must be the number of vertices plus one"),
        ("col", struct.pack("<qq", 0, 0), "counts 0 offsets"),
        ("dst", struct.pack("<qq3q", 3, 0, 1, 0, 2), r"neighbours\[2\] is 2"),
        ("dst", struct.pack("<qq3q", 4, 0, 1, 0, 1), "promises 4 elements of 8 bytes, but the file holds 3"),
        ("dst", b"xyz", "truncated: 3 bytes"),
        ("val", struct.pack("<qq2I", 2, 0, 1, 1), "2 weights for 3 neighbours"),
    ):
        hl.save_graph(graph, base)
        stamp = (tmp_path / "g.bel.col").read_bytes()[8:16]
        (tmp_path / f"g.bel.{part}").write_bytes(content[:8] + stamp + content[16:] if len(content) >= 16 else content)
        with pytest.raises(FormatError, match=words):
            hl.load_graph(base)
    hl.save_graph(graph, base)
    (tmp_path / "g.bel.dst").unlink()
    with pytest.raises(StorageError, match=r"g.bel.dst: cannot be read"):
        hl.load_graph(base)
    (tmp_path / "g.bel.col").unlink()
    with pytest.raises(StorageError, match=r"g.bel.col does not exist"):
        hl.load_graph(base)


def saved(graph, path):
    hl.save_graph(graph, path)
    return bytearray(path.read_bytes())


def test_every_damaged_byte_of_our_own_files_is_found(tmp_path):
    path = tmp_path / "g.hl"
    rng = np.random.default_rng(7)
    src, dst = (torch.from_numpy(rng.integers(0, 200, 1000)) for _ in range(2))
    whole = saved(hl.from_edges(src, dst, torch.rand(1000)), path)
    at = 0
    places = []
    for start, size in ours.read_header(str(path)).sections():
        places += [start, start + size // 2, start + size - 1]
    for at in [*range(0, 90), 4087, 4088, 4095, *places]:
        content = whole.copy()
        content[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(content)
        with pytest.raises(FormatError):
            hl.load_graph(path, format="hl")
    for size in (0, 7, 8, 100, 4096, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(FormatError, match=r"truncated|magic|empty"):
            hl.load_graph(path)


def test_our_own_headers(tmp_path):
    path = tmp_path / "g.hl"
    whole = saved(hl.from_edges(torch.tensor([0, 1]), torch.tensor([1, 0])), path)
    newer = whole.copy()
    newer[8] = 5
    path.write_bytes(newer)
    with pytest.raises(FormatError, match="version 5 of the format; this library reads versions up to 4: update it"):
        hl.load_graph(path)
    # A header that is whole but promises too much: refused by the file's size, before anything is allocated.
    for vertices, edges in ((1 << 47, 2), (2, 1 << 47), (-1, 2), (2, -5), (1 << 62, 1 << 62)):
        forged = ours.HlHeader(1, vertices, edges, (torch.int64, torch.int32)).pack()
        path.write_bytes(forged + whole[4096:])
        with pytest.raises(FormatError, match="promises"):
            hl.load_graph(path)


def forged(path, change):
    """The file at ``path`` under other flags, with a header whose checksum is right."""
    header = ours.read_header(str(path))
    header.flags = change(header.flags)
    path.write_bytes(header.pack() + path.read_bytes()[4096:])


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize(("order", "dtype"), [(None, None), ("degree", torch.int16), (None, torch.float64)])
def test_a_directed_graph_that_says_undirected(tmp_path, packed, order, dtype):
    path = tmp_path / "g.hl"
    rng = np.random.default_rng(3)
    src, dst = (torch.from_numpy(rng.integers(0, 50, 300)) for _ in range(2))
    graph = hl.from_edges(src, dst, None if dtype is None else torch.arange(300).to(dtype))
    graph = graph if order is None else hl.reorder(graph, order)
    for one_way in (graph, hl.graph.simplify(graph, symmetrize=True)):
        hl.save_graph(hl.compress(one_way) if packed else one_way, path)
        forged(path, lambda flags: flags & ~ours.DIRECTED)
        if one_way.directed:
            with pytest.raises(FormatError, match="not every edge"):
                hl.load_graph(path)
        else:
            assert not hl.load_graph(path).directed


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_a_reverse_of_another_weight(tmp_path, packed):
    path = tmp_path / "g.hl"
    ends = torch.tensor([0, 1]), torch.tensor([1, 0])
    for weights in ([1.0, 2.0], [2.0, 2.0], [0.0, -0.0]):
        graph = hl.from_edges(*ends, torch.tensor(weights))
        hl.save_graph(hl.compress(graph) if packed else graph, path)
        forged(path, lambda flags: flags & ~ours.DIRECTED)
        if weights[0] == weights[1]:
            assert not hl.load_graph(path).directed
        else:
            with pytest.raises(FormatError, match="weight"):
                hl.load_graph(path)


def test_lists_that_do_not_ascend_as_the_header_says(tmp_path):
    path = tmp_path / "g.hl"
    hl.save_graph(hl.Graph(torch.tensor([0, 3, 3, 4]), torch.tensor([2, 0, 1, 0])), path)
    assert not hl.load_graph(path).has_sorted_lists
    forged(path, lambda flags: flags | ours.SORTED)
    with pytest.raises(FormatError, match="the header says that neighbours ascend, but some do not"):
        hl.load_graph(path)
    hl.save_graph(hl.Graph(torch.tensor([0, 3, 3, 4]), torch.tensor([0, 1, 1, 0])), path)
    forged(path, lambda flags: flags & ~ours.SORTED)
    assert hl.load_graph(path).has_sorted_lists


@pytest.mark.parametrize("flag", [128, 1 << 31])
def test_flags_that_no_writer_sets(tmp_path, flag):
    path = tmp_path / "g.hl"
    hl.save_graph(hl.from_edges(torch.tensor([0]), torch.tensor([1])), path)
    forged(path, lambda flags: flags | flag)
    with pytest.raises(FormatError, match="are not known to version 1"):
        hl.load_graph(path)


def same(one, other):
    """Whether two graphs have the same arrays and direction."""
    arrays = [(g.directed, g.indptr.tolist(), g.indices.tolist(), None if g.weights is None else g.weights.tolist())
              for g in (one, other)]  # fmt: skip
    return arrays[0] == arrays[1]


@pytest.mark.parametrize("form", ["plain", "packed"])
def test_flags_and_bits_of_our_own_files_make_no_other_graph(tmp_path, form):
    """Every flag of the header changed and summed again, and every 64th byte of the file: the same graph or an error."""
    path = tmp_path / "g.hl"
    graph = hl.graph.simplify(hl.generate("uniform", scale=5, edge_factor=4, seed=1), symmetrize=True)
    hl.save_graph(hl.compress(graph) if form == "packed" else graph, path)
    whole, graph = path.read_bytes(), hl.load_graph(path)
    for bit in range(32):
        path.write_bytes(whole)
        forged(path, lambda flags, bit=bit: flags ^ 1 << bit)
        try:
            found = hl.load_graph(path)
        except FormatError:
            continue
        found.directed = graph.directed  # an undirected graph may be read as a directed one: it has these edges
        assert same(found, graph), bit
    for at in range(0, len(whole), 64):
        content = bytearray(whole)
        content[at] ^= 1 << at // 64 % 8
        path.write_bytes(content)
        try:
            found = hl.load_graph(path)
        except FormatError:
            continue
        assert same(found, graph), at  # a byte between the sections


def npz(path, **arrays):
    np.savez(path, **arrays)
    return path


def test_npz(tmp_path):
    path = tmp_path / "g.npz"
    good = {
        "format": np.array(b"csr"),
        "shape": np.array([2, 2]),
        "indptr": np.array([0, 1, 2]),
        "indices": np.array([1, 0]),
        "data": np.ones(2),
    }
    assert hl.load_graph(npz(path, **good)).num_edges == 2
    for change, words in (
        ({"format": np.array(b"bsr")}, "a matrix in 'bsr' form"),
        ({"shape": np.array([2, 3])}, "only a square one is a graph"),
        ({"shape": np.array([2.0, 2.0])}, "a matrix has two extents"),
        ({"shape": np.array([-1, -1])}, "promises -1 vertices"),
        ({"shape": np.array([5, 5])}, "6 elements is expected"),
        ({"indptr": np.array([0, 2, 1])}, "less than"),
        ({"indptr": np.array([0, -2, 2])}, r"indptr\[1\] is -2"),
        ({"indices": np.array([1, 2])}, r"indices\[1\] is 2"),
        ({"indices": np.array([1.0, 0.0])}, "vertex numbers are integers"),
        ({"indices": np.array([1])}, "elements is expected"),
        ({"data": np.array([1.0, np.nan])}, "the weight of edge 1 is nan"),
        ({"data": np.array([np.inf, 1.0])}, "the weight of edge 0 is inf"),
        ({"data": np.ones(2, complex)}, "complex values cannot be weights"),
        ({"data": np.array([None, 1])}, "Python objects"),
        ({"data": np.array([2**63, 1], np.uint64)}, "exceeds 64-bit"),
        ({"data": np.ones((2, 1))}, "has the shape"),
    ):
        with pytest.raises(FormatError, match=words):
            hl.load_graph(npz(path, **good | change))
    del good["indices"]
    with pytest.raises(FormatError, match="has no array 'indices'"):
        hl.load_graph(npz(path, **good))
    with pytest.raises(FormatError, match="no array"):
        hl.load_graph(npz(path, x=np.ones(3)))


@pytest.mark.parametrize("compressed", [True, False])
def test_damaged_npz(tmp_path, compressed):
    path = tmp_path / "g.npz"
    sp.save_npz(path, sp.random_array((50, 50), density=0.2, format="csr"), compressed=compressed)
    whole = path.read_bytes()
    for size in (4, 50, len(whole) // 2, len(whole) - 3):
        path.write_bytes(whole[:size])
        with pytest.raises(FormatError):
            hl.load_graph(path)


@pytest.mark.parametrize(("kind", "compressed"), [("csr", False), ("csc", False), ("coo", False), ("csc", True)])
def test_no_flipped_bit_of_an_archive_makes_another_graph(tmp_path, kind, compressed):
    """As scipy, whose zipfile compares each member's CRC-32: members of more than the 4 KiB that a header's reader looks at."""
    path = tmp_path / "g.npz"
    rng = np.random.default_rng(5)
    matrix = sp.random_array((150, 150), density=0.1, format=kind, rng=rng)
    sp.save_npz(path, matrix.astype(np.int8 if compressed else np.float64), compressed=compressed)
    whole, graph = path.read_bytes(), hl.load_graph(path)
    with zipfile.ZipFile(path) as archive:
        directory = archive.start_dir
        heads = [at for info in archive.infolist() for at in range(info.header_offset, info.header_offset + 200, 9)]
    ends = range(directory, len(whole), 4)
    for at in [*heads, *ends, *rng.integers(0, directory, 50).tolist()]:
        content = bytearray(whole)
        content[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(content)
        try:
            found = hl.load_graph(path)
        except FormatError:
            continue
        assert same(found, graph), at


def test_a_pattern_whose_type_is_damage(tmp_path):
    """Weights that turned into booleans, which would be none."""
    path = tmp_path / "g.npz"
    sp.save_npz(path, sp.csr_array(np.arange(1, 26, dtype=np.int8).reshape(5, 5)), compressed=False)
    content = path.read_bytes()
    assert content.count(b"|i1") == 1
    path.write_bytes(content.replace(b"|i1", b"|b1"))
    with pytest.raises(FormatError, match="CRC-32"):
        hl.load_graph(path)


def test_large_members_are_summed_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(array_files, "COPIED_BYTES", 1000)
    path = tmp_path / "g.npz"
    matrix = sp.random_array((100, 100), density=0.3, format="csr", rng=np.random.default_rng(1))
    sp.save_npz(path, matrix, compressed=False)
    assert hl.load_graph(path).weights.tolist() == matrix.data.tolist()
    content = bytearray(path.read_bytes())
    content[content.index(matrix.data[1234].tobytes())] ^= 1
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"damaged: the checksum \(CRC-32\) of data does not match"):
        hl.load_graph(path)


def test_rows_that_are_passed_over_are_summed_too(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, rows=np.arange(4000, dtype=np.float32))
    for damage in (False, True):
        if damage:
            content = bytearray(path.read_bytes())
            content[content.index(np.float32(100).tobytes())] ^= 1
            path.write_bytes(content)
        with array_files.Archive(str(path)) as archive:
            array = archive.open("rows")
            array.skip(1000)
            assert array.take(10).tolist() == list(range(1000, 1010))
            if damage:
                with pytest.raises(FormatError, match="CRC-32"):
                    array.skip(2990)
            else:
                array.skip(2990)


def archive_with(folder, others, compression):
    """A matrix's archive in which some members are others."""
    path = folder / "g.npz"
    sp.save_npz(path, sp.csr_array(np.eye(3)))
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()} | others
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_an_array_that_is_shorter_than_its_member(tmp_path):
    member = io.BytesIO()
    np.lib.format.write_array(member, np.array([2, 2]))
    path = archive_with(tmp_path, {"shape.npy": member.getvalue() + b"more"}, zipfile.ZIP_STORED)
    with pytest.raises(FormatError, match="shape is an array of the shape .* more than it needs"):
        hl.load_graph(path)


def test_an_array_that_promises_more_than_the_archive_holds(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (1 << 40,)})
    path = archive_with(tmp_path, dict.fromkeys(("data.npy", "indices.npy"), header.getvalue()), zipfile.ZIP_DEFLATED)
    with pytest.raises(FormatError, match=r"promises 1099511627776 elements of 8 bytes .* it is truncated"):
        hl.load_graph(path)


def test_npy(tmp_path):
    path = tmp_path / "e.npy"
    for array, words in (
        (np.zeros((3, 4), int), r"edges have \[2, E\] or \[E, 2\]"),
        (np.zeros(6, int), r"has the shape \(6,\)"),
        (np.zeros((2, 3)), r"vertex numbers are integers"),
        (np.array([[0, 1, 2], [1, -5, 2]]), r"is -5, but vertex numbers"),
        (np.full((3, 2), 2**63, np.uint64), r"9223372036854775808, which is no vertex number"),
        (np.full((3, 2), 2**60), r"is 1152921504606846976, but vertex numbers"),
    ):
        np.save(path, array)
        with pytest.raises(FormatError, match=words):
            hl.load_graph(path)
    np.save(path, np.zeros((2, 500), int))
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(FormatError, match=r"promises 1000 elements .* it is truncated"):
        hl.load_graph(path)
    path.write_bytes(b"\x93NUMPY\x01\x00\x10\x00{'descr': [[[[[ ")
    with pytest.raises(FormatError, match="cannot be read"):
        hl.load_graph(path)


def test_folders_and_missing_files(tmp_path):
    with pytest.raises(StorageError, match=r"missing.mtx: cannot be read: No such file or directory; check the path"):
        hl.load_graph(tmp_path / "missing.mtx")
    with pytest.raises(StorageError, match="this folder is no OGB data set"):
        hl.load_graph(tmp_path)
    with pytest.raises(StorageError, match="no regular file"):
        hl.load_graph("/dev/null")
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "edge.csv.gz").write_bytes(gzip.compress(b"0,1\n1,7\n"))
    with pytest.raises(StorageError, match=r"num-node-list.csv.gz: cannot be read"):
        hl.load_graph(tmp_path)
    (raw / "num-node-list.csv.gz").write_bytes(gzip.compress(b"5\n"))
    with pytest.raises(FormatError, match=r"edge.csv.gz: line 2: neighbour 7 exceeds the 5 vertices"):
        hl.load_graph(tmp_path)
    (raw / "num-node-list.csv.gz").write_bytes(gzip.compress(b"5\n6\n"))
    with pytest.raises(FormatError, match="more than one graph"):
        hl.load_graph(tmp_path)


def test_options(tmp_path):
    path = tmp_path / "g.txt"
    path.write_text("0 1 300\n1 2 0.5\n")
    with pytest.raises(ConfigError, match="no format is called 'xml'"):
        hl.load_graph(path, format="xml")
    with pytest.raises(ConfigError, match="placement 'moon'"):
        hl.load_graph(path, placement="moon")
    with pytest.raises(FormatError, match=r"weight of edge 1 is 0.5, which torch.int32 cannot hold"):
        hl.load_graph(path, weight_dtype=torch.int32)
    with pytest.raises(ConfigError, match="weights are integers or real numbers"):
        hl.load_graph(path, weight_dtype=torch.complex64)
    with pytest.raises((GraphError, FormatError), match="not every edge has its reverse: .*pass symmetrize=True"):
        hl.load_graph(path, directed=False)
    graph = hl.load_graph(path)
    with pytest.raises(ConfigError, match="the ending names no format"):
        hl.save_graph(graph, tmp_path / "g.xyz")
    with pytest.raises(ConfigError, match="is read, not written"):
        hl.save_graph(graph, tmp_path / "g", format="ogb")
