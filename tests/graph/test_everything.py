"""Every algorithm on every graph in every combination: mode, form, threads, tier, budget and processor change no result."""

from __future__ import annotations

import functools
import gc
import importlib
import mmap
import tempfile
from pathlib import Path

import pytest
import torch

import hinterland as hl
from hinterland import _core
from hinterland.graph.algorithms import state_bytes
from hinterland.graph.arrays import WeightRange
from hinterland.graph.lists import NeighborLists
from hinterland.graph.plan import GraphPlan
from hinterland.runtime.errors import ConfigError, GraphError, IndexOutOfRange

from ..graphs import skewed
from ..split import across_boundary
from .budgets import takes_at_most, within_budgets
from .cases import FLOAT_SCALE, GRAPHS, RECORDS, Case, array, begins, call, case, drawn
from .stored import SET, on_storage

MODES_TAKE_TURNS = 1000  # edges: a larger graph meets a mode in each form and each setting, not in each of their combinations


def declared():
    """What the tests of each algorithm say, by names for people."""
    files = (path for path in sorted(Path(__file__).parent.glob("test_*.py")) if "\nEVERYWHERE = " in path.read_text())
    lists = (importlib.import_module(f".{path.stem}", __package__).EVERYWHERE for path in files)
    return {str(one): one for listed in lists for one in listed}


ALGORITHMS = declared()


def test_every_algorithm_is_here():
    assert {one.name for one in ALGORITHMS.values()} == RECORDS.keys()


pytestmark = pytest.mark.usefixtures("set_threads")


@pytest.fixture(scope="module", autouse=True)
def graphs_go_with_their_tests():
    """Other tests count what host memory is held."""
    yield
    forms.cache_clear()
    case.cache_clear()
    gc.collect()


# --- combinations -----------------------------------------------------------------------------------------------------------


def as_new(graph):
    """``graph`` with no transposed graph kept."""
    return graph.over(graph.neighbor_lists.over(graph.neighbor_lists.arrays))


def with_weights(graph, dtype):
    """``graph`` with its weights as ``dtype``, or without any, as new."""
    if dtype is None:
        return as_new(graph.without_weights())
    weights = graph.weights.to(dtype)
    return graph.with_weights(hl.UnifiedTensor.from_tensor(weights / FLOAT_SCALE if dtype.is_floating_point else weights))


@functools.lru_cache(maxsize=5)  # weights of five types, or none: tests of one graph follow each other
def forms(name, weights, placement):
    """The graph in every form; all but the first have their lists of in-neighbours, where they are directed."""
    graph = with_weights(case(name).graph, weights)
    placed = {**dict.fromkeys(("indices", "weights"), placement), "indptr": "host"}
    graph = hl.Graph(graph.indptr, graph.indices, graph.weights, directed=graph.directed, placement=placed)
    found = {"in-neighbours": graph, "compressed": hl.compress(graph)}
    if placement == "host" and graph.num_edges:
        found["two mappings"] = in_two_mappings(graph)
    if placement == "host":
        for form in ("in-neighbours", "compressed"):
            found[f"storage, {form}"] = stored(found[form])
    if graph.num_vertices:
        found["reordered"] = hl.reorder(graph, "rcm")
        found["compressed, reordered"] = hl.compress(graph, reorder="degree")
    for form in found.values():
        form.transpose()
    return {"plain": as_new(graph), **found}


def stored(graph):
    """The graph on storage, with two sets of lines for three threads; large ones, for time's sake, with room for a tenth. A
    directed one has its lists of in-neighbours there, too."""
    with tempfile.TemporaryDirectory() as folder:  # an open file needs no name
        lines = max(2 * SET, graph.nbytes // 10 if graph.num_edges > 10_000 else 0)
        return on_storage(graph, Path(folder) / "graph.hl", lines, transpose=True)


def in_two_mappings(graph):
    """The graph with a boundary between two mappings in the middle of each array."""
    given = {"indptr": graph.indptr, "indices": graph.indices, "weights": graph.weights}
    held = {name: across_boundary(array) for name, array in given.items() if array is not None}
    return hl.Graph(**held, directed=graph.directed)


def on_cpu(form, algorithm):
    """Several numbers of threads, and a prepared graph with offsets as a GPU keeps them: what to call an algorithm with."""
    for count in (1, 3):
        _core.set_num_threads(count)
        yield f"{count} threads", form, {"device": "cpu"}
    _core.set_num_threads(2)
    with hl.prepare(form, device="cpu", algorithms=algorithm.plan, weighted=algorithm.weights is not None) as prepared:
        keep_offsets(prepared)
        yield "prepared, 2 threads", prepared, {}


def keep_offsets(prepared):
    """Offsets below 2^32 become uint32, which on a CPU only tests ask for."""
    for view in {prepared.out, prepared.incoming} - {None}:
        plan = GraphPlan(room=2**60)
        plan.keep_offsets(view)
        plan.apply()


def on_gpu(form, algorithm, device):
    """Every budget, for one run and for many."""
    needed = state_bytes(algorithm.plan, form)
    budgets = {"all memory": None, "room for pages": needed + (4 << 20), "tight": needed + 2048, "none": 0}
    if form.neighbor_lists.stored:
        budgets = {"tight": budgets["tight"]}
    for name, budget in budgets.items():
        yield name, form, {"device": device, "gpu_budget": budget}
        weighted = algorithm.weights is not None
        with hl.prepare(form, gpu_budget=budget, device=device, algorithms=algorithm.plan, weighted=weighted) as prepared:
            assert budget is None or prepared.held <= max(budget - needed, 0)
            assert prepared.device.type == ("cpu" if budget == 0 else "cuda")
            yield f"prepared, {name}", prepared, {}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("placement", ["host", pytest.param("gpu", marks=pytest.mark.gpu)])
def test_nothing_changes_a_result(device, placement, name, algorithm):
    if placement == "gpu" and device.type == "cpu":
        pytest.skip("the CPU reads host memory")
    at, how = case(name), ALGORITHMS[algorithm]
    if how.begins == "source" and not at.vertices:
        pytest.skip("there is no vertex to begin at")
    modes = how.record.modes
    few = device.type == "cpu" and at.graph.num_edges > MODES_TAKE_TURNS
    turn = 0
    for form_name, form in forms(name, how.weights, placement).items():
        if form_name == "plain":  # PageRank leaves a transposed graph with it
            form = as_new(form)
        for setting, graph, options in on_cpu(form, how) if device.type == "cpu" else on_gpu(form, how, device):
            turn += 1
            for mode in modes[turn % len(modes) :][:1] if few else modes:
                given = {**options} if len(modes) == 1 else {**options, "mode": mode}

                def run(call, *args, graph=graph, given=given, **more):
                    return call(graph, *args, **given, **more)

                try:
                    how.check(at, form, run)
                except AssertionError as error:
                    error.add_note(f"{algorithm} on {name}: {form_name}, {setting}, {mode}")
                    raise


@pytest.mark.parametrize("name", RECORDS)
def test_any_number_of_threads_gives_the_same(name, set_threads):
    """Of a graph that is large enough for all of them. So is the work of each step, but where who comes first decides."""
    graph, record, results = drawn(skewed(20_000, 200_000, symmetrize=True)), RECORDS[name], []
    for threads in (1, 2, 5):
        set_threads(threads)
        results.append(call(record, graph, device="cpu", stats=True))
    for result in results[1:]:
        torch.testing.assert_close(getattr(result, record.array), getattr(results[0], record.array), rtol=1e-9, atol=1e-15)
        if name in ("bfs", "cc"):
            for step, first in zip(result.stats["per_level"], results[0].stats["per_level"], strict=True):
                assert all(step[key] == first[key] for key in ("vertices", "tasks", "edges"))


@pytest.mark.gpu
@pytest.mark.parametrize("reordered", [False, True])
@pytest.mark.parametrize("name", RECORDS)
def test_a_budget_bounds_what_is_taken(name, reordered):
    """Bringing results back to the first numbers takes memory too."""
    graph = drawn(hl.generate("uniform", scale=18, edge_factor=4))
    graph = hl.reorder(graph, "degree") if reordered else graph
    record = RECORDS[name]
    with hl.prepare(graph, device="cpu", algorithms=name) as prepared:
        expected = array(record, prepared)
    extras = (2048, 8 * graph.num_vertices + (3 << 20), 24 * graph.num_vertices + (6 << 20), 1 << 30)
    weighted = record.weights == "needed"
    for found in within_budgets(name, graph, lambda graph: array(record, graph), extras, weighted=weighted):
        torch.testing.assert_close(found.cpu(), expected)


@pytest.mark.gpu
@pytest.mark.parametrize("budget", [0, "1KiB"])
@pytest.mark.parametrize("name", RECORDS)
def test_without_room_on_the_gpu_the_cpu_does_it(name, budget):
    graph, record = drawn(hl.generate("uniform", scale=10)), RECORDS[name]
    with takes_at_most(0):
        result = call(record, graph, device="cuda", gpu_budget=budget, stats=True)
    assert result.stats["device"] == "cpu"
    torch.testing.assert_close(getattr(result, record.array), array(record, graph, device="cpu"))


# --- more than 2^31 and 2^33 edges ------------------------------------------------------------------------------------------


def sparse(count, dtype, tail):
    """``count`` zeros that take no memory, as nobody touches them, and then ``tail``."""
    try:
        size = (count + len(tail)) * dtype.itemsize
        held = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000))
    except OSError as error:
        pytest.skip(f"this machine does not promise {size} bytes: {error}")
    array = torch.frombuffer(held, dtype=dtype)
    array[count:] = tail.to(dtype)
    return array


@pytest.mark.parametrize(
    ("skipped", "kept"),
    [pytest.param(2**31 + 5, torch.uint32, id="beyond 2^31"), pytest.param(2**33 + 5, torch.int64, id="beyond 2^33")],
)
@pytest.mark.parametrize("algorithm", [name for name, how in ALGORITHMS.items() if how.begins])
def test_lists_far_into_the_edges(algorithm, skipped, kept):
    """Vertex 0, which nothing leads to, has ``skipped`` neighbours, so all lists that are read lie beyond.

    Only for algorithms that read the lists of reached vertices and no others. Components and PageRank read all, and so would a
    transposed graph and compression; the GPU would need real memory for the pages that are mapped into it.
    """
    how, small = ALGORITHMS[algorithm], case("kronecker one way")
    one = small.graph
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), one.indptr + skipped])
    held = {"indptr": offsets, "indices": sparse(skipped, torch.int32, one.indices + 1)}
    if how.weights is not None:
        weights = one.weights / FLOAT_SCALE if how.weights.is_floating_point else one.weights
        held["weights"] = sparse(skipped, how.weights, weights)
    graph = hl.Graph.of(NeighborLists(held, is_sorted=True), directed=True)
    if how.weights is not None:  # which would look at all of them
        least, most = float(weights.min()), float(weights.max())
        graph.neighbor_lists.weight_range = (
            WeightRange(least, most, most / 2) if weights.is_floating_point() else WeightRange(1, 255, 128.0)
        )
    at = shifted(small)
    with hl.prepare(graph, device="cpu", algorithms=how.plan) as prepared:
        keep_offsets(prepared)
        assert prepared.out.offsets.dtype == kept
        for mode in how.record.modes:
            modes = {} if len(how.record.modes) == 1 else {"mode": mode}
            how.check(at, graph, lambda call, *args, modes=modes, **more: call(graph, *args, device="cpu", **modes, **more))
            how.check(at, graph, lambda call, *args, modes=modes, **more: call(prepared, *args, **modes, **more))


def shifted(small):
    """The case with a vertex before all others, whose edges the oracles need not know: no search reaches it."""
    return Case(
        hl.Graph(torch.cat([torch.zeros(1, dtype=torch.int64), small.graph.indptr]), small.graph.indices + 1),
        small.src + 1,
        small.dst + 1,
        small.weights,
        small.source + 1,
        [source + 1 for source in small.sources],
    )


# --- bad input --------------------------------------------------------------------------------------------------------------


def path_of(weights):
    count = len(weights)
    return hl.from_edges(torch.arange(count), torch.arange(1, count + 1), weights, num_vertices=count + 1)


@pytest.mark.parametrize("form", [lambda graph: graph, hl.compress, lambda graph: hl.compress(graph, reorder="rcm")])
@pytest.mark.parametrize("name", [name for name, record in RECORDS.items() if begins(record)])
@pytest.mark.parametrize("source", [-1, 4, 2**40])
def test_a_source_that_is_no_vertex(device, name, source, form):
    graph = form(path_of(torch.tensor([1, 2, 3], dtype=torch.int32)))
    with pytest.raises(IndexOutOfRange, match=f"source {source} is not a vertex: the graph has 4 vertices, numbered from 0"):
        RECORDS[name].run(graph, source if begins(RECORDS[name]) == "source" else [0, source], device=device)


@pytest.mark.parametrize(
    ("indptr", "indices"),
    [([0, 1, 3, 4], [1, 2, 3, 0]), ([0, 1, 3, 4], [1, 2, -1, 0]), ([0, 1, 0, 4], [1, 2, 1, 0]), ([0, 1, 9, 4], [1, 2, 1, 0])],
)
@pytest.mark.parametrize(("name", "directed"), [*((name, name != "pagerank") for name in RECORDS), ("cc", False)])
def test_broken_arrays_get_a_sentence(device, name, indptr, indices, directed):
    record = RECORDS[name]
    held = {"indptr": torch.tensor(indptr), "indices": torch.tensor(indices, dtype=torch.int32)}
    if record.weights == "needed":
        held["weights"] = torch.ones(4, dtype=torch.int32)
    graph = hl.Graph.of(NeighborLists({name: hl.UnifiedTensor.from_tensor(array) for name, array in held.items()}), directed)
    starts = {"source": {"source": 0}, "sources": {"sources": [0]}, "": {}}
    with pytest.raises(GraphError, match="neighbour list of vertex 1 is broken"):
        record.run(graph, **starts[begins(record)], device=device)


@pytest.mark.parametrize("form", [lambda graph: graph, hl.compress])
def test_weights_that_paths_cannot_have(device, form):
    with pytest.raises(GraphError, match=r"weights\[1\] is -4, .* no weight is negative; raise all weights"):
        hl.sssp(form(path_of(torch.tensor([3, -4, 5], dtype=torch.int32))), 0, device=device)
    with pytest.raises(ConfigError, match="needs weights, and the graph has none; give it some"):
        hl.sssp(form(path_of(torch.tensor([1])).without_weights()), 0, device=device)
    with pytest.raises(GraphError, match=r"weights\[1\] is NaN; replace it"):
        path_of(torch.tensor([1.0, float("nan")]))
    most = torch.iinfo(torch.int64).max
    with pytest.raises(GraphError, match=f"distance of vertex 2 exceeds {most}, .* convert the weights to float64"):
        hl.sssp(form(path_of(torch.tensor([most, 1]))), 0, device=device)
    most = torch.iinfo(torch.int32).max
    with pytest.raises(GraphError, match=f"distance of vertex 2 exceeds {2**32 - 3}, .* to int64 or float64"):
        hl.sssp(form(path_of(torch.tensor([most, most, most], dtype=torch.int32))), 0, device=device)


def test_the_user_reads_his_own_numbers_in_errors(device):
    graph = hl.compress(path_of(torch.tensor([2**31 - 1] * 3, dtype=torch.int32)), reorder="rcm")
    assert graph.to_internal(2) != 2
    with pytest.raises(GraphError, match="distance of vertex 2 exceeds"):
        hl.sssp(graph, 0, device=device)
    plain = hl.reorder(path_of(torch.tensor([1, 1, 1])), "rcm")
    plain.indices[int(plain.indptr[int(plain.to_internal(2))])] = 77
    for run in (hl.bfs, hl.sssp):
        with pytest.raises(GraphError, match="neighbour list of vertex 2 is broken"):
            run(plain, 0, device=device)


@pytest.mark.parametrize("weighted", [False, True])
def test_an_edge_without_its_reverse(weighted):
    """Searches that read in-neighbours would be wrong, so no such graph is called undirected."""
    src, dst = torch.tensor([0, 1, 1, 2, 3, 3]), torch.tensor([1, 0, 2, 1, 3, 2])
    weights = torch.tensor([0.0, -0.0, 2, 2, 5, 6]) if weighted else None
    found = "not every edge has its reverse: 3 -> 2 is there more often than 2 -> 3; pass symmetrize=True"
    with pytest.raises(GraphError, match=found):
        hl.from_edges(src, dst, weights, directed=False)
    one_way = hl.from_edges(src, dst, weights)
    with pytest.raises(GraphError, match=found):
        hl.Graph(one_way.indptr, one_way.indices, one_way.weights, directed=False)
    part = None if weights is None else weights[:5]
    assert not hl.from_edges(src[:5], dst[:5], part, directed=False).directed
    if weighted:
        part[2] = 1
        with pytest.raises(GraphError, match="some reverse has another weight"):
            hl.from_edges(src[:5], dst[:5], part, directed=False)
    # Parallel edges count as often as they are there.
    with pytest.raises(GraphError, match="0 -> 1 is there more often than 1 -> 0"):
        hl.from_edges(torch.tensor([0, 0, 1]), torch.tensor([1, 1, 0]), directed=False)
