"""Samplers of graphs whose edges lie on a disk: the same samples as from memory, and no more memory than the budget."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

import hinterland as hl
from hinterland.graph.formats import hl as format_hl
from hinterland.graph.prepare import ResidentGraph
from hinterland.graph.traversal import csr_type
from hinterland.graph.traversal import on_storage as on_storage_type
from hinterland.runtime import jit
from hinterland.runtime.errors import GraphError, StorageError
from hinterland.sampling import (
    Adjacency,
    HeteroSampler,
    NeighborSampler,
    PinSAGESampler,
    batch,
    negative_edges,
    negatives,
    pinsage_neighbors,
    random_walks,
)
from hinterland.table import StorageArray

from ..graph.stored import SET, on_storage

VERTICES, LONG = 600, 3000  # a list of LONG neighbours is drawn from by trials
SEEDS = [3, 0, 7, 599, 7, 41]


@pytest.fixture(scope="module")
def graph() -> hl.Graph:
    """Directed, with parallel edges, empty lists, a hub, and a third of its weights 0."""
    random = torch.Generator().manual_seed(1)
    ends = (torch.rand((2, 9000), generator=random) ** 3 * VERTICES).long()
    hub = torch.stack([torch.full((LONG,), 7), torch.arange(LONG) % (VERTICES - 9)])
    src, dst = torch.cat([ends, hub], dim=1)
    weights = (torch.rand(len(src), generator=random) * 12 - 4).clamp(min=0)
    return hl.from_edges(src, dst, weights, num_vertices=VERTICES)


@pytest.fixture(autouse=True)
def nothing_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """But weights, once, a piece at a time, for the largest."""

    def refuse(self: StorageArray, out: torch.Tensor, begin: int = 0) -> None:
        assert out.dtype.is_floating_point, f"{len(out)} elements of {self.path} are read past the cache"
        read(self, out, begin)

    read = StorageArray.read_into
    monkeypatch.setattr(StorageArray, "read_into", refuse)


def forms(graph: hl.Graph) -> dict[str, hl.Graph]:
    return {"plain": graph, "compressed": hl.compress(graph), "reordered": hl.reorder(graph, "degree")}


def times_of(graph: hl.Graph) -> torch.Tensor:
    return torch.arange(graph.num_vertices) * 31 % 50


def edge_times_of(graph: hl.Graph) -> torch.Tensor:
    return torch.arange(graph.num_edges) * 17 % 50


def neighbors(graph: hl.Graph | ResidentGraph, fanouts=(4, 3, 2), device="cpu", **options):
    device = None if isinstance(graph, ResidentGraph) else device
    of = graph.graph if isinstance(graph, ResidentGraph) else graph
    given = {"seed_times": [25] * len(SEEDS)} if options.get("edge_times") else {}
    made = {"times": times_of, "edge_times": edge_times_of}
    options = {name: made[name](of) if name in made else value for name, value in options.items()}
    sample = NeighborSampler(graph, fanouts, seed=7, device=device, **options).sample(SEEDS, batch=3, **given)
    return sample.node, sample.row, sample.col, sample.edge


def pinsage(graph: hl.Graph | ResidentGraph, device="cpu"):
    device = None if isinstance(graph, ResidentGraph) else device
    found = PinSAGESampler(graph, [5, 3], walks=9, length=3, restart=0.2, weighted=True, seed=4, device=device).sample(SEEDS)
    return found.node, found.row, found.col, found.weight


def walks(graph: hl.Graph | ResidentGraph, device="cpu", **options):
    device = None if isinstance(graph, ResidentGraph) else device
    return (random_walks(graph, list(range(0, VERTICES, 7)), 9, seed=5, device=device, **options),)


def pairs(graph: hl.Graph | ResidentGraph, device="cpu", **options):
    device = None if isinstance(graph, ResidentGraph) else device
    return (negative_edges(graph, 300, seed=2, device=device, **options),)


SAMPLERS = {
    "uniform": neighbors,
    "replace": lambda g, **d: neighbors(g, replace=True, **d),
    "whole lists": lambda g, **d: neighbors(g, (-1, 2), **d),
    "weighted": lambda g, **d: neighbors(g, weighted=True, **d),
    "weighted, replace": lambda g, **d: neighbors(g, weighted=True, replace=True, **d),
    "weighted, whole lists": lambda g, **d: neighbors(g, (2, -1), weighted=True, **d),
    "temporal": lambda g, **d: neighbors(g, times=True, **d),
    "temporal edges, weighted": lambda g, **d: neighbors(g, edge_times=True, weighted=True, **d),
    "last": lambda g, **d: neighbors(g, times=True, temporal_strategy="last", **d),
    "window of edges": lambda g, **d: neighbors(g, edge_times=True, time_window=9, **d),
    "walks": walks,
    "weighted walks": lambda g, **d: walks(g, weighted=True, restart=0.2, **d),
    "pinsage": pinsage,
    "pinsage neighbours": lambda g, **d: pinsage_neighbors(g, SEEDS, seed=1, device=d.get("device", "cpu")),
    "negatives": pairs,
    "negatives of sources": lambda g, **d: (
        negative_edges(g, 40, positives=torch.tensor([SEEDS, SEEDS]), **{"device": "cpu", **d}),
    ),
}


def same(found, wanted, name: str) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert torch.equal(one.cpu(), other.cpu()), name


@pytest.mark.parametrize("placement", ["storage", {"weights": "storage"}, {"indices": "storage"}], ids=str)
@pytest.mark.parametrize("form", ["plain", "compressed", "reordered"])
def test_samples_are_those_of_memory(graph: hl.Graph, tmp_path: Path, form: str, placement, set_threads) -> None:
    """Whatever room there is for pages: one set of lines, or a part of the edges."""
    made = forms(graph)[form]
    stored = on_storage(made, tmp_path / "g.hl", SET, placement=placement)
    roomy = on_storage(made, tmp_path / "h.hl", 10 * SET, 1024, placement=placement)
    for name, sample in SAMPLERS.items():
        wanted = sample(made)
        for count, held in ((3, stored), (1, roomy), (2, roomy)):
            set_threads(count)
            same(sample(held), wanted, f"{name}, {count} threads")
    assert stored.neighbor_lists.stored.caches[0].stats().bytes_read > 0


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("form", ["plain", "compressed"])
def test_what_a_gpu_s_kernels_read(graph: hl.Graph, tmp_path: Path, form: str, name: str, lanes, walk_lanes) -> None:
    """A warp of 32 emulated lanes, through a cache of their own and queues that threads serve."""
    made = forms(graph)[form]
    wanted = SAMPLERS[name](made)
    stored = on_storage(made, tmp_path / "g.hl", 4 * SET)
    with hl.prepare(stored, device="cpu", algorithms="sampling", weighted=True) as prepared:
        prepared.out.read_on_device(64 << 10)
        [through] = prepared.through
        lanes()
        walk_lanes()
        with through.live():
            same(SAMPLERS[name](prepared), wanted, name)
        assert through.stats().reads > 0
    assert stored.neighbor_lists.stored.caches[0].stats().reads == 0


def relations(graph: hl.Graph, cites: hl.Graph):
    return {
        ("author", "writes", "paper"): Adjacency.of(graph, VERTICES, VERTICES),
        ("paper", "cites", "paper"): cites,
    }


def hetero(graphs, device="cpu", **options):
    sampler = HeteroSampler(graphs, [4, 2], seed=3, device=device, **options)
    found = sampler.sample({"paper": SEEDS, "author": [1, 2]}, batch=1)
    return [*found.node.values(), *found.row.values(), *found.col.values(), *found.edge.values()]


@pytest.mark.parametrize("which", [(0, 1), (0,), (1,)], ids=str)
def test_several_types(graph: hl.Graph, tmp_path: Path, which: tuple[int, ...]) -> None:
    """Of several relations some may lie on storage."""
    cites = hl.generate("kronecker", scale=9, edge_factor=8, seed=2)
    cites = hl.from_edges(torch.arange(512).repeat_interleave(cites.degrees()), cites.indices.long(), num_vertices=VERTICES)
    stored = [on_storage(g, tmp_path / f"{i}.hl", 4 * SET) if i in which else g for i, g in enumerate((graph, cites))]
    for options in ({}, {"weighted": True}, {"disjoint": True}):
        same(hetero(relations(*stored), **options), hetero(relations(graph, cites), **options), str(options))


def test_a_sample_reads_the_pages_that_it_names(tmp_path: Path) -> None:
    """Of a graph sixty times as large as the budget, which is never held: each page once in a hop."""
    large = hl.generate("uniform", scale=14, edge_factor=64, seed=1)
    stored = on_storage(large, tmp_path / "g.hl", 128 << 10, 512)
    [cache] = stored.neighbor_lists.stored.caches
    assert stored.nbytes > 60 * cache.host_budget > cache.native.num_slots * cache.line_bytes
    sampler = NeighborSampler(stored, [10, 5], seed=1, device="cpu")
    for number in range(3):
        before = cache.stats().reads
        sample = sampler.sample(torch.arange(50) * 7, batch=number)
        hops = (4 * sample.edge // 512).split(sample.num_sampled_edges)
        named = sum(len(pages.unique()) for pages in hops)
        assert named / 2 < cache.stats().reads - before < 1.2 * named


def test_a_file_that_is_cut_while_it_is_open(graph: hl.Graph, tmp_path: Path) -> None:
    path = tmp_path / "g.hl"
    stored = on_storage(graph, path, 8 * SET)
    assert stored.weight_range  # which is looked at once
    content = path.read_bytes()
    os.truncate(path, 16384)
    for name, sample in SAMPLERS.items():
        for _ in range(2):
            with pytest.raises(StorageError, match="shorter than when it was opened"):
                sample(stored), name
    path.write_bytes(content)  # the same file, which is whole again
    for name, sample in SAMPLERS.items():
        same(sample(stored), sample(graph), name)


def test_a_neighbour_that_is_no_vertex(graph: hl.Graph, tmp_path: Path) -> None:
    path = tmp_path / "g.hl"
    hl.save_graph(graph, path)
    header = format_hl.read_header(str(path))
    sections = dict(zip([array[0] for array in header.arrays()], header.sections(), strict=False))
    with path.open("r+b") as opened:
        begin = int(graph.indptr[3])
        opened.seek(sections["indices"][0] + 4 * begin)
        opened.write((1 << 30).to_bytes(4, "little") * (int(graph.indptr[4]) - begin))
    stored = hl.load_graph(path, "storage", host_budget="1MiB")
    for name in ("uniform", "weighted, whole lists", "walks"):
        with pytest.raises(GraphError, match="the neighbour list of vertex 3 is broken"):
            SAMPLERS[name](stored)


@pytest.mark.parametrize("form", ["plain", "compressed", "reordered"])
def test_scores_of_hotness(graph: hl.Graph, tmp_path: Path, form: str) -> None:
    made = forms(graph)[form]
    stored = on_storage(made, tmp_path / "g.hl", 8 * SET)
    scores = {
        "degree": lambda g: hl.hotness.degree(g, device="cpu"),
        "reverse PageRank": lambda g: hl.hotness.reverse_pagerank(g, device="cpu"),
        "inclusion": lambda g: hl.hotness.inclusion_probability(g, SEEDS, [3, 2], 2, device="cpu"),
        "presample": lambda g: hl.hotness.presample(NeighborSampler(g, [3, 2], device="cpu"), SEEDS, 2),
    }
    for name, score in scores.items():
        torch.testing.assert_close(score(stored), score(made), msg=name)


@pytest.mark.parametrize(
    ("file", "instance"),
    [(batch.KERNELS, "sample_kernel<{}, false>"), (negatives.KERNELS, "negatives_kernel<{}>")],
    ids=["sample", "negatives"],
)
def test_kernels_of_lists_there_compile(file: jit.KernelFile, instance: str) -> None:
    """They are no instances that are built ahead."""
    pytest.importorskip("cuda.core")
    instance = instance.format(csr_type(4, family=on_storage_type()))
    assert instance not in file.instances
    mapping, cubin, _ = jit._compile(file, "sm_90", (instance,))
    assert set(mapping) == {instance} and cubin


@pytest.mark.gpu
@pytest.mark.parametrize("form", ["plain", "compressed", "reordered"])
def test_a_gpu_samples_the_same(graph: hl.Graph, tmp_path: Path, form: str) -> None:
    made = forms(graph)[form]
    stored = on_storage(made, tmp_path / "g.hl", 64 << 10, 4096)
    for name, sample in SAMPLERS.items():
        same(sample(stored, device="cuda"), sample(made), name)
    torch.testing.assert_close(hl.hotness.degree(stored, device="cuda").cpu(), hl.hotness.degree(made, device="cpu"))


@pytest.mark.gpu
def test_a_gpu_samples_several_types(graph: hl.Graph, tmp_path: Path) -> None:
    cites = hl.generate("uniform", scale=9, edge_factor=8, seed=2)
    cites = hl.from_edges(torch.arange(512).repeat_interleave(cites.degrees()), cites.indices.long(), num_vertices=VERTICES)
    stored = on_storage(graph, tmp_path / "g.hl", 64 << 10, 4096), on_storage(cites, tmp_path / "c.hl", 64 << 10, 4096)
    wanted = hetero(relations(graph, cites))
    same(hetero(relations(*stored), device="cuda"), wanted, "both on storage")
    same(hetero(relations(stored[0], cites), device="cuda"), wanted, "one on storage")


@pytest.mark.gpu
def test_a_loader_on_a_gpu(graph: hl.Graph, tmp_path: Path) -> None:
    """Sampling waits for the disk in a thread of its own, beside the one that takes batches."""
    stored = on_storage(graph, tmp_path / "g.hl", 64 << 10, 4096)
    features = hl.UnifiedTensor.from_tensor(torch.randn(VERTICES, 16))
    loaders = [
        hl.training.Loader(NeighborSampler(g, [4, 3], seed=1, device="cuda"), torch.arange(200), 32, features=features)
        for g in (stored, graph)
    ]
    for one, other in zip(*loaders, strict=True):
        assert torch.equal(one.x, other.x) and torch.equal(one.sample.edge, other.sample.edge)
