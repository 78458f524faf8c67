"""Graphs whose edges and weights stay on a disk: what loading looks at, what memory keeps, and what a disk can do wrong."""

import gc
import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import hinterland as hl
from hinterland.graph import arrays
from hinterland.graph.algorithms import state_bytes
from hinterland.graph.device_graph import DeviceGraph, all_through
from hinterland.graph.formats import hl as format_hl
from hinterland.graph.lists import NeighborLists
from hinterland.machine.model import Disk
from hinterland.runtime.errors import ConfigError, FormatError, GraphError, OutOfMemory, StorageError, VerificationError
from hinterland.storage import roofline
from hinterland.storage.on_device import Queues
from hinterland.table import StorageArray
from hinterland_papers.bam.elements import read_elements

from .cases import RECORDS, array, verified
from .stored import SET, on_storage

CPU = {"device": "cpu"}
RUNS = {name: lambda graph, how=CPU, one=one: array(one, graph, **how) for name, one in RECORDS.items()}
VERIFIERS = {name: lambda graph, how=CPU, one=one: verified(one, graph, **how) for name, one in RECORDS.items()}


@pytest.fixture(scope="module")
def graph() -> hl.Graph:
    return hl.random_weights(hl.generate("kronecker", scale=12, seed=3), "int32", seed=5)


@pytest.fixture
def file(graph: hl.Graph, tmp_path: Path) -> Path:
    hl.save_graph(graph, tmp_path / "g.hl")
    return tmp_path / "g.hl"


def section(path: Path, name: str) -> int:
    """Where an array begins."""
    header = format_hl.read_header(str(path))
    return dict(zip([array[0] for array in header.arrays()], header.sections(), strict=False))[name][0]


def test_what_it_says(graph: hl.Graph, file: Path) -> None:
    stored = hl.load_graph(file, "storage", host_budget="1MiB")
    assert stored.placement == {"indptr": stored.placement["indptr"], "indices": "storage", "weights": "storage"}
    assert stored.placement["indptr"] != "storage"
    assert (stored.num_vertices, stored.num_edges, stored.nbytes) == (graph.num_vertices, graph.num_edges, graph.nbytes)
    assert (stored.directed, stored.has_sorted_lists, stored.weight_type) == (False, True, torch.int32)
    assert "storage" in repr(stored)
    for mine, given in ((stored.indices, graph.indices), (stored.weights, graph.weights), (stored.indptr, graph.indptr)):
        assert torch.equal(mine, given)
    assert stored.weight_range == graph.weight_range
    assert torch.equal(stored.array("indices"), graph.indices)


@pytest.mark.parametrize("placement", ["storage", {"indices": "storage", "weights": "pageable"}, {"weights": "storage"}])
@pytest.mark.parametrize("name", RUNS)
def test_results_are_those_of_host_memory(graph: hl.Graph, tmp_path: Path, name: str, placement) -> None:
    stored = on_storage(graph, tmp_path / "g.hl", 64 << 10, 4096, placement)
    torch.testing.assert_close(RUNS[name](stored), RUNS[name](graph), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float32, torch.float64])
@pytest.mark.parametrize("line_bytes", [512, 65536])
def test_weights_of_every_type(graph: hl.Graph, tmp_path: Path, dtype: torch.dtype, line_bytes: int) -> None:
    graph = graph.with_weights(hl.UnifiedTensor.from_tensor(graph.weights.to(dtype)))
    stored = on_storage(graph, tmp_path / "g.hl", 20 * line_bytes, line_bytes)
    for run in (RUNS["sssp"], RUNS["sswp"]):
        assert torch.equal(run(stored), run(graph))


def test_a_directed_graph(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(1)
    graph = hl.from_edges(*torch.randint(500, (2, 4000), generator=generator))
    stored = on_storage(graph, tmp_path / "g.hl", 4 * SET)
    for name in (name for name, one in RECORDS.items() if not one.incoming_only and one.weights != "needed"):
        torch.testing.assert_close(RUNS[name](stored), RUNS[name](graph))
    with pytest.raises(ConfigError, match=r"the file of this directed graph has none; .* or graph.transpose\(\) builds them"):
        hl.pagerank(stored, device="cpu")
    stored.transpose()
    torch.testing.assert_close(hl.pagerank(stored, device="cpu").scores, hl.pagerank(graph, device="cpu").scores)
    assert torch.equal(RUNS["bfs"](stored), RUNS["bfs"](graph))


@pytest.mark.parametrize("make", [lambda g: hl.reorder(g, "rcm"), hl.compress, lambda g: hl.compress(g, reorder="degree")])
def test_every_form_of_a_file(graph: hl.Graph, tmp_path: Path, make) -> None:
    stored = on_storage(make(graph), tmp_path / "g.hl", 64 << 10, 4096)
    assert stored.neighbor_lists.stored.caches
    for name, run in RUNS.items():
        torch.testing.assert_close(run(stored), run(graph), rtol=1e-5, atol=1e-9, msg=name)


def test_what_needs_whole_arrays_reads_them(graph: hl.Graph, file: Path, tmp_path: Path) -> None:
    stored = hl.load_graph(file, "storage", host_budget="1MiB")
    with pytest.warns(UserWarning, match=r"KiB of .*g\.hl are read into host memory, since this needs all of it at once"):
        assert torch.equal(hl.reorder(stored, "degree").indices, hl.reorder(graph, "degree").indices)
    assert torch.equal(hl.compress(stored).array("packed"), hl.compress(graph).array("packed"))


@pytest.mark.parametrize("make", [lambda g: g, hl.compress], ids=["plain", "compressed"])
@pytest.mark.parametrize("line_bytes", [512, 4096])
def test_verifiers_go_through_lists_where_they_lie(
    graph: hl.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make, line_bytes: int
) -> None:
    stored = on_storage(make(graph), tmp_path / "g.hl", 10 * 8 * (line_bytes + 64), line_bytes)
    assert stored.weight_range  # which is looked at once
    monkeypatch.setattr(StorageArray, "read_into", None)
    for check in VERIFIERS.values():
        check(stored)
    monkeypatch.undo()
    found = hl.sssp(stored, 5, device="cpu")
    wrong = found.distances.clone()
    wrong[wrong.argmax()] += 1000
    with pytest.raises(VerificationError, match=r"rule 3: edge \d+ -> \d+ \(position \d+\) of weight \d+ leads from distance"):
        hl.graph.verify_sssp(stored, 5, replace(found, distances=wrong))
    levels = hl.bfs(stored, 5, device="cpu")
    levels.levels[levels.levels == levels.levels.max()] = -1
    levels.parents[levels.levels == -1] = -1
    with pytest.raises(VerificationError, match=r"rule 4: edge \d+ -> \d+ \(position \d+\) leads from level"):
        hl.graph.verify_bfs(stored, 5, levels)


def test_verifiers_of_a_file_that_is_cut(graph: hl.Graph, file: Path) -> None:
    stored = hl.load_graph(file, "storage", host_budget="64KiB")
    results = hl.bfs(stored, 5, device="cpu"), hl.connected_components(stored, device="cpu")
    os.truncate(file, section(file, "indices") + 8192)
    for verify in (
        lambda: hl.graph.verify_bfs(stored, 5, results[0]),
        lambda: hl.graph.verify_components(stored, results[1]),
    ):
        with pytest.raises(StorageError, match="shorter than when it was opened"):
            verify()


def test_saving_goes_a_piece_at_a_time(graph: hl.Graph, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "STORED_BYTES", 4096)
    stored = hl.load_graph(file, "storage", host_budget="64KiB")
    hl.save_graph(stored, tmp_path / "again.hl")
    assert (tmp_path / "again.hl").read_bytes() == file.read_bytes()
    with file.open("r+b") as opened:
        opened.seek(section(file, "indices") + 4 * 5000)
        opened.write((1 << 30).to_bytes(4, "little"))
    with pytest.raises(GraphError, match=r"indices\[5000\] is 1073741824"):
        hl.save_graph(stored, tmp_path / "again.hl")


def test_several_files_share_a_cache(graph: hl.Graph, file: Path, tmp_path: Path) -> None:
    hl.save_graph(hl.compress(graph), tmp_path / "h.hl")
    cache = hl.StorageCache("256KiB")
    both = [hl.load_graph(path, "storage", cache=cache) for path in (file, tmp_path / "h.hl")]
    assert all(one.neighbor_lists.stored.caches == [cache] for one in both)
    for name, run in RUNS.items():
        for one in both:
            torch.testing.assert_close(run(one), run(graph), rtol=1e-5, atol=1e-9, msg=name)
    for options in ({"host_budget": "1MiB", "placement": "storage"}, {"placement": "host"}):
        with pytest.raises(ConfigError, match="leave out host_budget"):
            hl.load_graph(file, cache=cache, **options)
    with pytest.raises(ConfigError, match="cache"):
        hl.load_graph(file, "storage", cache="1MiB")


def test_the_budget_is_kept(graph: hl.Graph, file: Path) -> None:
    stored = hl.load_graph(file, "storage", host_budget="100KiB")
    [cache] = stored.neighbor_lists.stored.caches
    assert cache.native.bytes == 100 << 10
    assert cache.native.num_slots * (cache.line_bytes + 12) <= 100 << 10
    stats = hl.bfs(stored, 5, device="cpu", stats=True).stats
    assert stats["storage"]["bytes"] == stats["tiers"]["storage"]["bytes"] > 0
    assert stats["storage"]["requests"] * cache.line_bytes >= stats["storage"]["bytes"]
    assert stats["storage"]["cpu_us_per_request"] > 0 and stats["storage"]["misses"] > 0
    whole = hl.load_graph(file, "storage", host_budget="16MiB")
    hl.connected_components(whole, "all-lists", device="cpu")
    again = hl.connected_components(whole, "all-lists", device="cpu", stats=True).stats
    assert (again["storage"]["bytes"], again["storage"]["misses"]) == (0, 0) and again["storage"]["hits"] > 0
    counted = hl.connected_components(graph, "all-lists", device="cpu", stats=True).stats
    assert [level["tiers"]["storage"]["hits"] for level in again["per_level"]] == [
        level["tiers"]["host"]["hits"] for level in counted["per_level"]
    ]
    assert counted["storage"] is None and "storage" not in counted["tiers"]


def test_queues_are_as_deep_as_the_disk_needs(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = hl.load_graph(file, "storage", host_budget="1GiB")
    [array, *_] = stored.neighbor_lists.stored
    disk = Disk(str(file), True, 1e12, 1e12, {1: 5e4, 64: 230e3, 700: 250e3})
    for known, queues in ((disk, (16, 64)), (replace(disk, path="/proc"), (32, 256)), (None, (32, 256))):
        monkeypatch.setattr(roofline, "load", lambda known=known: known and SimpleNamespace(disk=known))
        assert array.cache.on_devices.queues(array, 1 << 30) == Queues(*queues)


def test_all_that_reads_a_file_shares_what_a_device_has_of_it(graph: hl.Graph, file: Path) -> None:
    """Two preparations and a kernel, each line once: by words that stay where they are when the file is written to."""
    stored, device = hl.load_graph(file, "storage", cache=hl.StorageCache("1MiB")), torch.device("cpu")
    views = [DeviceGraph(stored.neighbor_lists, device) for _ in range(2)]
    for view in views:
        view.read_on_device(1 << 20)
    indices = arrays.file_of(stored.neighbor_lists.arrays["indices"])
    [through] = all_through(views)  # weights lie in the same file
    whole = graph.array("indices")
    words = [indices.cache.on_devices.words(indices, device) for _ in views]
    reads = []
    for one in words:
        with through.live():
            found, _ = read_elements(one, len(indices), indices.dtype, device, None, len(indices))
        assert torch.equal(found, whole)
        reads.append(through.stats().reads)
    copied = torch.empty_like(whole)
    copy = "__global__ void copy(array<const int> x, int* out) { for (int i = 0; i < x.size(); ++i) out[i] = x[i]; }"
    hl.kernel(copy)(indices, copied, grid=1, block=1)
    assert torch.equal(copied, whole) and reads == [through.stats().reads] * 2 and reads[0] >= whole.nbytes // 4096
    assert views[0].held == views[1].held == 0 < through.nbytes <= 1 << 20
    assert indices.cache.on_devices.words(indices, device, 8 << 20).store == words[0].store  # with the size that it has
    with StorageArray.open(file, "r+", dtype=torch.int32, shape=(1,), offset=section(file, "indices")) as other:
        other[0] = torch.tensor(7, dtype=torch.int32)
    with through.live():
        found, _ = read_elements(words[0], len(indices), indices.dtype, device, None, 10)
    assert found.tolist() == [7, *whole[1:10].tolist()]


def test_options_that_cannot_be_used(file: Path, graph: hl.Graph, tmp_path: Path) -> None:
    for options, found in (
        ({"host_budget": "1MiB"}, "host_budget='1MiB' bounds the pages of a graph on storage; give placement='storage'"),
        ({"placement": "storage", "host_budget": "much"}, "much"),
        ({"placement": {"indptr": "storage"}}, "offsets are read all the time and stay in memory"),
        ({"placement": "storage", "symmetrize": True}, "symmetrize makes another graph of the file"),
        ({"placement": "storage", "weight_dtype": torch.float32}, "weight_dtype makes another graph of the file"),
    ):
        with pytest.raises(ConfigError, match=found):
            hl.load_graph(file, **options)
    with pytest.raises(OutOfMemory, match="a cache of 1000 bytes holds no set of 8 lines"):
        hl.load_graph(file, "storage", host_budget=1000)
    with pytest.raises(ConfigError, match=r"save the graph with save_graph\(graph, 'x.hl'\)"):
        hl.Graph(graph.indptr, graph.indices, placement="storage")
    hl.save_graph(graph.without_weights(), tmp_path / "g.sg")
    with pytest.raises(ConfigError, match=r"make one with: hinterland convert .*/g\.sg .*/g\.hl"):
        hl.load_graph(tmp_path / "g.sg", "storage")


def test_damage(graph: hl.Graph, file: Path) -> None:
    """A neighbour that is no vertex is found by who reads it; offsets are looked at as the file is opened."""
    at = section(file, "indices") + 4 * int(graph.indptr[5])
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write((1 << 30).to_bytes(4, "little"))
    stored = hl.load_graph(file, "storage", host_budget="1MiB")
    for name, run in RUNS.items():
        with pytest.raises(GraphError, match="the neighbour list of vertex 5 is broken"):
            run(stored), name
    with pytest.raises(FormatError, match="the checksum of indices does not match"):
        hl.load_graph(file)
    with file.open("r+b") as opened:
        opened.seek(section(file, "indptr") + 8)
        opened.write(b"\xff")
    with pytest.raises(FormatError, match="the checksum of indptr does not match"):
        hl.load_graph(file, "storage")


def test_a_weight_that_is_no_number(graph: hl.Graph, tmp_path: Path) -> None:
    graph = graph.with_weights(hl.UnifiedTensor.from_tensor(graph.weights.float()))
    hl.save_graph(graph, tmp_path / "g.hl")
    with (tmp_path / "g.hl").open("r+b") as opened:
        opened.seek(section(tmp_path / "g.hl", "weights") + 4 * 77)
        opened.write(b"\0\0\xc0\x7f")
    with pytest.raises(GraphError, match=r"weights\[77\] is NaN"):
        hl.sssp(hl.load_graph(tmp_path / "g.hl", "storage"), 5, device="cpu")


@pytest.mark.parametrize("name", RUNS)
def test_a_file_that_is_cut_while_it_is_open(graph: hl.Graph, file: Path, name: str) -> None:
    content = file.read_bytes()
    stored = hl.load_graph(file, "storage", host_budget="64KiB")
    if RECORDS[name].weights == "needed":
        assert stored.weight_range  # which is looked at once
    os.truncate(file, section(file, "indices") + 8192)
    for _ in range(2):
        with pytest.raises(StorageError, match="shorter than when it was opened"):
            RUNS[name](stored)
    file.write_bytes(content)  # the same file, which is whole again
    torch.testing.assert_close(RUNS[name](stored), RUNS[name](graph), rtol=1e-5, atol=1e-9)


def test_runs_in_two_threads(graph: hl.Graph, tmp_path: Path) -> None:
    stored = on_storage(graph, tmp_path / "g.hl", 4 * SET)
    expected = {name: run(graph) for name, run in RUNS.items()}
    wrong: list[BaseException] = []

    def go(names: list[str]) -> None:
        try:
            for name in names:
                torch.testing.assert_close(RUNS[name](stored), expected[name], rtol=1e-5, atol=1e-9)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=go, args=(names,)) for names in (list(RUNS), list(RUNS)[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_files_are_closed_with_their_graph(file: Path) -> None:
    def opened() -> int:
        return sum(os.path.realpath(f"/proc/self/fd/{fd}") == str(file.resolve()) for fd in os.listdir("/proc/self/fd"))

    stored = hl.load_graph(file, "storage", host_budget="1MiB")
    hl.bfs(stored, 5, device="cpu")
    assert opened() > 0
    del stored
    gc.collect()
    assert opened() == 0


def test_opening_reads_offsets_alone(tmp_path: Path) -> None:
    graph = hl.generate("kronecker", scale=14, edge_factor=64)
    hl.save_graph(graph, tmp_path / "g.hl")
    began = time.perf_counter()
    stored = hl.load_graph(tmp_path / "g.hl", "storage", host_budget="1MiB")
    assert time.perf_counter() - began < 1  # 0.01 where the machine does nothing else
    assert stored.neighbor_lists.stored.caches[0].stats().reads == 0


def same(found: torch.Tensor, wanted: torch.Tensor, name: str) -> None:
    torch.testing.assert_close(found.cpu(), wanted.cpu(), rtol=1e-5, atol=1e-9, msg=name)


@pytest.mark.gpu
@pytest.mark.parametrize("placement", ["storage", {"indices": "storage", "weights": "host"}, {"weights": "storage"}])
@pytest.mark.parametrize("line_bytes", [512, 16384])
def test_a_gpu_finds_the_same(graph: hl.Graph, tmp_path: Path, placement, line_bytes: int) -> None:
    """With room for all lines, and with one set of them."""
    stored = [
        on_storage(graph, tmp_path / f"{budget}.hl", 8 * (line_bytes + 64), line_bytes, placement, device_budget=budget)
        for budget in (None, 16 * (line_bytes + 64) + (64 << 10))
    ]
    for name, run in RUNS.items():
        wanted = run(graph)
        for one in stored:
            same(run(one, {"device": "cuda"}), wanted, name)
            same(run(one, {"device": "cuda", "gpu_budget": state_bytes(name, one) + 4096}), wanted, name)


@pytest.mark.gpu
def test_every_form_of_a_file_on_a_gpu(graph: hl.Graph, tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(1)
    directed = hl.random_weights(hl.from_edges(*torch.randint(500, (2, 4000), generator=generator)), "float32", seed=1)
    forms = {"rcm": hl.reorder(graph, "rcm"), "compressed": hl.compress(graph), "directed": directed}
    for form, made in forms.items():
        stored = on_storage(made, tmp_path / f"{form}.hl", 64 << 10, 4096)
        stored.transpose()  # in host memory
        for name, run in RUNS.items():
            same(run(stored, {"device": "cuda"}), run(made), f"{name} {form}")


@pytest.mark.gpu
def test_what_a_gpu_has_read_stays_in_its_memory(graph: hl.Graph, file: Path) -> None:
    stored = hl.load_graph(file, "storage", host_budget="8MiB")
    before = torch.cuda.memory_allocated()
    with hl.prepare(stored, device="cuda", algorithms="cc") as prepared:
        [through] = prepared.through
        assert torch.cuda.memory_allocated() - before <= prepared.held + through.nbytes
        first, again = (hl.connected_components(prepared, "all-lists", stats=True) for _ in range(2))
        same(first.labels, RUNS["cc"](graph), "cc")
        read = first.stats["storage"]
        assert read["bytes"] >= stored.array("indices").nbytes and read["requests"] == read["misses"] > 0
        assert read["cpu_us_per_request"] > 0 and first.stats["tiers"]["storage"]["bytes"] == read["bytes"]
        assert again.stats["storage"]["requests"] == 0 < again.stats["storage"]["hits"]
    alone = hl.connected_components(stored, "all-lists", stats=True, device="cuda").stats["storage"]  # prepared for one run
    assert alone["requests"] == 0 and alone["kept_bytes"] == through.nbytes > 0
    assert hl.bfs(stored, 5, device="cuda", gpu_budget="64KiB").levels.is_cpu  # no room: the CPU does it


@pytest.mark.gpu
def test_what_is_wrong_ends_a_gpu_s_run(graph: hl.Graph, file: Path) -> None:
    content = file.read_bytes()
    stored = hl.load_graph(file, "storage", host_budget="1MiB")
    assert stored.weight_range  # which is looked at once
    with hl.prepare(stored, device="cuda", algorithms="sssp", weighted=True) as prepared:
        os.truncate(file, section(file, "indices") + 8192)
        with pytest.raises(StorageError, match="could not be read"):
            hl.sssp(prepared, 5)
        file.write_bytes(content)  # the same file, which is whole again
        same(hl.sssp(prepared, 5).distances, RUNS["sssp"](graph), "sssp")
    with file.open("r+b") as opened:
        opened.seek(section(file, "indices") + 4 * int(graph.indptr[5]))
        opened.write((1 << 30).to_bytes(4, "little"))
    with pytest.raises(GraphError, match="the neighbour list of vertex 5 is broken"):
        hl.bfs(hl.load_graph(file, "storage", host_budget="1MiB"), 5, device="cuda")


@pytest.mark.gpu
def test_a_file_without_its_name(graph: hl.Graph, file: Path) -> None:
    stored = hl.load_graph(file, "storage", host_budget="1MiB")
    file.unlink()
    same(RUNS["bfs"](stored, {"device": "cuda"}), RUNS["bfs"](graph), "bfs")


def test_copies_of_a_file(graph: hl.Graph, tmp_path: Path) -> None:
    """Pages come from both; from the other where one is too short by now, which is said; strangers are no copies."""
    files = [tmp_path / f"{i}.hl" for i in range(2)]
    for path in files:
        hl.save_graph(graph, path)
    stored = hl.load_graph(files, placement="storage", host_budget="128KiB")
    for name in ("bfs", "sssp", "cc"):
        assert torch.equal(RUNS[name](stored), RUNS[name](graph))
    os.truncate(files[1], 100_000)
    with pytest.warns(UserWarning, match=rf"cannot read {files[1]} at offset .*another copy is read"):
        assert torch.equal(RUNS["cc"](stored), RUNS["cc"](graph))
    assert torch.equal(stored.indices, graph.indices) and torch.equal(RUNS["sssp"](stored), RUNS["sssp"](graph))
    hl.save_graph(hl.random_weights(graph, "int32", seed=6), files[1])
    with pytest.raises(ConfigError, match=r"1\.hl is no copy of .*0\.hl"):
        hl.load_graph(files, placement="storage")
    with pytest.raises(ConfigError, match="unless placement='storage'; name one"):
        hl.load_graph(files)
    with pytest.raises(ConfigError, match="empty list of files"):
        hl.load_graph([], placement="storage")


def test_copies_with_lists_of_in_neighbours(tmp_path: Path) -> None:
    """These come from both as well, and whoever reads them hears of one that fails."""
    graph = hl.generate("web", scale=12, edge_factor=8, directed=True)
    files = [tmp_path / f"{i}.hl" for i in range(2)]
    for path in files:
        hl.save_graph(graph, path, transpose=True)
    stored = hl.load_graph(files, placement="storage", host_budget="128KiB")
    both = (stored, stored.known_transpose)
    assert {
        array.volume.paths for one in both for array in one.neighbor_lists.arrays.values() if isinstance(array, StorageArray)
    } == {tuple(map(str, files))}
    os.truncate(files[1], section(files[0], "in_indices"))
    scores = RUNS["pagerank"](graph)
    with pytest.warns(UserWarning, match=rf"cannot read {files[1]} at offset .*another copy is read"):
        torch.testing.assert_close(RUNS["pagerank"](stored), scores)
    sampler = hl.sampling.NeighborSampler(stored.known_transpose, [5, 5], device="cpu", seed=1)
    plain = hl.sampling.NeighborSampler(graph.transpose(), [5, 5], device="cpu", seed=1)
    assert torch.equal(sampler.sample([5, 9, 11]).node, plain.sample([5, 9, 11]).node)


@pytest.mark.parametrize("spread", ["copies", "files"])
def test_a_graph_of_several_files(graph: hl.Graph, tmp_path: Path, device: torch.device, spread: str) -> None:
    """Copies, and weights in another file than neighbours: a GPU's cache has pages of all."""
    files = [tmp_path / f"{i}.hl" for i in range(2)]
    for path in files:
        hl.save_graph(graph, path)
    stored = hl.load_graph(files if spread == "copies" else files[0], placement="storage", host_budget="2MiB")
    if spread == "files":
        other = hl.load_graph(files[1], placement="storage", host_budget="2MiB").neighbor_lists.arrays["weights"]
        lists = NeighborLists({**stored.neighbor_lists.arrays, "weights": other}, True)
        stored = hl.Graph.of(lists, stored.directed)
    for name in ("bfs", "sssp", "cc"):
        torch.testing.assert_close(RUNS[name](stored, {"device": device}).cpu(), RUNS[name](graph))
