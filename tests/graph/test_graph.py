"""The Graph class: what it takes, what it refuses, what it gives back."""

from __future__ import annotations

import copy
import gc
import io
import multiprocessing
import pickle
import weakref

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland import Graph
from hinterland.graph import arrays, from_edges, simplify
from hinterland.memory import cuda
from hinterland.runtime import devices
from hinterland.runtime.errors import ConfigError, DeviceError, GraphError, StorageError
from hinterland.table import UnifiedTensor

from .. import forked


def small(**options) -> Graph:
    return Graph(torch.tensor([0, 2, 2, 3]), torch.tensor([1, 2, 0]), torch.tensor([0.5, 1.5, 2.5]), **options)


def test_shape_and_views():
    graph = small()
    assert (graph.num_vertices, graph.num_edges, graph.directed) == (3, 3, True)
    assert graph.degrees().tolist() == [2, 0, 1]
    assert graph.indptr.dtype == torch.int64
    assert graph.indices.dtype == torch.int32
    assert graph.nbytes == 4 * 8 + 3 * 4 + 3 * 4
    assert graph.indices.data_ptr() == graph.array("indices").data_ptr()
    assert Graph(graph.indptr, graph.indices).weights is None
    assert Graph(graph.indptr, graph.indices).array("weights") is None
    assert "3 vertices, 3 stored edges, directed" in repr(graph)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64])
def test_any_integer_type_is_kept_as_the_right_one(dtype):
    graph = Graph(torch.tensor([0, 1, 2], dtype=dtype), torch.tensor([1, 0], dtype=dtype))
    assert (graph.indptr.dtype, graph.indices.dtype) == (torch.int64, torch.int32)
    assert (graph.indptr.tolist(), graph.indices.tolist()) == ([0, 1, 2], [1, 0])


def test_neighbors_widen_only_past_two_to_the_31():
    assert arrays.index_dtype(2**31 - 1) == torch.int32
    assert arrays.index_dtype(2**31) == torch.int64


def test_a_unified_tensor_of_the_right_type_is_not_copied():
    indptr = UnifiedTensor.from_tensor(torch.tensor([0, 1, 2]), placement="pageable")
    indices = UnifiedTensor.from_tensor(torch.tensor([1, 0], dtype=torch.int32), placement="pageable")
    wide = UnifiedTensor.from_tensor(torch.tensor([1, 0]), placement="pageable")
    graph = Graph(indptr, indices)
    assert graph.indptr.data_ptr() == indptr.cpu().data_ptr()
    assert graph.indices.data_ptr() == indices.cpu().data_ptr()
    assert Graph(indptr, wide).indices.dtype == torch.int32


@pytest.mark.parametrize(
    ("indptr", "indices", "weights", "says"),
    [
        ([], [], None, "indptr is empty"),
        ([1, 1], [0], None, r"indptr\[0\] is 1, but offsets begin with 0"),
        ([0, 2, 1, 3], [0, 0, 0], None, r"indptr\[2\] is 1, less than indptr\[1\] = 2"),
        ([0, 1, 2], [0, 0, 0], None, r"ends with 2 \(indptr\[2\]\), but indices holds 3"),
        ([0, 9], [0], None, r"ends with 9 \(indptr\[1\]\), but indices holds 1"),
        ([0, 1, 2], [0, 2], None, r"indices\[1\] is 2, but the vertices are numbered from 0 to 1"),
        ([0, 1, 2], [-1, 2], None, r"indices\[0\] is -1"),
        ([0, 1, 2], [2**32, 2], None, r"indices\[0\] is 4294967296"),
        ([0, 1], [0], [float("nan")], r"weights\[0\] is NaN"),
        ([0, 1], [0], [1.0, 2.0], r"weights have shape \(2,\), but there are 1 edges"),
        ([[0, 1]], [0], None, r"indptr has shape \(1, 2\)"),
        ([0.0, 1.0], [0], None, r"indptr holds torch.float32"),
        ([0, 1], [True], None, r"indices holds torch.bool"),
    ],
)
def test_what_is_no_graph_gets_a_sentence(indptr, indices, weights, says):
    indices = torch.tensor(indices, dtype=torch.int64) if not indices else torch.tensor(indices)
    indptr = torch.tensor(indptr, dtype=torch.int64) if not indptr else torch.tensor(indptr)
    with pytest.raises(GraphError, match=says):
        Graph(indptr, indices, None if weights is None else torch.tensor(weights))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_first_nan_is_found_and_infinity_is_none(dtype):
    weights = torch.full((100_000,), float("inf"), dtype=dtype)
    weights[1::2] = -float("inf")
    arrays.check_weights(weights, len(weights))
    weights[77_777] = float("nan")
    weights[99_999] = -float("nan")
    with pytest.raises(GraphError, match=r"weights\[77777\] is NaN"):
        arrays.check_weights(weights, len(weights))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-3, 8), min_size=1, max_size=12), st.integers(0, 8))
def test_offsets_pass_only_if_they_are_monotonic(offsets, edges):
    good = offsets[0] == 0 and offsets[-1] == edges and offsets == sorted(offsets)
    try:
        arrays.check_offsets(torch.tensor(offsets), edges)
    except GraphError:
        assert not good
    else:
        assert good


def test_unknown_arrays_and_places_are_refused():
    with pytest.raises(ConfigError, match="placement names 'features'"):
        small(placement={"features": "host"})
    with pytest.raises(ConfigError, match="placement 'ssd' of weights"):
        small(placement={"weights": "ssd"})


@pytest.mark.skipif(devices.cuda_available(), reason="this machine has a GPU")
def test_gpu_placement_without_a_gpu_is_host_memory():
    """So a program that places arrays on the GPU runs on a machine without one, with the same answers."""
    plain = small()
    mixed, whole = small(placement={"indptr": "gpu", "indices": "host"}), small(placement="gpu")
    assert set(mixed.placement.values()) == set(whole.placement.values()) == {"pageable"}
    for graph in (mixed, whole, from_edges(torch.tensor([0, 1]), torch.tensor([1, 2]), placement="gpu").transpose()):
        assert graph.indices.device.type == "cpu"
    assert torch.equal(mixed.indices, plain.indices) and torch.equal(whole.indptr, plain.indptr)


def test_gpu_placement_where_the_gpu_cannot_be_used(monkeypatch):
    monkeypatch.setattr(devices, "_lacking", lambda: devices._NO_CUDA_CORE)
    with pytest.raises(DeviceError, match=r"placement 'gpu' of indices needs cuda-core.*pip install 'hinterland\[cuda\]'"):
        small(placement={"indices": "gpu"})


def test_transpose_agrees_with_scipy_and_is_kept():
    generator = torch.Generator().manual_seed(5)
    ends = torch.randint(0, 300, (2, 4000), generator=generator)
    graph = from_edges(ends[0], ends[1], torch.rand(4000, generator=generator), num_vertices=300)
    turned = graph.transpose()
    assert turned is graph.transpose()
    assert turned.transpose() is graph
    matrices = [
        scipy.sparse.csr_array((g.weights.numpy(), g.indices.numpy(), g.indptr.numpy()), shape=(300, 300))
        for g in (graph, turned)
    ]
    np.testing.assert_allclose(matrices[0].T.toarray(), matrices[1].toarray(), rtol=1e-5)
    rows = torch.repeat_interleave(torch.arange(300), turned.degrees())
    assert (np.lexsort((turned.weights.numpy(), turned.indices.numpy(), rows.numpy())) == np.arange(4000)).all()


def test_an_undirected_graph_is_its_own_transpose():
    graph = Graph(torch.tensor([0, 1, 2]), torch.tensor([1, 0]), directed=False)
    assert graph.transpose() is graph


def test_a_transposed_graph_does_not_keep_the_first_alive():
    graph = small()
    turned = graph.transpose()
    gone = weakref.ref(graph)
    gc.disable()
    try:
        del graph
        assert gone() is None
    finally:
        gc.enable()
    assert turned.transpose().indices.tolist() == [1, 2, 0]


def saved(graph: Graph) -> Graph:
    file = io.BytesIO()
    torch.save({"graph": graph}, file)
    file.seek(0)
    return torch.load(file, weights_only=False)["graph"]


def pickled(graph: Graph) -> Graph:
    return pickle.loads(pickle.dumps(graph))


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled, saved])
@pytest.mark.parametrize("form", [lambda g: g, lambda g: hl.reorder(g, "degree"), hl.compress])
@pytest.mark.parametrize("placement", ["pageable", "pinned", "host", {"indices": "pinned", "indptr": "pageable"}])
def test_a_copy_is_the_same_graph_in_the_same_places(copied, form, placement):
    for first in (small(placement=placement), Graph(torch.tensor([0, 1, 2]), torch.tensor([1, 0]), directed=False)):
        first.labels = ["a", "ä", ("b", 1)][: first.num_vertices]
        graph = form(first)
        turned = graph.transpose()
        other = copied(graph)
        assert type(other) is Graph and (other.directed, other.placement) == (graph.directed, graph.placement)
        assert other.labels == graph.labels
        for mine, theirs in zip(other.checked_rows(), graph.checked_rows(), strict=True):
            assert theirs is None or (torch.equal(mine, theirs) and mine.data_ptr() != theirs.data_ptr())
        assert (other.order is None) == (graph.order is None) or torch.equal(other.order, graph.order)
        assert hl.bfs(other, 0).levels.tolist() == hl.bfs(first, 0).levels.tolist()
        assert other.transpose() is not turned and torch.equal(other.transpose().indices, turned.indices)


def test_a_shallow_copy_shares_arrays_and_the_transpose():
    graph = small()
    turned, other = graph.transpose(), copy.copy(graph)
    assert other.indices.data_ptr() == graph.indices.data_ptr() and other.transpose() is turned
    assert turned.transpose() is graph
    other.labels = ["a", "b", "c"]
    assert graph.labels is None


@pytest.mark.parametrize("names", [["g.hl"], ["g.hl", "copy.hl"]])
def test_a_graph_on_storage_is_pickled_by_its_path(tmp_path, names):
    graph = small()
    for name in names:
        hl.save_graph(graph, tmp_path / name, transpose=True)
    paths = [tmp_path / name for name in names]
    stored = hl.load_graph(paths if len(paths) > 1 else paths[0], "storage", host_budget="1MiB", transpose=True)
    for copied in (copy.deepcopy, pickled, saved):
        other = copied(stored)
        assert other.placement == stored.placement and other.indices.tolist() == [1, 2, 0]
        assert other.known_transpose.placement == stored.transpose().placement
        assert other.transpose().indices.tolist() == graph.transpose().indices.tolist()
        assert other.transpose().transpose() is other
        (cache,) = other.neighbor_lists.stored.caches
        assert cache.host_budget == stored.neighbor_lists.stored.caches[0].host_budget
    held = pickle.dumps(stored)
    hl.save_graph(Graph(torch.tensor([0, 1]), torch.tensor([0]), torch.tensor([1.0])), tmp_path / "g.hl", transpose=True)
    with pytest.raises(ConfigError, match=r"g\.hl"):
        pickle.loads(held)
    (tmp_path / "g.hl").unlink()
    with pytest.raises(StorageError, match="g.hl"):
        pickle.loads(held)


def test_a_graph_on_storage_without_edges_is_one_too(tmp_path):
    hl.save_graph(Graph(torch.tensor([0, 0, 0]), torch.empty(0, dtype=torch.int32)), tmp_path / "g.hl")
    stored = hl.load_graph(tmp_path / "g.hl", "storage")
    for graph in (stored, pickled(stored)):
        assert graph.placement["indices"] == "storage" and hl.bfs(graph, 1).levels.tolist() == [-1, 0]


def test_a_graph_goes_to_a_process_that_is_spawned(tmp_path):
    """Of pinned memory it is the same memory, of a file the same file; pageable memory belongs to one process."""
    hl.save_graph(small(), tmp_path / "g.hl")
    (tmp_path / "child.py").write_text(
        "def look(graphs, done):\n"
        "    graphs[0].weights.mul_(2)\n"
        "    done.put([(g.indices.tolist(), g.weights.tolist(), g.labels, g.placement) for g in graphs])\n"
    )
    main = tmp_path / "main.py"
    main.write_text(f"""
import multiprocessing, sys, torch
sys.path.insert(0, {str(tmp_path)!r})
from child import look
import hinterland as hl
if __name__ == "__main__":
    mp = multiprocessing.get_context("spawn")
    graph = hl.load_graph({str(tmp_path / "g.hl")!r}, "pinned")
    graph.labels = ["a", "b", "c"]
    stored = hl.load_graph({str(tmp_path / "g.hl")!r}, {{"indptr": "pinned", "indices": "storage", "weights": "storage"}})
    done = mp.Queue()
    child = mp.Process(target=look, args=([graph, stored], done))
    child.start()
    print(done.get(timeout=60))
    child.join(60)
    print(child.exitcode, graph.weights.tolist())
""")
    said = forked.run(main)
    places = dict.fromkeys(("indptr", "indices", "weights"), "pinned")
    stored = {"indptr": "pinned", "indices": "storage", "weights": "storage"}
    assert said.stdout.splitlines() == [
        str([([1, 2, 0], [1.0, 3.0, 5.0], ["a", "b", "c"], places), ([1, 2, 0], [0.5, 1.5, 2.5], None, stored)]),
        "0 [1.0, 3.0, 5.0]",
    ]
    with pytest.raises(ConfigError, match="pageable memory belongs to one process.*placement='pinned'"):
        multiprocessing.reduction.ForkingPickler.dumps(small(placement="pageable"))


def test_a_prepared_graph_stays_in_its_process():
    for what in (hl.prepare(small(), device="cpu"), hl.sampling.NeighborSampler(small(), [2], device="cpu")):
        for copied in (pickled, copy.deepcopy):
            with pytest.raises(ConfigError, match=r"belongs to one process; send or copy its \.graph"):
                copied(what)


@pytest.mark.gpu
@pytest.mark.parametrize("place", arrays.PLACEMENTS)
def test_every_placement_holds_the_same_graph(place):
    if place == "system" and not cuda.system_memory_works():
        with pytest.raises(DeviceError, match="pageableMemoryAccess is 0"):
            small(placement=place)
        return
    graph = small(placement=place)
    on_cpu = small(placement="pageable")
    assert place in ("host", *graph.placement.values())
    for name in arrays.NAMES:
        assert torch.equal(graph.array(name, "cpu"), on_cpu.array(name))
        if place != "pageable":
            assert graph.array(name, "cuda").is_cuda
            assert torch.equal(graph.array(name, "cuda").cpu(), on_cpu.array(name))
    assert graph.indices.is_cuda is (place == "gpu")
    assert graph.degrees().tolist() == [2, 0, 1]
    assert graph.transpose().placement == graph.placement
    assert graph.transpose().array("indices", "cpu").tolist() == on_cpu.transpose().indices.tolist()


@pytest.mark.gpu
def test_cuda_tensors_are_checked_where_they_are(monkeypatch):
    monkeypatch.setattr(arrays, "GPU_CHUNK", 2)
    indptr, indices = torch.tensor([0, 2, 3]).cuda(), torch.tensor([0, 1, 5]).cuda()
    with pytest.raises(GraphError, match=r"indices\[2\] is 5"):
        Graph(indptr, indices)
    with pytest.raises(GraphError, match=r"weights\[2\] is NaN"):
        Graph(indptr, indices % 2, torch.tensor([0, 1, float("nan")]).cuda())
    kept = Graph(indptr, (indices % 2).int(), placement="gpu")
    assert kept.indices.device == indices.device


@pytest.mark.parametrize(
    "make",
    [
        lambda: Graph([0, 1, 2], [1, 0]),
        lambda: Graph(np.array([0, 1, 2]), np.array([1, 0])),
        lambda: Graph(torch.tensor([0, 1, 2]), torch.tensor([1, 0]), [1, 2]),
        lambda: Graph(torch.tensor([0, 1, 2]), torch.tensor([1, 0]), placement=None),
        lambda: from_edges([0], [1]),
        lambda: from_edges(np.array([0]), np.array([1])),
        lambda: from_edges(torch.tensor([0]), torch.tensor([1]), num_vertices=2.0),
    ],
)
def test_arguments_of_another_kind_get_a_sentence(make):
    with pytest.raises(ConfigError):
        make()


@pytest.mark.parametrize(
    ("offsets", "neighbors", "ascends"),
    [
        ([0], [], True),
        ([0, 0, 0], [], True),
        ([0, 2, 2, 4], [1, 2, 0, 1], True),
        ([0, 2, 2, 4], [1, 1, 0, 0], True),  # parallel edges
        ([0, 2, 2, 4], [1, 2, 1, 0], False),
        ([0, 3, 3, 4], [1, 2, 0, 1], False),
        ([0, 2, 2, 4], [2, 1, 0, 1], False),
    ],
)
@pytest.mark.parametrize("vertices", [None, 2**31])
def test_whether_lists_ascend_is_known(offsets, neighbors, ascends, vertices, device, monkeypatch):
    place = "gpu" if device.type == "cuda" else "pageable"
    monkeypatch.setattr(arrays, "GPU_CHUNK", 2)
    if vertices:
        monkeypatch.setattr(arrays, "index_dtype", lambda count: torch.int64)
    graph = Graph(torch.tensor(offsets), torch.tensor(neighbors, dtype=torch.int64), placement=place)
    assert graph.has_sorted_lists is ascends


def test_a_graph_that_was_sorted_is_not_looked_at(monkeypatch):
    src, dst = torch.randint(100, (2, 5000))
    graph = from_edges(src, dst, sort_neighbors=False)
    assert not graph.has_sorted_lists
    monkeypatch.setattr(arrays, "lists_ascend", lambda *_: pytest.fail("looked at"))
    assert not graph.has_sorted_lists
    for built in (graph.transpose(), simplify(graph), from_edges(src, dst, sort_neighbors=False, remove_duplicates=True)):
        assert built.has_sorted_lists
