"""What all formats share: options, recognition by content, writes that are whole or not there, and bounded memory."""

from __future__ import annotations

import errno
import gzip
import json
import os
import shutil
import stat
import subprocess
import sys

import numpy as np
import pytest
import torch

import hinterland as hl
from hinterland.graph import formats
from hinterland.runtime.errors import ConfigError, FormatError, HinterlandError, OutOfMemory, StorageError
from hinterland.runtime.files import refused

from ... import forked
from .samples import listed

ALL = ["hl", "mtx", "mtx.gz", "txt", "csv", "wel.gz", "gr", "wsg", "npz"]


@pytest.fixture
def graph():
    rng = np.random.default_rng(2)
    src, dst = (torch.from_numpy(rng.integers(0, 40, 200)) for _ in range(2))
    return hl.from_edges(src, dst, torch.from_numpy(rng.integers(1, 99, 200)).int(), num_vertices=41)


@pytest.mark.parametrize("ending", ALL)
def test_content_decides_where_the_ending_names_no_format(tmp_path, graph, ending):
    hl.save_graph(graph, tmp_path / f"g.{ending}")
    kind = formats.detect(tmp_path / f"g.{ending}")
    for name in ("noname", "g.bin", "g.txt", "g.txt.gz", "g.csv"):
        (tmp_path / "other").mkdir(exist_ok=True)
        path = tmp_path / "other" / name
        shutil.copy(tmp_path / f"g.{ending}", path)
        assert formats.detect(path) == kind
        assert listed(hl.load_graph(path)) == listed(graph)


@pytest.mark.parametrize("ending", [*ALL, "npy", "sg"])
def test_an_ending_that_names_a_format_decides(tmp_path, graph, ending):
    graph = graph.without_weights() if ending in ("npy", "sg") else graph
    hl.save_graph(graph, tmp_path / f"saved.{ending}")
    kind = formats.detect(tmp_path / f"saved.{ending}")
    for name in ("g.mtx", "g.mtx.gz", "g.gr", "g.GR.gz", "g.sg", "g.wsg", "g.npz", "g.npy", "g.hl", "g.bel"):
        path = tmp_path / name
        shutil.copy(tmp_path / f"saved.{ending}", path)
        if formats._by_name(name) != kind:
            with pytest.raises((FormatError, StorageError)) as error:
                hl.load_graph(path)
            if kind != "edges":  # which any text could be
                assert f"its content '{kind}'" in str(error.value)
            assert listed(hl.load_graph(path, format=kind)) == listed(graph)
        assert listed(hl.load_graph(path, format=kind)) == listed(graph)


@pytest.mark.parametrize("ending", ["mtx", "gr", "mtx.gz", "sg", "wsg", "npz", "npy", "hl"])
def test_a_damaged_start_makes_no_other_graph(tmp_path, ending):
    """Bits of what a format is known by, and a start that is missing: the same graph or an error."""
    graph = hl.from_edges(torch.tensor([0, 1, 2]), torch.tensor([1, 2, 2]))
    if ending not in ("sg", "npy"):
        # The size line of such a matrix has as many columns as its entries: it would be read as an edge.
        graph = hl.graph.Graph(graph.indptr, graph.indices, torch.ones(3, dtype=torch.int32))
    path = tmp_path / f"g.{ending}"
    hl.save_graph(graph, path)
    expected = hl.load_graph(path)
    whole = path.read_bytes()
    packed = ending.endswith("gz")
    text = gzip.decompress(whole) if packed else whole
    first = text.index(b"\n") + 1 if ending[:2] in ("mt", "gr") else 8
    starts = [text[first:]]
    for at in range(first):
        for bit in range(at % 2, 8, 2):
            content = bytearray(text)
            content[at] ^= 1 << bit
            starts.append(bytes(content))
    for content in starts:
        path.write_bytes(gzip.compress(content, 0) if packed else content)
        try:
            found = hl.load_graph(path)
        except HinterlandError:
            continue
        if ending == "gr" and found.num_vertices != expected.num_vertices:
            continue  # a digit of "p sp VERTICES ARCS", which nothing protects
        assert listed(found) == listed(expected), content[:first]


@pytest.mark.parametrize("ending", ALL)
def test_options_mean_the_same_for_every_format(tmp_path, graph, ending):
    path = tmp_path / f"g.{ending}"
    hl.save_graph(graph, path)
    for options in (
        {"symmetrize": True},
        {"remove_self_loops": True},
        {"remove_duplicates": True},
        {"symmetrize": True, "remove_self_loops": True, "remove_duplicates": True},
    ):
        expected = hl.graph.simplify(graph, **options)
        found = hl.load_graph(path, **options)
        assert listed(found) == listed(expected)
        assert found.directed == expected.directed
    floats = hl.load_graph(path, weight_dtype=torch.float64)
    assert floats.weights.dtype == torch.float64
    assert floats.weights.tolist() == graph.weights.tolist()
    placed = hl.load_graph(path, {"indptr": "pageable", "indices": "pinned"})
    assert placed.placement["indices"] == "pinned"
    assert listed(placed) == listed(graph)


def test_neighbours_are_sorted_when_asked(tmp_path):
    graph = hl.Graph(torch.tensor([0, 3, 3, 4]), torch.tensor([2, 0, 1, 0]))
    hl.save_graph(graph, tmp_path / "g.hl")
    hl.save_graph(graph, tmp_path / "g.txt")
    assert hl.load_graph(tmp_path / "g.hl").indices.tolist() == [2, 0, 1, 0]
    assert hl.load_graph(tmp_path / "g.hl", sort_neighbors=True).indices.tolist() == [0, 1, 2, 0]
    assert hl.load_graph(tmp_path / "g.txt").indices.tolist() == [0, 1, 2, 0]
    assert hl.load_graph(tmp_path / "g.txt", sort_neighbors=False).indices.tolist() == [2, 0, 1, 0]


def test_direction_is_a_claim_that_is_checked(tmp_path, graph):
    both = hl.graph.simplify(graph, symmetrize=True)
    hl.save_graph(both, tmp_path / "both.npz")  # a format that does not say
    assert hl.load_graph(tmp_path / "both.npz").directed
    assert not hl.load_graph(tmp_path / "both.npz", directed=False).directed
    hl.save_graph(both, tmp_path / "both.mtx")
    assert not hl.load_graph(tmp_path / "both.mtx").directed
    assert hl.load_graph(tmp_path / "both.mtx", directed=True).directed
    hl.save_graph(graph, tmp_path / "one.npz")
    with pytest.raises(FormatError, match="not every edge has its reverse"):
        hl.load_graph(tmp_path / "one.npz", directed=False)


@pytest.mark.gpu
def test_arrays_on_the_gpu(tmp_path, graph):
    for ending in ("hl", "txt"):
        hl.save_graph(graph, tmp_path / f"g.{ending}")
        placed = hl.load_graph(tmp_path / f"g.{ending}", {"indptr": "gpu", "indices": "host"})
        assert placed.indptr.is_cuda
        assert placed.array("indices", "cuda").tolist() == graph.indices.tolist()
        hl.save_graph(hl.load_graph(tmp_path / f"g.{ending}", "gpu"), tmp_path / "again.hl")
        assert listed(hl.load_graph(tmp_path / "again.hl")) == listed(graph)


def test_a_file_appears_whole_or_not_at_all(tmp_path, graph, monkeypatch):
    """The system refuses the write in the middle: what was there stays, and nothing is left beside it."""
    path = tmp_path / "g.mtx"
    path.write_text("before")

    def broken(*_, **__):
        yield b"1 2 3\n"
        raise KeyboardInterrupt

    monkeypatch.setattr(formats.mtx, "edge_text", broken)
    with pytest.raises(KeyboardInterrupt):
        hl.save_graph(graph, path)
    assert os.listdir(tmp_path) == ["g.mtx"]
    assert path.read_text() == "before"


_WRITE_TO_A_FULL_DISK = """
import resource, signal, sys, torch
import hinterland as hl
from hinterland.runtime.errors import StorageError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
ends = torch.arange(200000) % 5000
graph = hl.from_edges(ends, ends.flip(0), torch.arange(200000, dtype=torch.int32))
resource.setrlimit(resource.RLIMIT_FSIZE, (200000, 200000))
for ending in sys.argv[2:]:
    try:
        hl.save_graph(graph, f"{sys.argv[1]}/g.{ending}")
    except StorageError as error:
        print(error)
    else:
        print("written", ending)
"""


def test_a_full_disk_leaves_nothing(tmp_path):
    endings = ["hl", "mtx", "txt", "txt.gz", "gr", "wsg", "bel", "npz"]
    ran = forked.run("-c", _WRITE_TO_A_FULL_DISK, tmp_path, *endings, check=True)
    lines = ran.stdout.splitlines()
    assert len(lines) == len(endings), ran.stderr
    for line, ending in zip(lines, endings, strict=True):
        assert line.startswith(f"{tmp_path}/g.{ending}"), line
        assert "cannot be written" in line and ".part" not in line
        assert "free space or write elsewhere; nothing was left under this name" in line
    assert os.listdir(tmp_path) == []


def test_a_full_file_system_leaves_nothing(tmp_path):
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", tmp_path]).returncode:
        pytest.skip("needs the right to mount a small file system")
    try:
        ends = torch.arange(50000)
        graph = hl.from_edges(ends, ends.flip(0))
        for ending in ("hl", "mtx", "npz", "sg"):
            with pytest.raises(StorageError, match="No space left on device"):
                hl.save_graph(graph, tmp_path / f"g.{ending}")
            assert os.listdir(tmp_path) == []
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_places_that_cannot_be_written(tmp_path, graph):
    with pytest.raises(StorageError, match="cannot be written: No such file or directory"):
        hl.save_graph(graph, tmp_path / "missing" / "g.hl")
    (tmp_path / "folder.hl").mkdir()
    for name in (tmp_path / "folder.hl", "/dev/full"):
        with pytest.raises(ConfigError, match="is no regular file"):
            hl.save_graph(graph, name, format="hl")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_links_and_permissions_are_kept(tmp_path, graph):
    (tmp_path / "real.hl").touch(0o640)
    (tmp_path / "link.hl").symlink_to("real.hl")
    mask = os.umask(0o077)
    try:
        hl.save_graph(graph, tmp_path / "link.hl")
        hl.save_graph(graph, tmp_path / "new.hl")
    finally:
        os.umask(mask)
    assert (tmp_path / "link.hl").is_symlink()
    assert listed(hl.load_graph(tmp_path / "real.hl")) == listed(graph)
    assert stat.S_IMODE((tmp_path / "real.hl").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "new.hl").stat().st_mode) == 0o600


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EIO])
def test_refusals_in_words(code):
    error = refused("g.hl", "written", OSError(code, os.strerror(code)))
    assert str(error).startswith("g.hl: cannot be written: ")
    assert ";" in str(error)


# The largest resident size since the program began; getrusage's counts the process that started this one, too.
_PEAK = """
import json, sys
import hinterland as hl
from hinterland import _core
_core.set_num_threads(2)
def peak():
    lines = open("/proc/self/status").read().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
hl.load_graph(sys.argv[2], "pageable")
before = peak()
graph = hl.load_graph(sys.argv[1], "pageable", **json.loads(sys.argv[3]))
after = peak()
print(graph.num_edges, graph.nbytes, after - before)
"""


def peak_of(path, **options) -> tuple[int, int, int]:
    """A graph's edges, its bytes, and how many bytes more than before a process held while it read the graph from ``path``."""
    (path.parent / "small.txt").write_text("0 1\n" * 100)
    # Not forked: such a process has yet to map what it shares of libraries' files, which would count as held.
    command = [sys.executable, "-c", _PEAK, path, path.parent / "small.txt", json.dumps(options)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    found, graph_bytes, peak = map(int, ran.stdout.split())
    return found, graph_bytes, peak


@pytest.mark.unsanitized
@pytest.mark.parametrize("ending", ["hl", "npy"])
def test_memory_is_bounded_by_the_output(tmp_path, ending):
    """Ours: the graph and little else. An edge array: the edges as a list, too."""
    rng = np.random.default_rng(4)
    edges = 3_000_000
    src, dst = (torch.from_numpy(rng.integers(0, 200_000, edges, dtype=np.int32)) for _ in range(2))
    hl.save_graph(hl.from_edges(src, dst, num_vertices=200_000), tmp_path / f"g.{ending}")
    found, graph_bytes, peak = peak_of(tmp_path / f"g.{ending}")
    assert found == edges
    buffers = 64 << 20  # of 64 threads that read binary files, 1 MiB each
    most = {"hl": graph_bytes + buffers, "npy": graph_bytes + 8 * edges + buffers}
    assert peak < most[ending] + (24 << 20)  # and the allocator's arenas


def edge_text(edges: int, vertices: int, weighted: bool) -> bytes:
    """Random edges in random order, in columns of seven digits."""
    rng = np.random.default_rng(4)
    columns = rng.integers(1, vertices, (edges, 3 if weighted else 2), dtype=np.int32)
    text = np.full((*columns.shape, 8), ord(" "), np.uint8)
    for i in range(7):
        text[:, :, i] = columns // 10 ** (6 - i) % 10 + ord("0")
    text[:, -1, 7] = ord("\n")
    return text.tobytes()


@pytest.mark.unsanitized  # the sanitizer keeps memory that was given back, and more beside it
@pytest.mark.parametrize(
    ("kind", "weighted", "symmetrize"),
    [
        ("txt", False, True), ("txt.gz", False, True), ("mtx", True, False), ("gr", True, True),
        pytest.param("txt", False, False, marks=pytest.mark.nightly),
        pytest.param("txt", True, True, marks=pytest.mark.nightly),
    ],
)  # fmt: skip
def test_text_takes_half_as_much_again_as_the_graph(tmp_path, kind, weighted, symmetrize):
    edges, vertices = (2_500_000 if symmetrize else 5_000_000), 200_000
    text = edge_text(edges, vertices, weighted)
    if kind == "mtx":
        text = b"%%%%MatrixMarket matrix coordinate integer general\n%d %d %d\n" % (vertices, vertices, edges) + text
    if kind == "gr":
        lines = np.frombuffer(text, np.uint8).reshape(edges, -1)
        tag = np.broadcast_to(np.frombuffer(b"a ", np.uint8), (edges, 2))
        text = b"p sp %d %d\n" % (vertices, edges) + np.concatenate([tag, lines], axis=1).tobytes()
    path = tmp_path / f"g.{kind}"
    path.write_bytes(gzip.compress(text, 1) if kind.endswith(".gz") else text)
    found, held, peak = peak_of(path, symmetrize=symmetrize)
    assert found >= edges
    assert peak < 1.5 * held + (6 << 20), f"{peak / held:.2f} times the graph"  # a thread's stack, and scratch memory


def test_the_memory_that_a_text_needs_is_what_it_is_refused_by(tmp_path, monkeypatch):
    edges, vertices = 1_000_000, 50_000
    (tmp_path / "g.txt").write_bytes(edge_text(edges, vertices, False))
    held = hl.memory.report().nbytes
    output = 4 * edges + 8 * (vertices + 1)
    monkeypatch.setenv("HINTERLAND_HOST_MEMORY", str(held + 3 * output // 2 + (2 << 20)))  # and a block's edges
    assert hl.load_graph(tmp_path / "g.txt").num_edges == edges
    monkeypatch.setenv("HINTERLAND_HOST_MEMORY", str(held + output // 2))
    with pytest.raises(OutOfMemory, match=r"g.txt: .*of host memory asked for"):
        hl.load_graph(tmp_path / "g.txt")


@pytest.mark.parametrize("ending", ["hl", "txt", "mtx.gz", "gr", "wsg", "npz", "bel"])
def test_any_file_name_will_do(tmp_path, graph, ending):
    path = os.fsencode(tmp_path) + b"/caf\xe9." + ending.encode()
    hl.save_graph(graph, path)
    assert hl.load_graph(path).num_edges == graph.num_edges
    assert hl.load_graph(os.fsdecode(path)).num_edges == graph.num_edges


def test_errors_name_files_whose_names_are_no_utf8(tmp_path):
    path = os.fsencode(tmp_path) + b"/caf\xe9.txt"
    with open(path, "w") as file:
        file.write("0 x\n")
    with pytest.raises(FormatError) as raised:
        hl.load_graph(path)
    assert str(raised.value).startswith(f"{os.fsdecode(path)}: line 1:")


@pytest.mark.parametrize("ending", ["mtx", "txt", "gr", "wsg", "bel"])
def test_weights_that_would_turn_negative_are_refused(tmp_path, ending):
    weights = torch.tensor([5, 2**63 + 1], dtype=torch.uint64)
    graph = hl.Graph(torch.tensor([0, 1, 2]), torch.tensor([1, 0]), weights)
    with pytest.raises(ConfigError, match=str(2**63 + 1)):
        hl.save_graph(graph, tmp_path / f"g.{ending}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", ["hl", "mtx", "txt", "npz", "bel"])
def test_infinite_weights_are_refused_when_written_not_only_when_read(tmp_path, ending):
    graph = hl.Graph(torch.tensor([0, 1, 2]), torch.tensor([1, 0]), torch.tensor([5.0, float("inf")]))
    with pytest.raises(ConfigError, match="edge 1 is inf"):
        hl.save_graph(graph, tmp_path / f"g.{ending}")
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_the_system_refuses(tmp_path, graph):
    with pytest.raises(StorageError, match="too long"):
        hl.save_graph(graph, tmp_path / ("x" * 300 + ".hl"))


@pytest.mark.parametrize("dtype", ["float32", torch.float8_e4m3fn, torch.qint8])
def test_types_that_no_weight_can_have(tmp_path, graph, dtype):
    hl.save_graph(graph, tmp_path / "g.hl")
    with pytest.raises(ConfigError, match="weight_dtype"):
        hl.load_graph(tmp_path / "g.hl", weight_dtype=dtype)
