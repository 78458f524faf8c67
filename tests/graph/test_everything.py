"""Every algorithm on every graph in every combination: mode, form, threads, tier, budget and processor change no result.

What is expected comes from Python's heapq, scipy and numpy, once for each graph: exact but for PageRank and
betweenness centrality, which are sums of rounded numbers. Weights are integers, or 256ths as floats, whose sums are exact.
"""

from __future__ import annotations

import functools
import gc
import heapq
import mmap
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components, dijkstra

import hinterland as hl
from hinterland import _core
from hinterland.graph.algorithms import state_bytes
from hinterland.graph.arrays import WeightRange
from hinterland.graph.lists import NeighborLists
from hinterland.graph.plan import GraphPlan
from hinterland.graph.view import least_lines_bytes
from hinterland.runtime.errors import ConfigError, GraphError, IndexOutOfRange

from ..split import across_boundary
from .stored import SET, on_storage

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
TASK_EDGES = 2048  # kTaskEdges: longer neighbour lists are shared by several workers
DAMPING = 0.25  # converges in few iterations
FLOAT_SCALE = 256
MODES_TAKE_TURNS = 1000  # edges: a larger graph meets a mode in each form and each setting, not in each of their combinations


@pytest.fixture(autouse=True)
def threads():
    """The number of threads as it was."""
    before = _core.num_threads()
    yield
    _core.set_num_threads(before)


# --- graphs: integer weights, sources -------------------------------------------------------------------------------------


def drawn(graph):
    return hl.random_weights(graph, "int32", seed=5)


def edges(pairs, vertices, weights=None, symmetrize=False):
    src, dst = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T
    if weights is None:
        weights = [1 + 7 * i % 90 for i in range(len(pairs))]
    built = torch.tensor(weights, dtype=torch.int32)
    return hl.from_edges(src, dst, built, num_vertices=vertices, symmetrize=symmetrize)


def several_components():
    """A cycle, a clique, a path and some lone vertices, in mixed order."""
    cycle = [(3 * i, 3 * ((i + 1) % 40)) for i in range(40)]
    clique = [(3 * i + 1, 3 * j + 1) for i in range(12) for j in range(i)]
    path = [(3 * i + 2, 3 * i + 5) for i in reversed(range(30))]
    return edges(cycle + clique + path, 130, symmetrize=True)


def mostly_one_way(graph):
    """Of an undirected graph two thirds of the edges, each with its direction."""
    rows = torch.arange(graph.num_vertices).repeat_interleave(graph.degrees())
    kept = (rows * 31 + graph.indices * 17) % 3 > 0
    return hl.from_edges(rows[kept], graph.indices[kept].long(), num_vertices=graph.num_vertices)


def real(name, **options):
    def load():
        if not DATA.is_dir():
            pytest.skip("the folder of real inputs is not beside this checkout")
        return drawn(hl.load_graph(DATA / name, **options))

    return load


LEAVES = 2 * TASK_EDGES + 9
GRAPHS = {
    "no vertex": lambda: edges([], 0),
    "one vertex": lambda: edges([], 1),
    "one vertex with loops": lambda: edges([(0, 0), (0, 0)], 1),
    "no edges": lambda: edges([], 40),
    "self loops": lambda: edges([(i, i) for i in range(60)] + [(i, i + 1) for i in range(0, 59, 2)], 60),
    "parallel edges": lambda: edges([(i % 35, (i * i + 1) % 35) for i in range(60)] * 3, 35, list(range(1, 181))),
    "parallel edges both ways": lambda: edges([(i % 35, (i * i + 1) % 35) for i in range(60)] * 2, 35, symmetrize=True),
    "star": lambda: edges([(0, i) for i in range(1, LEAVES)], LEAVES, symmetrize=True),
    "star inwards": lambda: edges([(i, 0) for i in range(1, LEAVES)], LEAVES),
    "chain": lambda: edges([(i, i + 1) for i in range(450)], 451, symmetrize=True),
    "chain one way": lambda: edges([(i + 1, i) for i in range(450)], 451),
    "several components": several_components,
    "equal weights": lambda: edges([(i, (i * k) % 300) for i in range(300) for k in (2, 3, 7)], 300, [9] * 900),
    "zero weights": lambda: edges([(i, (i * k) % 300) for i in range(300) for k in (2, 3, 7)], 300, [0] * 900),
    "grid": lambda: drawn(hl.generate("grid", rows=20, cols=24, seed=3)),
    "grid by rows": lambda: drawn(hl.generate("grid", rows=20, cols=24, permute=False, missing=0.1)),
    "web": lambda: drawn(hl.generate("web", scale=9, edge_factor=8)),
    "web one way": lambda: drawn(hl.generate("web", scale=9, edge_factor=6, directed=True)),
    "uniform": lambda: drawn(hl.generate("uniform", scale=9)),
    "kronecker": lambda: drawn(hl.generate("kronecker", scale=9)),
    "kronecker one way": lambda: drawn(mostly_one_way(hl.generate("kronecker", scale=9))),
    "cora": real("cora.npz"),
    "citeseer": real("citeseer.npz"),
    "email-Eu-core": real("email-Eu-core.csv"),
    "netscience": real("netscience.mtx"),
    "soc-Epinions1": real("soc-Epinions1.txt"),
}


@dataclass(frozen=True)
class Case:
    """A graph with integer weights, its edges for the oracles, and where searches begin."""

    graph: hl.Graph
    src: np.ndarray
    dst: np.ndarray
    weights: np.ndarray
    source: int
    sources: list[int]

    @property
    def vertices(self):
        return self.graph.num_vertices

    @functools.cached_property
    def lists(self):
        """Neighbours and weights of each vertex, as Python's lists."""
        cuts = np.cumsum(np.bincount(self.src, minlength=self.vertices))[:-1] if self.vertices else []
        neighbors, weights = np.split(self.dst, cuts), np.split(self.weights, cuts)
        return [list(zip(n.tolist(), w.tolist(), strict=True)) for n, w in zip(neighbors, weights, strict=True)]

    @functools.cached_property
    def levels(self):
        sources = list(dict.fromkeys([self.source, *self.sources]))
        found = dijkstra(self.matrix, indices=sources, unweighted=True) if self.vertices else []
        return {source: np.where(np.isinf(row), -1, row).astype(int) for source, row in zip(sources, found, strict=False)}

    @functools.cached_property
    def matrix(self):
        return sp.csr_matrix((np.ones(len(self.src)), (self.src, self.dst)), shape=(self.vertices,) * 2)

    @functools.cached_property
    def distances(self):
        """-1 where there is no path."""
        return best_first(self.lists, self.source, 0, lambda so_far, weight: so_far + weight, -1)

    @functools.cached_property
    def widths(self):
        """-1 where there is no path; the source's own is that of weight infinity."""
        return -best_first(self.lists, self.source, -(2**62), lambda so_far, weight: max(so_far, -weight), 1)

    @functools.cached_property
    def components(self):
        labels = connected_components(self.matrix, directed=True, connection="weak")[1]
        smallest = np.full(self.vertices, self.vertices)
        np.minimum.at(smallest, labels, np.arange(self.vertices))
        return smallest[labels]

    def ranks(self, personal):
        """PageRank by power iteration until nothing moves."""
        pull = self.matrix.T.tocsr()
        degrees = np.bincount(self.src, minlength=self.vertices)
        scores = personal
        for _ in range(200):
            received = pull @ (scores / np.maximum(degrees, 1)) + scores[degrees == 0].sum() * personal
            scores, before = (1 - DAMPING) * personal + DAMPING * received, scores
            if np.abs(scores - before).sum() < 1e-15:
                break
        return scores

    @functools.cached_property
    def uniform_ranks(self):
        return self.ranks(np.full(self.vertices, 1 / max(self.vertices, 1)))

    @functools.cached_property
    def personal(self):
        """Shares for two vertices, or one."""
        return {self.sources[0]: 1.0, self.sources[-1]: 3.0}

    @functools.cached_property
    def personal_ranks(self):
        shares = np.zeros(self.vertices)
        shares[list(self.personal)] = list(self.personal.values())
        return self.ranks(shares / shares.sum())

    @property
    def between(self):
        return self.sources[:4]

    @functools.cached_property
    def betweenness(self):
        """Brandes' sums over ``between``, scaled to all vertices as the documentation says."""
        sums = np.zeros(self.vertices)
        for source in self.between:
            sums += dependencies(self.lists, source, self.levels[source])
        others, count = self.vertices - 1, len(self.between)
        if others < 2:
            return sums
        scale = others / (1 if self.graph.directed else 2)
        scaled = sums * scale / min(count, others)
        scaled[self.between] = sums[self.between] * scale / (count - 1)
        return scaled


@pytest.fixture(scope="module", autouse=True)
def graphs_go_with_their_tests():
    """Other tests count what host memory is held."""
    yield
    forms.cache_clear()
    case.cache_clear()
    gc.collect()


@functools.cache
def case(name):
    graph = GRAPHS[name]()
    vertices = graph.num_vertices
    src = np.repeat(np.arange(vertices), graph.degrees().numpy())
    busy = np.flatnonzero(graph.degrees().numpy()) if graph.num_edges else np.arange(vertices)
    count = min(vertices, 3 if graph.num_edges > 50_000 else 36)  # beyond 32 a search has wider masks
    generator = np.random.default_rng(8)
    sources = generator.permutation(vertices)[:count].tolist()
    source = int(busy[len(busy) // 3]) if len(busy) else 0
    return Case(graph, src, graph.indices.numpy().copy(), graph.weights.numpy().copy(), source, sources)


def best_first(lists, source, start, extended, missing):
    """The least value of each vertex over all paths; ``missing`` where there is none."""
    found = [None] * len(lists)
    waiting = [(start, source)]
    while waiting:
        value, u = heapq.heappop(waiting)
        if found[u] is None:
            found[u] = value
            for v, weight in lists[u]:
                if found[v] is None:
                    heapq.heappush(waiting, (extended(value, weight), v))
    return np.array([missing if value is None else value for value in found])


def dependencies(lists, source, levels):
    """For each vertex the shares of shortest paths from ``source`` that lead through it; parallel edges are paths each."""
    order = [v for v in np.argsort(levels, kind="stable").tolist() if levels[v] >= 0]
    levels, paths, shares = levels.tolist(), [0.0] * len(lists), [0.0] * len(lists)
    paths[source] = 1.0
    down = {u: [v for v, _ in lists[u] if levels[v] == levels[u] + 1] for u in order}
    for u in order:
        for v in down[u]:
            paths[v] += paths[u]
    for u in reversed(order):
        for v in down[u]:
            shares[u] += paths[u] / paths[v] * (1 + shares[v])
    shares[source] = 0.0
    return np.array(shares)


# --- algorithms: modes, what a run takes, and how its result is compared --------------------------------------------------


def check_bfs(case, form, run):
    result = run(hl.bfs, case.source)
    levels = case.levels[case.source]
    np.testing.assert_array_equal(result.levels.cpu().numpy(), levels)
    # Of the neighbours one level nearer the parent is the first, by the numbers that the graph has inside.
    order = np.arange(case.vertices) if form.order is None else form.order.numpy()
    rank = np.argsort(order)
    down = (levels[case.src] >= 0) & (levels[case.dst] == levels[case.src] + 1)
    first = np.full(case.vertices, case.vertices)
    np.minimum.at(first, case.dst[down], rank[case.src[down]])
    parents = np.where(levels < 0, -1, order[np.minimum(first, case.vertices - 1)])
    parents[case.source] = case.source
    np.testing.assert_array_equal(result.parents.cpu().numpy(), parents)


def check_msbfs(case, form, run):
    result = run(hl.multi_source_bfs, case.sources)
    rows = [case.levels[source] for source in case.sources]
    np.testing.assert_array_equal(result.levels.cpu().numpy(), np.array(rows).reshape(len(rows), case.vertices))
    assert result.reached.tolist() == [int((row >= 0).sum()) for row in rows]
    assert result.distance_sum.tolist() == [int(row[row >= 0].sum()) for row in rows]
    assert result.eccentricity.tolist() == [int(row.max()) for row in rows]


def check_sssp(case, form, run):
    distances = run(hl.sssp, case.source).distances.cpu()
    expected = case.distances
    if distances.is_floating_point():
        expected = np.where(expected < 0, np.inf, expected / FLOAT_SCALE)
    np.testing.assert_array_equal(distances.numpy(), expected)


def check_sswp(case, form, run):
    widths = run(hl.sswp, case.source).widths.cpu()
    if widths.is_floating_point():
        expected = np.where(case.widths < 0, -np.inf, case.widths / FLOAT_SCALE)
        expected[case.source] = np.inf
    else:
        expected = np.where(case.widths < 0, -(2**63), case.widths)
        expected[case.source] = torch.iinfo(form.weights.dtype).max
    np.testing.assert_array_equal(widths.numpy(), expected)


def check_cc(case, form, run):
    result = run(hl.connected_components)
    np.testing.assert_array_equal(result.labels.cpu().numpy(), case.components)
    assert result.count == len(np.unique(case.components))


def check_pagerank(case, form, run, personal=False):
    options = {"damping": DAMPING, "tolerance": 1e-9, "max_iterations": 1000}
    result = run(hl.pagerank, **options, personalization=case.personal if personal else None)
    assert result.converged and result.scores.dtype == torch.float64
    expected = case.personal_ranks if personal else case.uniform_ranks
    assert np.abs(result.scores.cpu().numpy() - expected).sum() < 1e-9 / (1 - DAMPING) + 1e-12


def check_bc(case, form, run):
    result = run(hl.betweenness_centrality, case.between, normalized=False)
    assert result.sources.tolist() == case.between
    np.testing.assert_allclose(result.scores.cpu().numpy(), case.betweenness, rtol=1e-10, atol=1e-12)


@dataclass(frozen=True)
class Algorithm:
    """``plan``: what memory is planned for. ``weights``: the type that it needs. ``rooted``: needs a vertex."""

    plan: str
    check: object
    modes: tuple[str, ...] = ("auto",)
    weights: torch.dtype | None = None
    rooted: bool = True


PATHS = ("auto", "bellman-ford")
RANKS = ("auto", "power-iteration")
ALGORITHMS = {
    "bfs": Algorithm("bfs", check_bfs, ("auto", "top-down")),
    "multi-source bfs": Algorithm("msbfs", check_msbfs, ("auto", "top-down"), rooted=False),
    "shortest paths, bytes": Algorithm("sssp", check_sssp, PATHS, torch.uint8),
    "shortest paths": Algorithm("sssp", check_sssp, PATHS, torch.int32),
    "shortest paths, float": Algorithm("sssp", check_sssp, PATHS, torch.float32),
    "widest paths": Algorithm("sswp", check_sswp, PATHS, torch.int32),
    "widest paths, double": Algorithm("sswp", check_sswp, PATHS, torch.float64),
    "components": Algorithm("cc", check_cc, ("auto", "all-lists"), rooted=False),
    "pagerank": Algorithm("pagerank-float64", check_pagerank, RANKS, rooted=False),
    "personalized pagerank": Algorithm("pagerank-float64", functools.partial(check_pagerank, personal=True), RANKS),
    "betweenness": Algorithm("bc", check_bc, rooted=False),
}


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
    lines = least_lines_bytes(form.neighbor_lists)
    budgets = {"all memory": None, "room for pages": needed + lines + (4 << 20), "tight": needed + lines + 2048, "none": 0}
    if lines:
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
    if how.rooted and not at.vertices:
        pytest.skip("there is no vertex to begin at")
    few = device.type == "cpu" and at.graph.num_edges > MODES_TAKE_TURNS
    turn = 0
    for form_name, form in forms(name, how.weights, placement).items():
        if form_name == "plain":  # PageRank leaves a transposed graph with it
            form = as_new(form)
        for setting, graph, options in on_cpu(form, how) if device.type == "cpu" else on_gpu(form, how, device):
            turn += 1
            for mode in how.modes[turn % len(how.modes) :][:1] if few else how.modes:
                modes = {} if len(how.modes) == 1 else {"mode": mode}

                def run(call, *args, graph=graph, options=options, modes=modes, **more):
                    return call(graph, *args, **modes, **options, **more)

                try:
                    how.check(at, form, run)
                except AssertionError as error:
                    error.add_note(f"{algorithm} on {name}: {form_name}, {setting}, {mode}")
                    raise


CALLS = {
    "bfs": lambda graph: hl.bfs(graph, 5).levels,
    "msbfs": lambda graph: hl.multi_source_bfs(graph, [5, 9, 11]).levels,
    "sssp": lambda graph: hl.sssp(graph, 5).distances,
    "sswp": lambda graph: hl.sswp(graph, 5).widths,
    "cc": lambda graph: hl.connected_components(graph).labels,
    "pagerank": lambda graph: hl.pagerank(graph).scores,
    "bc": lambda graph: hl.betweenness_centrality(graph, [5, 9]).scores,
}


@pytest.mark.gpu
@pytest.mark.parametrize("name", CALLS)
def test_a_budget_bounds_what_a_reordered_graph_takes(name):
    """Bringing results back to the first numbers takes memory too."""
    graph = hl.reorder(drawn(hl.generate("uniform", scale=18, edge_factor=4)), "degree")
    with hl.prepare(graph, device="cpu", algorithms=name) as prepared:
        expected = CALLS[name](prepared)
    CALLS[name](graph)  # the kernel is compiled and loaded
    needed = state_bytes(name, graph)
    for extra in (2048, 8 * graph.num_vertices + (3 << 20), 24 * graph.num_vertices + (6 << 20), 1 << 30):
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        with hl.prepare(graph, gpu_budget=needed + extra, algorithms=name, weighted=name in ("sssp", "sswp")) as prepared:
            assert prepared.device.type == "cuda" and prepared.held <= extra
            found = CALLS[name](prepared)
        assert torch.cuda.max_memory_allocated() - before <= needed + extra
        torch.testing.assert_close(found.cpu(), expected)
        del found, prepared


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
@pytest.mark.parametrize("algorithm", [name for name, how in ALGORITHMS.items() if how.plan not in ("cc", "pagerank-float64")])
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
        for mode in how.modes:
            modes = {} if len(how.modes) == 1 else {"mode": mode}
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

ROOTED = {"bfs": hl.bfs, "sssp": hl.sssp, "sswp": hl.sswp}
SEVERAL = {"msbfs": hl.multi_source_bfs, "bc": hl.betweenness_centrality}


def path_of(weights):
    count = len(weights)
    return hl.from_edges(torch.arange(count), torch.arange(1, count + 1), weights, num_vertices=count + 1)


@pytest.mark.parametrize("form", [lambda graph: graph, hl.compress, lambda graph: hl.compress(graph, reorder="rcm")])
@pytest.mark.parametrize("name", [*ROOTED, *SEVERAL])
@pytest.mark.parametrize("source", [-1, 4, 2**40])
def test_a_source_that_is_no_vertex(device, name, source, form):
    graph = form(path_of(torch.tensor([1, 2, 3], dtype=torch.int32)))
    with pytest.raises(IndexOutOfRange, match=f"source {source} is not a vertex: the graph has 4 vertices, numbered from 0"):
        ROOTED[name](graph, source, device=device) if name in ROOTED else SEVERAL[name](graph, [0, source], device=device)


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
    assert graph.to_inner(2) != 2
    with pytest.raises(GraphError, match="distance of vertex 2 exceeds"):
        hl.sssp(graph, 0, device=device)
    plain = hl.reorder(path_of(torch.tensor([1, 1, 1])), "rcm")
    plain.indices[int(plain.indptr[int(plain.to_inner(2))])] = 77
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
