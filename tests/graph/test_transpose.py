"""Lists of in-neighbours that are built a part at a time, written into .hl files, and read in place."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import hinterland as hl
from hinterland.graph.formats import hl as format_hl
from hinterland.graph.lists import NeighborLists
from hinterland.graph.transpose import Turned
from hinterland.runtime.checksums import checksums
from hinterland.runtime.errors import ConfigError, FormatError, GraphError
from hinterland.table import StorageArray

from .stored import SET, on_storage

VERTICES = 300
TYPES = (None, torch.uint8, torch.int16, torch.bfloat16, torch.int32, torch.float32, torch.int64, torch.float64)


def directed(dtype: torch.dtype | None = torch.int32) -> hl.Graph:
    """With a hub that many lists name, parallel edges in no order of their weights, and vertices without any."""
    random = torch.Generator().manual_seed(1)
    src, dst = (torch.rand((2, 4000), generator=random) ** 3 * VERTICES).long()
    dst[::3] = 11
    weights = None if dtype is None else torch.randint(0, 100, (len(src),), generator=random).to(dtype)
    return hl.from_edges(src, dst, weights, num_vertices=VERTICES, sort_neighbors=False)


def joined(turned: Turned) -> dict[str, torch.Tensor]:
    parts = [{name: array.clone() for name, array in part.items()} for part in turned.parts()]
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("budget", [0, 3000, 1 << 20])
def test_parts_are_those_of_the_transpose(tmp_path: Path, dtype: torch.dtype | None, budget: int) -> None:
    graph = directed(dtype)
    wanted = graph.transpose()
    for lists in (graph.neighbor_lists, on_storage(graph, tmp_path / "g.hl", 3 * SET).neighbor_lists):
        turned = Turned(lists, budget)
        assert torch.equal(turned.offsets, wanted.indptr)
        found = joined(turned)
        assert torch.equal(found["indices"], wanted.indices)
        assert set(found) == {"indices"} | ({"weights"} if dtype is not None else set())
        if dtype is not None:
            assert torch.equal(found["weights"], wanted.weights)


def test_wide_neighbours() -> None:
    graph = directed()
    wide = NeighborLists({"indptr": graph.indptr, "indices": graph.indices.long(), "weights": graph.weights})
    found = joined(Turned(wide, 4096))
    assert found["indices"].dtype == torch.int64 and torch.equal(found["indices"], graph.transpose().indices.long())


def test_a_neighbour_that_is_no_vertex() -> None:
    graph = directed()
    graph.indices[17] = VERTICES
    with pytest.raises(GraphError, match=r"indices\[17\] is no vertex"):
        Turned(graph.neighbor_lists, 1 << 20)


FORMS = {
    "plain": lambda g: g,
    "reordered": lambda g: hl.reorder(g, "degree"),
    "compressed": hl.compress,
    "compressed, reordered": lambda g: hl.compress(g, reorder="rcm"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [None, torch.float32], ids=str)
def test_a_file_that_carries_them(tmp_path: Path, form: str, dtype: torch.dtype | None) -> None:
    graph, path = FORMS[form](directed(dtype)), tmp_path / "g.hl"
    wanted = graph.transpose()
    hl.save_graph(graph, path, transpose=True, host_budget=5000)
    header = format_hl.read_header(str(path))
    assert header.version == 3 and all(at % 4096 == 0 for at, _ in header.sections())
    for placement in ("host", "storage"):
        loaded = hl.load_graph(path, placement)
        turned = loaded.known_transpose
        assert turned is not None and loaded.transpose() is turned and turned.known_transpose is loaded
        assert set(turned.placement.values()) & {"storage"} == ({"storage"} if placement == "storage" else set())
        for one, other in ((loaded, graph), (turned, wanted)):
            assert (one.is_compressed, one.directed) == (graph.is_compressed, True)
            assert one.has_sorted_lists == other.has_sorted_lists
            for name in ("indptr", "indices", "weights"):
                held, given = one.array(name), other.array(name)
                assert (held is None) == (given is None) and (held is None or torch.equal(held, given)), name
            assert (one.order is None) == (other.order is None) and (one.order is None or torch.equal(one.order, other.order))
        assert hl.load_graph(path, placement, transpose=False).known_transpose is None
    assert torch.equal(StorageArray.open(path, name="in_indptr")[:], wanted.indptr)
    hl.save_graph(hl.load_graph(path, "storage", host_budget="64KiB"), tmp_path / "again.hl", transpose=True)
    assert (tmp_path / "again.hl").read_bytes() == path.read_bytes()
    hl.save_graph(hl.load_graph(path), tmp_path / "without.hl")
    hl.save_graph(graph, tmp_path / "other.hl")
    assert (tmp_path / "without.hl").read_bytes() == (tmp_path / "other.hl").read_bytes()


def test_what_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is built, and nothing read past the cache."""
    graph = directed(None)
    hl.save_graph(graph, tmp_path / "g.hl", transpose=True)
    stored = hl.load_graph(tmp_path / "g.hl", "storage", host_budget="32KiB")
    wanted = hl.pagerank(graph, device="cpu"), hl.bfs(graph, 3, device="cpu")
    monkeypatch.setattr(StorageArray, "read_into", None)
    monkeypatch.setattr("hinterland.graph.graph.transposed", None)
    ranked, found = hl.pagerank(stored, device="cpu", stats=True), hl.bfs(stored, 3, device="cpu", stats=True)
    torch.testing.assert_close(ranked.scores, wanted[0].scores)
    assert torch.equal(found.levels, wanted[1].levels) and torch.equal(found.parents, wanted[1].parents)
    assert ranked.stats["storage"]["bytes"] > graph.array("indices").nbytes
    assert any(level["direction"] == "pull" for level in found.stats["per_level"])
    with hl.prepare(stored, device="cpu", algorithms="bfs") as prepared:
        assert prepared.incoming is not None and "convert" not in prepared.explain()


def test_a_file_without_them_says_how_to_get_some(tmp_path: Path) -> None:
    graph = directed(None)
    stored = on_storage(graph, tmp_path / "g.hl", 4 * SET)
    remedy = "hinterland convert IN.hl OUT.hl --placement storage writes lists of in-neighbours into a file"
    with pytest.raises(ConfigError, match=remedy):
        hl.pagerank(stored, device="cpu")
    with hl.prepare(stored, device="cpu", algorithms="bfs") as prepared:
        assert remedy in prepared.explain()


def test_damage(tmp_path: Path) -> None:
    path = tmp_path / "g.hl"
    hl.save_graph(directed(), path, transpose=True)
    header = format_hl.read_header(str(path))
    places = dict(zip([array[0] for array in header.arrays()], header.sections(), strict=False))
    whole = path.read_bytes()
    for name in ("indices", "in_indptr", "in_indices", "in_weights"):
        damaged = bytearray(whole)
        damaged[places[name][0] + 40] ^= 1
        path.write_bytes(damaged)
        for look in (hl.load_graph, lambda p: format_hl.check(str(p))):
            with pytest.raises(FormatError, match=f"the checksum of {name} does not match"):
                look(path)
    for flags in (32, 34):  # in-neighbours of an undirected graph
        page = bytearray(whole)
        page[12] = flags
        found = checksums(torch.frombuffer(page[:4088], dtype=torch.uint8))
        page[4088:4096] = found.numpy().tobytes()
        path.write_bytes(page)
        with pytest.raises(FormatError, match="are not known to version"):
            hl.load_graph(path)


def test_lists_that_are_others(tmp_path: Path) -> None:
    """As from another writer: checksums are right, but what was turned round is another graph."""
    graph, other = directed(None), directed(None)
    other.indices[5] = (other.indices[5] + 1) % 5
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(format_hl, "Turned", lambda lists, budget: Turned(other.neighbor_lists, budget))
        hl.save_graph(graph, tmp_path / "g.hl", transpose=True)
    with pytest.raises(FormatError, match="the lists of in-neighbours do not hold the graph's edges turned round"):
        hl.load_graph(tmp_path / "g.hl")


def test_who_has_none(tmp_path: Path) -> None:
    undirected = hl.generate("kronecker", scale=6, seed=1)
    hl.save_graph(undirected, tmp_path / "u.hl", transpose=True)
    hl.save_graph(undirected, tmp_path / "v.hl")
    assert (tmp_path / "u.hl").read_bytes() == (tmp_path / "v.hl").read_bytes()
    with pytest.raises(ConfigError, match=r"only \.hl holds lists of in-neighbours"):
        hl.save_graph(directed(), tmp_path / "g.wsg", transpose=True)
    empty = hl.from_edges(torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64), num_vertices=4)
    hl.save_graph(empty, tmp_path / "e.hl", transpose=True)
    for placement in ("host", "storage"):
        turned = hl.load_graph(tmp_path / "e.hl", placement).known_transpose
        assert turned is not None and turned.num_edges == 0 and turned.num_vertices == 4


@pytest.mark.gpu
@pytest.mark.parametrize("form", FORMS)
def test_a_gpu_reads_both_through_one_cache(tmp_path: Path, form: str) -> None:
    graph = FORMS[form](directed(torch.int32))
    hl.save_graph(graph, tmp_path / "g.hl", transpose=True)
    stored = hl.load_graph(tmp_path / "g.hl", "storage", host_budget="4MiB")
    assert hl.load_graph(tmp_path / "g.hl").known_transpose is not None
    for algorithm in ("bfs", "pagerank", "cc", "msbfs"):
        with hl.prepare(stored, device="cuda", algorithms=algorithm) as prepared:
            assert len(prepared.through) == 1 and prepared.incoming is not prepared.out
    torch.testing.assert_close(hl.pagerank(stored, device="cuda").scores.cpu(), hl.pagerank(graph, device="cpu").scores)
    wanted = hl.bfs(graph, 3, device="cpu")
    found = hl.bfs(stored, 3, device="cuda")
    assert torch.equal(found.levels.cpu(), wanted.levels) and torch.equal(found.parents.cpu(), wanted.parents)
    labels = hl.connected_components(stored, device="cuda").labels.cpu()
    assert torch.equal(labels, hl.connected_components(graph, device="cpu").labels)
