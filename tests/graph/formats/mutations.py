"""Files that are almost right: valid graphs of every format, damaged where it hurts.

Byte flips alone seldom get past a checksum or a compressor, so damage is done to the parts (a header's field, a member of an
archive, the text inside a gzip file) and the file is put together again around it.
"""

from __future__ import annotations

import gzip
import io
import random
import shutil
import struct
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch

import hinterland as hl
from hinterland.graph.formats import FORMATS
from hinterland.graph.formats import hl as ours
from hinterland.runtime.checksums import checksums
from hinterland.runtime.errors import HinterlandError
from hinterland.storage.layout import locate

_POWERS = (16, 27, 31, 32, 47, 48, 53, 62, 63)
_NUMBERS = [sign * n for sign in (1, -1) for n in (0, 1, 2, 3, 7, 255, *(2**bits - 1 for bits in _POWERS), 2**31, 2**62)]
_TOKENS = rb"nan inf -1 0 1e400 99999999999999999999 4294967296 0.1 +5 , % c".split()
_TOKENS += [b"\0", b"\n", b"\r", b"\t", b" ", b"\xff", b"# Nodes: 999999999999", b"p sp 4 4\n", b"a 1 2 3\n"]
_TOKENS += [b'"', b";", b"|", b"% bip\n", b"# GMT x\n", b"graph [", b"BZh91AY&SY", b"\xff\xfe"]
_TOKENS += [b"%%MatrixMarket matrix coordinate real symmetric\n"]
_TEXTS = (
    b"# Nodes: 5 Edges: 4\n0 1 2.5\n1 2 3\n3 4 -1e3\n4 0 7\n",
    b"src,dst\n0,1\n1,2\n",
    b"%%MatrixMarket matrix coordinate integer symmetric\n% c\n4 4 3\n1 1 5\n3 2 -6\n4 1 7\n",
    b"%%MatrixMarket matrix coordinate real skew-symmetric\n3 3 2\n2 1 0.5\n3 2 1e-3\n",
    b"%%MatrixMarket matrix coordinate pattern general\n3 3 2\n2 1\n1 3\n",
    b"c hello\np sp 4 3\na 1 2 3\na 2 3 4\nc x\na 4 1 0\n",
    b"% bip positive\n% 3 2 2\n1 1 4 1000\n1 2 5 1001\n2 1 1 1002\n",
    b"% METIS\n3 2 011 1\n9 2 5\n9 1 5 3 6\n9 2 6\n",
    b'"From","To";n\n"a; ""b""";c;2\nc;d e;3\n',
    b"source|target\nalice|bob\nbob|99999999999999999999\n",
)


def damage(content: bytes, rng: random.Random) -> bytes:
    """A few random changes: bits, numbers of 4 and 8 bytes, tokens, cuts and repeats."""
    data = bytearray(content)
    for _ in range(rng.choice((0, 0, 0, 1, 1, 1, 2, 8))):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(7)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at : at + 8] = struct.pack("<q", rng.choice(_NUMBERS))
        elif kind == 2:
            data[at : at + 4] = struct.pack("<q", rng.choice(_NUMBERS))[:4]
        elif kind == 3:
            data[at:at] = rng.choice(_TOKENS)
        elif kind == 4:
            data[at : at + rng.randrange(1, 12)] = rng.choice(_TOKENS)
        elif kind == 5:
            del data[at : at + rng.choice((1, 4, 8, len(data)))]
        else:
            data[at:at] = data[max(0, at - rng.randrange(1, 40)) : at] * rng.choice((1, 1, 2, 50))
    return bytes(data)


def _some(rng: random.Random, count: int, largest: int = 5) -> list[int]:
    values = [rng.randrange(largest) for _ in range(count)]
    if count and rng.random() < 0.3:
        values[rng.randrange(count)] = rng.choice(_NUMBERS)
    return values


def _array(rng: random.Random, count: int, largest: int = 5) -> np.ndarray:
    dtype = rng.choice(["<i8", "<i8", "<i4", ">i8", "<u8", "<f8", "|b1", "<c16", "|S3", "<M8[s]", "|u1", "<f2"])
    values = np.array(_some(rng, count, largest), object)
    if dtype[1] in "iub":
        values = np.array([int(v) & 127 if np.dtype(dtype).itemsize == 1 else v for v in values], object)
    try:
        with np.errstate(all="ignore"):
            return values.astype(np.int64).astype(dtype)
    except (OverflowError, ValueError, TypeError):
        return np.zeros(count, "<i8")


def _npy(array: np.ndarray, rng: random.Random) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, array, allow_pickle=False)
    content = out.getvalue()
    return damage(content[:128], rng) + content[128:] if rng.random() < 0.3 else content


def text(rng: random.Random) -> bytes:
    content = damage(rng.choice(_TEXTS), rng)
    return damage(gzip.compress(content, 1), rng) if rng.random() < 0.2 else content


def gap(rng: random.Random) -> bytes:
    n, m, weighted, directed = rng.randrange(6), rng.randrange(8), rng.randrange(2), rng.randrange(2)
    offsets = [0, *sorted(rng.randrange(m + 1) for _ in range(max(n - 1, 0))), m][: n + 1]
    part = np.array(_clip(offsets, 63), "<i8").tobytes() + np.array(_clip(_some(rng, m * (1 + weighted)), 31), "<i4").tobytes()
    return damage(struct.pack("<Bqq", directed, m, n) + part * (1 + directed), rng)


def _clip(values: list[int], bits: int) -> list[int]:
    return [max(-(2**bits), min(2**bits - 1, value)) for value in values]


def own(rng: random.Random) -> bytes:
    """An .hl file whose header's checksum is right, whatever the header says."""
    n, m = rng.randrange(5), rng.randrange(6)
    types = (torch.int64, rng.choice([torch.int32, torch.int64]), rng.choice([torch.float32, torch.float64, torch.int8]))
    weighted = rng.random() < 0.5
    offsets = torch.tensor([0, *sorted(rng.randrange(m + 1) for _ in range(max(n - 1, 0))), m][: n + 1])
    arrays = [offsets, torch.tensor(_clip(_some(rng, m), 31)).to(types[1]), torch.rand(m).to(types[2])][: 2 + weighted]
    if rng.random() < 0.3:
        arrays[0][rng.randrange(n + 1)] = rng.choice(_NUMBERS)
    incoming = rng.random() < 0.3
    if incoming:  # of the same offsets, so that some are what they should be
        arrays += [offsets, *(array.roll(rng.randrange(2)) for array in arrays[1:])]
    named = rng.random() < 0.3
    flags = rng.randrange(4) | 4 * weighted | (ours.DIRECTED | ours.TRANSPOSED) * incoming | ours.NAMED * named
    header = ours.HlHeader(flags, n, m, types[: 2 + weighted])
    if named:
        names = rng.choice(
            [torch.arange(n), torch.arange(n).to(torch.uint64), torch.tensor([*b"a\nb\nc\xc3\xa4"], dtype=torch.uint8)]
        )
        header.names, header.names_bytes = names.dtype, names.nbytes
        arrays.append(names)
    *places, (at, _) = header.sections()
    body = bytearray(at - 4096)
    sums = []
    for number, (array, (start, size)) in enumerate(zip(arrays, places, strict=True)):
        body[start - 4096 : start - 4096 + size] = array.view(torch.uint8).numpy().tobytes() if size else b""
        sums.append(checksums(array, number << 48))
    forged = rng.choice([(n, m), (n, m), (rng.choice(_NUMBERS), m), (n, rng.choice(_NUMBERS))])
    header.vertices, header.edges = forged
    content = header.pack() + bytes(body) + torch.cat(sums).numpy().tobytes()
    return damage(content, rng) if rng.random() < 0.3 else content


def archive(rng: random.Random) -> bytes:
    n, m = rng.randrange(6), rng.randrange(8)
    kind = rng.choice([b"csr", b"csc", b"coo", b"bsr"])
    prefix = rng.choice(["", "", "adj_"])
    offsets = np.array([0, *sorted(rng.randrange(m + 1) for _ in range(max(n - 1, 0))), m][: n + 1])
    members = {prefix + "shape": np.array([n, n]), prefix + "data": _array(rng, m)}
    if kind == b"coo":
        members |= {"row": _array(rng, m), "col": _array(rng, m)}
    else:
        members |= {
            prefix + "indptr": offsets if rng.random() < 0.7 else _array(rng, n + 1, m + 1),
            prefix + "indices": _array(rng, m),
        }
    if not prefix:
        members["format"] = np.array(kind)
    if rng.random() < 0.2:
        members = {
            "edge_index": np.array(_clip(_some(rng, 2 * m), 63)).reshape(2, m),
            "num_nodes_list": np.array(_some(rng, 1)),
        }
    if rng.random() < 0.1:
        del members[rng.choice(list(members))]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as file:
        for name, array in members.items():
            file.writestr(name + ".npy", _npy(array, rng))
    return damage(out.getvalue(), rng) if rng.random() < 0.3 else out.getvalue()


def edge_array(rng: random.Random) -> bytes:
    m = rng.randrange(8)
    array = _array(rng, 2 * m)
    array = array.reshape(rng.choice([(2, m), (m, 2)]))
    return damage(_npy(np.asfortranarray(array) if rng.random() < 0.3 else array, rng), rng)


def scipy_archive(rng: random.Random) -> bytes:
    out = io.BytesIO()
    sp.save_npz(
        out, sp.random_array((9, 9), density=0.2, format=rng.choice(["csr", "csc", "coo"])), compressed=rng.random() < 0.5
    )
    return damage(out.getvalue(), rng)


MAKERS = (text, text, text, gap, own, archive, edge_array, scipy_archive)
_NAMES = ("g", "g.mtx", "g.gr", "g.sg", "g.wsg", "g.npz", "g.npy", "g.hl", "g.csv", "g.graph")


def write(folder: Path, rng: random.Random) -> Path:
    """Makes one damaged graph in the empty ``folder``; returns what to load."""
    kind = rng.random()
    if kind < 0.1:  # EMOGI's three files
        n, m = rng.randrange(5), rng.randrange(6)
        offsets = [0, *sorted(rng.randrange(m + 1) for _ in range(max(n - 1, 0))), m][: n + 1]
        parts = {"col": (n + 1, offsets, "<i8"), "dst": (m, _clip(_some(rng, m), 63), "<i8"), "val": (m, [7] * m, "<i4")}
        for name, (count, values, dtype) in parts.items():
            if name != "val" or rng.random() < 0.5:
                content = struct.pack("<qq", count, 0) + np.array(values, dtype).tobytes()
                (folder / f"g.bel.{name}").write_bytes(damage(content, rng) if rng.random() < 0.4 else content)
        return folder / "g.bel"
    if kind < 0.2:  # OGB
        (folder / "raw").mkdir()
        (folder / "raw" / "edge.csv.gz").write_bytes(gzip.compress(damage(b"0,1\n1,2\n3,0\n", rng), 1))
        (folder / "raw" / "num-node-list.csv.gz").write_bytes(gzip.compress(damage(b"4\n", rng), 1))
        return folder
    maker = rng.choice(MAKERS)
    # Half of them under a name that leaves it to the content, the rest under any: most are refused for that alone.
    path = folder / rng.choice(("g", "g.csv", *rng.choices(_NAMES, k=2)))
    path.write_bytes(maker(rng))
    return path


def load(path: Path, rng: random.Random) -> None:
    """Loads with random options, and locates as a table. Nothing but the library's own exceptions may come of it."""
    for name in (None, "weights"):
        with suppress(HinterlandError):
            locate(path, name=name)
    with suppress(HinterlandError):
        stays = hl.load_graph(path, "storage", host_budget="32KiB")
        if stays.num_vertices:
            hl.bfs(stays, 0, device="cpu")
            hl.sampling.NeighborSampler(stays, [2, 1], device="cpu").sample([0])
            hl.pagerank(stays, max_iterations=2, device="cpu")
    options = {name: rng.random() < 0.2 for name in ("symmetrize", "remove_self_loops", "remove_duplicates")}
    options |= {
        "directed": rng.choice([None, None, True, False]),
        "sort_neighbors": rng.choice([None, None, True, False]),
        "weight_dtype": rng.choice([None, None, torch.float32, torch.int32]),
        "ids": rng.choice([None, None, "any"]),
        "format": rng.choice([None] * 80 + [*FORMATS, "npy[2,E]", "npy[E,2]"]),
    }
    try:
        graph = hl.load_graph(path, "pageable", **options)
    except HinterlandError as error:
        assert str(error), "an error without a sentence"
        return
    indptr, indices = graph.indptr, graph.indices
    assert int(indptr[0]) == 0 and int(indptr[-1]) == graph.num_edges and bool((indptr.diff() >= 0).all())
    assert graph.labels is None or len(graph.labels) == graph.num_vertices
    assert graph.num_edges == 0 or (int(indices.min()) >= 0 and int(indices.max()) < graph.num_vertices)


def empty(folder: Path) -> None:
    """Removes what ``write`` made."""
    shutil.rmtree(folder)
    folder.mkdir()
