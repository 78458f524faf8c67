"""Generators: Philox against its published vectors, their distributions by chi-squared tests, and one answer everywhere."""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import json

import networkx
import numpy as np
import pytest
import scipy.sparse
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hinterland import _core, compress, from_edges, generate, load_graph, random_weights
from hinterland.cli import main
from hinterland.graph.arrays import placements
from hinterland.graph.compress import bits_per_edge
from hinterland.graph.recipe import CLASSES, recipe
from hinterland.runtime.errors import ConfigError

# The package's `generate` is the function.
module = importlib.import_module("hinterland.graph.generate")
gpu_module = importlib.import_module("hinterland.graph.generate_on_gpu")

ALL_ONES = 2**64 - 1
SMALL = [
    ("kronecker", {"scale": 10}),
    ("uniform", {"scale": 10}),
    ("uniform", {"vertices": 1000, "edge_factor": 5}),
    ("grid", {"rows": 30, "cols": 41}),
    ("grid", {"scale": 9}),
    ("grid", {"rows": 30, "cols": 41, "permute": False, "missing": 0.1}),
    ("ring", {"vertices": 700, "edge_factor": 4}),
    ("web", {"scale": 10}),
    ("web", {"vertices": 1000, "edge_factor": 9, "permute": True}),
]
DIRECTED = [("kronecker", {"scale": 10}), ("grid", {"scale": 6, "permute": False}), ("web", {"scale": 10})]
DIRECTED = [(kind, {**sizes, "directed": True}) for kind, sizes in DIRECTED]


def digest(graph) -> str:
    """A hash of all that the graph holds."""
    whole = hashlib.sha256()
    for name in ("indptr", "indices", "weights"):
        array = graph.array(name, "cpu")
        if array is not None:
            whole.update(f"{name} {array.dtype}".encode() + array.numpy().tobytes())
    return whole.hexdigest()


@pytest.mark.parametrize(
    ("key", "low", "high", "words"),
    [  # Random123's known-answer file, philox4x32-10
        (0, 0, 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (ALL_ONES, ALL_ONES, ALL_ONES, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            0x299F31D0A4093822,
            0x85A308D3243F6A88,
            0x0370734413198A2E,
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_published_words(key, low, high, words):
    assert tuple(_core.philox(key, low, high)) == words


def permutation(key: int, size: int, first: int = 0, count: int | None = None) -> np.ndarray:
    out = torch.empty(size if count is None else count, dtype=torch.int64)
    _core.list_permutation(key, size, first, out.numel(), out.data_ptr())
    return out.numpy()


@settings(max_examples=100, deadline=None)
@given(st.integers(0, ALL_ONES), st.integers(1, 5000))
def test_the_permutation_is_a_bijection(key, size):
    assert (np.sort(permutation(key, size)) == np.arange(size)).all()


def test_the_permutation_of_a_huge_range_stays_inside():
    size = 2**39 + 12345
    values = permutation(3, size, size - 100_000, 100_000)
    assert values.min() >= 0
    assert values.max() < size
    assert len(np.unique(values)) == len(values)
    assert scipy.stats.kstest(values / size, "uniform").pvalue > 1e-4


def test_each_place_is_as_likely():
    size = 12
    where = np.array([permutation(key, size) for key in range(3000)])
    for element in (0, 5, 11):
        assert scipy.stats.chisquare(np.bincount(where[:, element], minlength=size)).pvalue > 1e-4


def listed(
    kind: int, edges: int, seed: int, vertices: int, scale: int = 0, columns: int = 1, permuted: int = 1, share: int = 0
) -> np.ndarray:
    ends = torch.empty(2, edges, dtype=torch.int64)
    source = _core.generated_edges(kind, edges, seed, vertices, scale, columns, bool(permuted), share)
    _core.list_edges(source, 0, edges, ends[0].data_ptr(), ends[1].data_ptr())
    return ends.numpy()


def test_kronecker_edges_fall_into_quadrants_at_every_level():
    scale, seed, edges = 9, 7, 200_000
    ends = listed(0, edges, seed, 1 << scale, scale)
    words = _core.philox(seed, 1, ALL_ONES)  # the key of the renumbering: stream 1
    renumbering = permutation(words[1] << 32 | words[0], 1 << scale)
    back = np.empty_like(renumbering)
    back[renumbering] = np.arange(1 << scale)
    src, dst = back[ends]
    shares = np.array([0.57, 0.19, 0.19, 0.05])
    for level in range(scale):
        quadrant = 2 * (src >> level & 1) + (dst >> level & 1)
        assert scipy.stats.chisquare(np.bincount(quadrant, minlength=4), shares * edges).pvalue > 1e-4
    # Levels are drawn independently: neighbouring ones too.
    pairs = 4 * (2 * (src & 1) + (dst & 1)) + 2 * (src >> 1 & 1) + (dst >> 1 & 1)
    expected = np.outer(shares, shares).ravel() * edges
    assert scipy.stats.chisquare(np.bincount(pairs, minlength=16), expected).pvalue > 1e-4


def test_uniform_edges_are_uniform_and_their_ends_independent():
    ends = listed(1, 200_000, 11, 10)
    table = np.zeros((10, 10))
    np.add.at(table, (ends[0], ends[1]), 1)
    assert scipy.stats.chisquare(table.ravel()).pvalue > 1e-4


def test_kronecker_graphs_have_hubs_and_uniform_ones_none():
    hubs = generate("kronecker", scale=14, seed=3).degrees().double()
    even = generate("uniform", scale=14, seed=3).degrees().double()
    assert hubs.max() > 50 * hubs.mean()
    assert (hubs == 0).double().mean() > 0.2
    assert even.max() < 3 * even.mean()
    # Twice 16 drawn edges a vertex, less the few that are loops or duplicates: close to a Poisson distribution.
    assert even.mean().item() == pytest.approx(32, abs=0.2)
    assert even.var().item() == pytest.approx(32, rel=0.1)


def test_hubs_are_spread_over_the_vertex_numbers():
    degrees = generate("kronecker", scale=14, seed=5).degrees()
    hubs = degrees.topk(1000).indices.numpy() / len(degrees)
    assert scipy.stats.kstest(hubs, "uniform").pvalue > 1e-4


@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (1, 6), (6, 1), (4, 5), (7, 3)])
def test_a_grid_is_a_grid(rows, cols):
    graph = generate("grid", rows=rows, cols=cols, seed=2)
    ours = networkx.from_scipy_sparse_array(matrix(graph))
    assert networkx.is_isomorphic(ours, networkx.grid_2d_graph(rows, cols))


def test_a_grid_of_odd_scale_is_two_squares():
    graph = generate("grid", scale=5)
    assert graph.num_vertices == 32
    assert graph.num_edges == 2 * (4 * 7 + 3 * 8)


def test_a_grid_that_is_not_permuted_goes_row_by_row():
    graph = generate("grid", rows=5, cols=7, permute=False)
    at = torch.arange(35).view(5, 7)
    ends = [torch.stack([at[:, :-1].flatten(), at[:, 1:].flatten()]), torch.stack([at[:-1].flatten(), at[1:].flatten()])]
    assert digest(graph) == digest(from_edges(*torch.cat(ends, 1), num_vertices=35, symmetrize=True))


def test_a_part_of_the_edges_of_a_grid_is_missing():
    whole, part = (matrix(generate("grid", rows=200, cols=300, seed=4, missing=m)) for m in (None, 0.1))
    assert part.nnz / whole.nnz == pytest.approx(0.9, abs=0.005)
    assert abs(part - part.multiply(whole)).nnz == 0
    assert generate("grid", rows=9, cols=9, missing=1).num_edges == 0


def test_a_ring_that_is_not_rewired_is_a_ring():
    graph = generate("ring", vertices=50, edge_factor=3, rewired=0)
    ours = networkx.from_scipy_sparse_array(matrix(graph))
    assert nodes_equal(ours, networkx.watts_strogatz_graph(50, 6, 0))


def nodes_equal(ours, theirs) -> bool:
    return {frozenset(edge) for edge in ours.edges} == {frozenset(edge) for edge in theirs.edges}


def test_a_part_of_the_edges_of_a_ring_leads_anywhere():
    vertices = 20_000
    graph = generate("ring", vertices=vertices, edge_factor=4, rewired=0.05, directed=True, seed=3)
    rows = np.repeat(np.arange(vertices), graph.degrees().numpy())
    ahead = (graph.indices.numpy() - rows) % vertices
    far = ahead[ahead > 4]
    assert len(far) / graph.num_edges == pytest.approx(0.05, abs=0.004)
    assert scipy.stats.kstest(far / vertices, "uniform").pvalue > 1e-4


# What is known of the web (Broder et al. 2000; Boldi and Vigna 2004): in-degrees fall as a power of about 2.1 and out-degrees
# of 2.7, so both have hubs; most links stay on their host and near by number, at distances that fall as a power of 1.2 to 1.5;
# nine pages of ten hang together; pages side by side link to much the same pages.


def test_a_web_has_hubs_and_links_near():
    graph = generate("web", scale=16, directed=True, seed=3)
    vertices, edges = graph.num_vertices, graph.num_edges
    out = graph.degrees().numpy()
    rows, cols = np.repeat(np.arange(vertices), out), graph.indices.numpy()
    into = np.bincount(cols, minlength=vertices)
    percent = vertices // 100
    assert np.sort(into)[-percent:].sum() > 0.15 * edges  # a uniform graph: 0.02
    assert into.max() > 200 * into.mean() and out.max() > 50 * out.mean()
    away = np.abs(rows - cols)
    assert (away < 256).mean() > 0.6 and (away < 1024).mean() > 0.75
    counts = np.bincount(np.log2(away).astype(int))[4:14]
    slope = np.polyfit(np.arange(4, 14), np.log2(counts) - np.arange(4, 14), 1)[0]
    assert -1.6 < slope < -1.1
    assert out.min() > 0


def test_a_web_hangs_together_and_neighbours_link_alike():
    ours = matrix(generate("web", scale=14, seed=5))
    _, labels = scipy.sparse.csgraph.connected_components(ours, directed=False)
    assert np.bincount(labels).max() > 0.9 * len(labels)
    links = matrix(generate("web", scale=14, seed=5, directed=True))
    both = links[:-1].multiply(links[1:]).sum(1)
    either = (links[:-1] + links[1:] != 0).sum(1)
    assert (both / either).mean() > 0.3


def test_a_web_packs_well_because_of_its_numbers():
    web, permuted, kronecker = (
        bits_per_edge(compress(generate(kind, scale=16, **options)))
        for kind, options in (("web", {}), ("web", {"permute": True}), ("kronecker", {}))
    )
    assert web < 0.8 * permuted and web < 0.95 * kronecker


@pytest.mark.parametrize("kind", ["kronecker", "web", "ring"])
def test_permuted_or_not_the_graph_is_the_same(kind):
    ours, theirs = (generate(kind, scale=9, permute=permute, seed=6) for permute in (False, True))
    words = _core.philox(6, 1, ALL_ONES)
    order = permutation(words[1] << 32 | words[0], 512)
    assert abs(matrix(ours) - matrix(theirs)[order][:, order]).nnz == 0


@pytest.mark.parametrize(("kind", "sizes"), DIRECTED)
def test_directed_graphs_have_the_drawn_direction(kind, sizes):
    graph = generate(kind, **sizes, seed=2, weights=True)
    assert graph.directed
    both = matrix(generate(kind, **{**sizes, "directed": False}, seed=2, weights=True))
    ours = matrix(graph)
    assert abs(ours - ours.T).nnz > 0 and abs(ours.maximum(ours.T) - both).nnz == 0
    assert ours.has_canonical_format and not ours.diagonal().any()


def matrix(graph) -> scipy.sparse.csr_array:
    n = graph.num_vertices
    weights = np.ones(graph.num_edges) if graph.weights is None else graph.weights.numpy()
    return scipy.sparse.csr_array((weights, graph.indices.numpy(), graph.indptr.numpy()), shape=(n, n))


@pytest.mark.parametrize(("kind", "sizes"), SMALL)
def test_graphs_are_simple_sorted_and_undirected(kind, sizes):
    graph = generate(kind, **sizes, weights=True, device="cpu")
    ours = matrix(graph)
    assert not graph.directed
    assert ours.has_canonical_format  # sorted, no duplicates
    assert not ours.diagonal().any()
    assert abs(ours - ours.T).nnz == 0
    assert graph.weights.dtype == torch.int32


def test_the_edges_are_those_that_were_drawn():
    n, edges = 500, 2500
    ends = listed(1, edges, 4, n)
    drawn = scipy.sparse.coo_array((np.ones(edges), (ends[0], ends[1])), shape=(n, n))
    drawn = ((drawn + drawn.T) != 0).astype(float)
    drawn.setdiag(0)
    drawn.eliminate_zeros()
    ours = matrix(generate("uniform", vertices=n, edge_factor=5, seed=4, device="cpu"))
    assert abs(ours - drawn).nnz == 0


def test_weights_are_uniform_from_1_to_255():
    weights = matrix(generate("uniform", scale=13, weights=True, seed=6))
    once = scipy.sparse.triu(weights).data.astype(int)
    assert (once.min(), once.max()) == (1, 255)
    assert scipy.stats.chisquare(np.bincount(once, minlength=256)[1:]).pvalue > 1e-4


def test_each_type_has_the_same_weights():
    integer, byte, real = (
        generate("kronecker", scale=9, weights=dtype, seed=3).weights for dtype in ("int32", "uint8", torch.float32)
    )
    assert (integer.dtype, byte.dtype, real.dtype) == (torch.int32, torch.uint8, torch.float32)
    assert torch.equal(integer, byte.int())
    assert torch.equal(integer, (real * 256).floor().int())
    assert real.min() >= 1 / 256 and real.max() < 1
    assert scipy.stats.kstest(real.unique().numpy(), scipy.stats.uniform(1 / 256, 255 / 256).cdf).pvalue > 1e-4


def test_a_graph_gets_the_weights_that_it_would_have_been_generated_with():
    plain, weighted = (generate("kronecker", scale=9, weights=w, seed=7) for w in (None, "float32"))
    given = random_weights(plain, "float32", 7)
    assert digest(given) == digest(weighted)
    assert given.indices.data_ptr() == plain.indices.data_ptr() and plain.weights is None
    assert not given.directed and given.has_sorted_lists
    assert not torch.equal(random_weights(given, "float32", 8).weights, weighted.weights)


def test_random_weights_do_not_depend_on_direction_or_multiplicity(device):
    src, dst = torch.tensor([0, 0, 1, 1, 2, 2, 2]), torch.tensor([1, 1, 0, 2, 2, 0, 1])
    given = random_weights(from_edges(src, dst), "int32", 5, placement="gpu" if device.type == "cuda" else "pageable").weights
    assert given.device.type == device.type
    one, two, back, out, _, into, _ = given.tolist()  # of 0-1, 0-1, 1-0, 1-2, 2-0, 2-1, 2-2
    assert one == two == back and out == into


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"dtype": "int64"}, "random weights are uint8, int32, float32, not 'int64'"),
        ({"dtype": None}, "not None"),
        ({"seed": -1}, "seed -1 is not a whole number from 0"),
        ({"seed": 1.5}, "is not a whole number from 0"),
        ({"placement": "cloud"}, "placement 'cloud'"),
    ],
)
def test_random_weights_that_cannot_be_get_a_sentence(options, says):
    with pytest.raises(ConfigError, match=says):
        random_weights(generate("grid", rows=2, cols=2), **options)


def test_weights_leave_the_graph_as_it_is():
    plain, weighted = (generate("kronecker", scale=9, weights=w) for w in (False, True))
    assert torch.equal(plain.indices, weighted.indices)
    assert plain.weights is None


def test_seeds_give_different_graphs_and_each_its_own_again():
    seeds = [0, 1, 2, 2**63 + 1, 2**64 - 1]
    digests = [digest(generate("kronecker", scale=8, seed=seed)) for seed in seeds]
    assert len(set(digests)) == len(seeds)
    assert digest(generate("kronecker", scale=8, seed=2**63 + 1)) == digests[3]


@pytest.mark.parametrize(("kind", "sizes"), SMALL + DIRECTED)
def test_any_number_of_threads_gives_the_same_graph(kind, sizes, set_threads):
    digests = set()
    for threads in (1, 2, 7):
        set_threads(threads)
        digests.add(digest(generate(kind, **sizes, weights=True, device="cpu")))
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        ("kronecker", {"scale": 0}),
        ("uniform", {"vertices": 1}),
        ("grid", {"scale": 0}),
        ("uniform", {"vertices": 5, "edge_factor": 0}),
    ],
)
def test_graphs_without_edges(kind, sizes, device):
    graph = generate(kind, **sizes, weights=True, device=device)
    assert graph.num_edges == 0
    assert graph.num_vertices == sizes.get("vertices", 1)


@pytest.mark.parametrize(
    ("kind", "options", "says"),
    [
        ("star", {"scale": 3}, "no generator is called 'star'; there are kronecker, uniform, grid, ring, web"),
        ("kronecker", {}, "sized by scale, but nothing was given"),
        ("kronecker", {"scale": 3, "vertices": 8}, "sized by scale, but scale, vertices was given"),
        ("uniform", {"rows": 3}, "sized by scale, or vertices, but rows"),
        ("grid", {"rows": 3}, "sized by scale, or rows and cols, but rows"),
        ("kronecker", {"scale": -1}, "scale -1 is not from 0 to 40"),
        ("kronecker", {"scale": 41}, "scale 41"),
        ("uniform", {"vertices": 0}, "vertices 0 is not from 1"),
        ("grid", {"rows": 1 << 30, "cols": 1 << 30}, "more than 2\\^40"),
        ("kronecker", {"scale": 3, "seed": -1}, "seed -1"),
        ("kronecker", {"scale": 3, "edge_factor": -1}, "edge_factor -1"),
        ("web", {"rows": 3}, "a web graph is sized by scale, or vertices, but rows"),
        ("grid", {"scale": 4, "missing": 1.5}, "missing 1.5 is not from 0 to 1"),
        ("ring", {"scale": 4, "rewired": float("nan")}, "rewired nan is not from 0 to 1"),
        ("web", {"scale": 4, "missing": 0.1}, "missing=0.1 is for a grid, and a web graph has no such edges"),
        ("grid", {"scale": 4, "rewired": 0.1}, "rewired=0.1 is for a ring"),
    ],
)
def test_wrong_sizes_get_a_sentence(kind, options, says):
    with pytest.raises(ConfigError, match=says):
        generate(kind, **options)


def fake_launch(file, instance, device, grid, block, params):
    """The kernels of generate.cu in numpy, on the CPU's edges, so that the pieces' plan is tested without a GPU."""

    def array(address: int, count: int, kind=ctypes.c_int64) -> np.ndarray:
        return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(kind)), (count,))

    if "key_weights" in instance:
        keys = array(params.keys, params.count)
        words = _core.philox(params.seed, 2, ALL_ONES)
        for i, key in enumerate(keys.tolist()):
            u, v = sorted((key >> params.bits, key & ((1 << params.bits) - 1)))
            low = _core.philox(words[1] << 32 | words[0], u, v)
            drawn = (1 << 16) + ((low[1] << 32 | low[0]) * (255 << 16) >> 64)
            if instance.endswith("<float>"):
                array(params.weights, params.count, ctypes.c_float)[i] = drawn / 2**24
            else:
                kind = ctypes.c_uint8 if "uint8_t" in instance else ctypes.c_int32
                array(params.weights, params.count, kind)[i] = drawn >> 16
        return
    kind, shape = [f"<{name}>" in instance for name in CLASSES.values()].index(True), params.shape
    how = (shape.vertices, shape.scale, shape.columns, shape.permuted, shape.share)
    ends = listed(kind, params.edges, shape.seed, *how)
    ends = ends[:, ends[0] != ends[1]]
    rows, cols = np.concatenate([ends, ends[::-1]], axis=1) if params.mirror else ends
    if "count_rows" in instance:
        np.add.at(array(params.degrees, shape.vertices), rows, 1)
    else:
        mine = (rows >= params.first_row) & (rows < params.end_row)
        assert array(params.cursor, 1)[0] == 0
        array(params.keys, mine.sum())[:] = rows[mine] << params.bits | cols[mine]


@pytest.fixture
def faked(monkeypatch):
    """Makes graphs as a GPU does, ``piece`` entries at a time, with the kernels in numpy."""
    monkeypatch.setattr(gpu_module, "launch", fake_launch)
    monkeypatch.setattr(gpu_module.devices, "sm_count", lambda device: 1)
    monkeypatch.setattr(gpu_module.devices, "free_bytes", lambda device: 1 << 40)
    lengths = []

    def make(kind, weights, piece, **sizes):
        monkeypatch.setattr(gpu_module, "_piece_size", lambda *args: piece)
        fill = gpu_module._Filling.append
        monkeypatch.setattr(
            gpu_module._Filling, "append", lambda self, part: (lengths.append(part.numel()), fill(self, part))[1]
        )
        return gpu_module.on_gpu(recipe(kind, **sizes), weights, "pageable", torch.device("cpu")), lengths

    return make


@pytest.mark.parametrize(("piece", "weights"), [(1 << 28, torch.int32), (3000, torch.uint8), (2000, torch.float32)])
@pytest.mark.parametrize(("kind", "sizes"), SMALL + DIRECTED)
def test_pieces_put_together_are_the_graph(kind, sizes, piece, weights, faked):
    made, lengths = faked(kind, weights, piece, **sizes, seed=9)
    graph = generate(kind, **sizes, seed=9, weights=weights, device="cpu")
    assert made is not None and max(lengths) <= max(piece, graph.num_vertices)
    assert len(lengths) >= 1 + 3 * (recipe(kind, **sizes).entries // piece)
    assert digest(made) == digest(graph) and made.directed == graph.directed


def test_what_duplicates_would_have_taken_is_never_touched(faked):
    """The place is as long as all entries may be; pages that nothing is written to stay without memory."""
    made, _ = faked("kronecker", None, 1 << 16, scale=8, edge_factor=400)
    indices = made.neighbor_lists.arrays["indices"]
    assert indices.nbytes == 4 * made.num_edges < indices._buffer.nbytes // 2


def test_pieces_of_no_edges(faked):
    made, _ = faked("uniform", torch.int32, 1 << 20, vertices=5, edge_factor=0)
    assert made.num_vertices == 5 and made.num_edges == 0 and made.indptr.tolist() == [0] * 6


def test_a_row_larger_than_a_piece_goes_to_the_cpu(faked):
    assert faked("kronecker", None, 10, scale=10)[0] is None


def test_the_plan_keeps_to_the_free_memory():
    def plan(scale, weights, place, free):
        return gpu_module._piece_size(recipe("kronecker", scale), weights, place, int(free * 2**30))

    host, gpu = placements("pageable"), dict.fromkeys(("indptr", "indices", "weights"), "gpu")
    assert plan(25, None, host, 140) == 1 << 28
    assert 1 << 20 <= plan(25, None, host, 12) < 1 << 28
    assert plan(25, None, host, 0.4) is None
    assert plan(25, torch.int32, gpu, 16) is None
    # Larger than the GPU's memory: its own 126 GiB, twice that with weights, do not count where they lie on the host.
    assert plan(30, torch.int32, host, 139) == 1 << 29
    assert plan(28, None, host, 139) == 1 << 28
    assert plan(28, None, gpu, 60) is None


@pytest.mark.gpu
@pytest.mark.parametrize("weights", [None, "uint8", "int32", "float32"])
@pytest.mark.parametrize(
    ("kind", "sizes"), [*SMALL, *DIRECTED, ("kronecker", {"scale": 16}), ("uniform", {"vertices": 100_003})]
)
def test_cpu_and_gpu_make_the_same_graph(kind, sizes, weights):
    for seed in (1, 2**63 + 5):
        on_cpu = generate(kind, **sizes, seed=seed, weights=weights, device="cpu", placement="pageable")
        on_gpu = generate(kind, **sizes, seed=seed, weights=weights, device="cuda")
        assert digest(on_cpu) == digest(on_gpu)


@pytest.mark.gpu
@pytest.mark.parametrize("place", ["gpu", "host", "managed", "pinned", "pageable"])
def test_gpu_pieces_and_placements(place, monkeypatch):
    monkeypatch.setattr(gpu_module, "_piece_size", lambda *args: 50_000)
    on_cpu = generate("kronecker", scale=13, weights=True, device="cpu", placement="pageable")
    on_gpu = generate("kronecker", scale=13, weights=True, device="cuda", placement=place)
    assert place in ("host", *on_gpu.placement.values())
    assert digest(on_cpu) == digest(on_gpu)


@pytest.mark.gpu
def test_a_full_gpu_leaves_it_to_the_cpu(monkeypatch):
    monkeypatch.setattr(gpu_module.devices, "free_bytes", lambda device: 1 << 10)
    monkeypatch.setattr(gpu_module, "_in_pieces", lambda *args: pytest.fail("the GPU was used"))
    assert generate("kronecker", scale=13, device="cuda").num_vertices == 1 << 13


def command(monkeypatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["hinterland", "generate", *words])
    with pytest.raises(SystemExit) as done:
        main()
    return done.value.code


def test_the_command_saves_the_graph_and_prints_json(monkeypatch, capsys, tmp_path):
    file = tmp_path / "g.hl"
    sizes = ["--scale", "8", "--seed", "4", "--edge-factor", "8", "--weights", "int32"]
    assert command(monkeypatch, "kronecker", *sizes, "--device", "cpu", "--json", "--output", str(file)) == 0
    printed = json.loads(capsys.readouterr().out)
    expected = generate("kronecker", scale=8, seed=4, edge_factor=8, weights=True, device="cpu")
    saved = load_graph(file)
    assert digest(saved) == digest(expected)
    assert not saved.directed
    assert printed["graph"] == {"vertices": 256, "edges": expected.num_edges}
    assert printed["file"] == str(file)
    assert printed["seconds"] > 0


def test_the_command_takes_what_a_kind_has(monkeypatch, tmp_path):
    words = {
        "grid": ("--rows", "9", "--cols", "8", "--missing", "0.2", "--no-permute"),
        "ring": ("--vertices", "80", "--edge-factor", "3", "--rewired", "0.3", "--permute"),
        "web": ("--scale", "7", "--directed"),
    }
    options = {
        "grid": {"rows": 9, "cols": 8, "missing": 0.2, "permute": False},
        "ring": {"vertices": 80, "edge_factor": 3, "rewired": 0.3, "permute": True},
        "web": {"scale": 7, "directed": True},
    }
    for kind, more in words.items():
        assert command(monkeypatch, kind, *more, "--device", "cpu", "--output", str(tmp_path / f"{kind}.hl")) == 0
        saved = load_graph(tmp_path / f"{kind}.hl")
        assert digest(saved) == digest(generate(kind, **options[kind], device="cpu"))
        assert saved.directed == (kind == "web")


def test_the_command_says_what_is_wrong(monkeypatch, capsys, tmp_path):
    assert command(monkeypatch, "grid", "--rows", "3", "--output", str(tmp_path / "g.hl")) == 1
    assert "a grid graph is sized by scale, or rows and cols, but rows was given" in capsys.readouterr().err
    assert command(monkeypatch, "grid", "--scale", "3") == 2


@pytest.mark.parametrize("sizes", [{"scale": 6.5}, {"scale": "6"}, {"scale": 6, "seed": 1.5}, {"scale": 6, "edge_factor": 1.5}])
def test_numbers_that_are_not_whole_get_a_sentence(sizes):
    with pytest.raises(ConfigError, match="whole number"):
        generate("kronecker", **sizes)
