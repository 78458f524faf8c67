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

from hinterland import _core, from_edges, generate, load_graph, random_weights
from hinterland.cli import main
from hinterland.graph.arrays import placements
from hinterland.runtime.errors import ConfigError

# The package's `generate` is the function.
module = importlib.import_module("hinterland.graph.generate")

ALL_ONES = 2**64 - 1
SMALL = [
    ("kronecker", {"scale": 10}),
    ("uniform", {"scale": 10}),
    ("uniform", {"vertices": 1000, "edge_factor": 5}),
    ("grid", {"rows": 30, "cols": 41}),
    ("grid", {"scale": 9}),
]


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


def listed(kind: int, edges: int, seed: int, vertices: int, scale: int = 0, columns: int = 1) -> np.ndarray:
    ends = torch.empty(2, edges, dtype=torch.int64)
    source = _core.generated_edges(kind, edges, seed, vertices, scale, columns)
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
    given = random_weights(from_edges(src, dst), "int32", 5, placement="gpu" if device.type == "cuda" else "heap").weights
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


@pytest.mark.parametrize(("kind", "sizes"), SMALL)
def test_any_number_of_threads_gives_the_same_graph(kind, sizes):
    before = _core.num_threads()
    try:
        digests = set()
        for threads in (1, 2, 7):
            _core.set_num_threads(threads)
            digests.add(digest(generate(kind, **sizes, weights=True, device="cpu")))
    finally:
        _core.set_num_threads(before)
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
        ("star", {"scale": 3}, "no generator is called 'star'; there are kronecker, uniform, grid"),
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
    kind, shape = [f"{name}>" in instance for name in ("Kronecker", "Uniform", "Grid")].index(True), params.shape
    ends = listed(kind, params.edges, shape.seed, shape.vertices, shape.scale, shape.columns)
    rows, cols = np.concatenate([ends, ends[::-1]], axis=1)[:, np.tile(ends[0] != ends[1], 2)]
    if "count_rows" in instance:
        np.add.at(array(params.degrees, shape.vertices), rows, 1)
    else:
        mine = (rows >= params.first_row) & (rows < params.end_row)
        assert array(params.cursor, 1)[0] == 0
        array(params.keys, mine.sum())[:] = rows[mine] << params.bits | cols[mine]


@pytest.mark.parametrize(("piece", "weights"), [(1 << 28, torch.int32), (3000, torch.uint8), (2000, torch.float32)])
@pytest.mark.parametrize(("kind", "sizes"), SMALL)
def test_pieces_put_together_are_the_graph(kind, sizes, piece, weights, monkeypatch):
    monkeypatch.setattr(module, "launch", fake_launch)
    monkeypatch.setattr(module.devices, "sm_count", lambda device: 1)
    recipe = module._recipe(
        kind, **{"scale": None, "edge_factor": 16, "vertices": None, "rows": None, "cols": None} | sizes, seed=9
    )
    bits = max((recipe.vertices - 1).bit_length(), 1)
    parts = module._rows_in_pieces(recipe, weights, bits, piece, torch.device("cpu"))
    graph = generate(kind, **sizes, seed=9, weights=weights, device="cpu")
    assert parts is not None
    indptr, indices, drawn = parts
    assert len(indices) >= min(2, 2 * recipe.edges // piece)
    assert torch.equal(indptr, graph.indptr)
    assert torch.equal(torch.cat(indices), graph.indices)
    assert torch.equal(torch.cat(drawn), graph.weights)


def test_a_row_larger_than_a_piece_goes_to_the_cpu(monkeypatch):
    monkeypatch.setattr(module, "launch", fake_launch)
    monkeypatch.setattr(module.devices, "sm_count", lambda device: 1)
    recipe = module._recipe("kronecker", 10, 16, None, None, None, 1)
    assert module._rows_in_pieces(recipe, None, 10, 10, torch.device("cpu")) is None


def test_the_plan_keeps_to_the_free_memory():
    recipe = module._recipe("kronecker", 25, 16, None, None, None, 1)
    host, gpu = placements("heap"), dict.fromkeys(("indptr", "indices", "weights"), "gpu")
    assert module._piece_size(recipe, None, host, 140 << 30) == 1 << 28
    assert 1 << 20 <= module._piece_size(recipe, None, host, 12 << 30) < 1 << 28
    assert module._piece_size(recipe, None, host, 4 << 30) is None
    assert module._piece_size(recipe, torch.int32, gpu, 16 << 30) is None


@pytest.mark.gpu
@pytest.mark.parametrize("weights", [None, "uint8", "int32", "float32"])
@pytest.mark.parametrize(("kind", "sizes"), [*SMALL, ("kronecker", {"scale": 16}), ("uniform", {"vertices": 100_003})])
def test_cpu_and_gpu_make_the_same_graph(kind, sizes, weights):
    for seed in (1, 2**63 + 5):
        on_cpu = generate(kind, **sizes, seed=seed, weights=weights, device="cpu", placement="heap")
        on_gpu = generate(kind, **sizes, seed=seed, weights=weights, device="cuda")
        assert digest(on_cpu) == digest(on_gpu)


@pytest.mark.gpu
@pytest.mark.parametrize("place", ["gpu", "host", "mapped", "registered", "heap"])
def test_gpu_pieces_and_placements(place, monkeypatch):
    monkeypatch.setattr(module, "_PIECE", 50_000)
    on_cpu = generate("kronecker", scale=13, weights=True, device="cpu", placement="heap")
    on_gpu = generate("kronecker", scale=13, weights=True, device="cuda", placement=place)
    assert place in ("host", *on_gpu.placement.values())
    assert digest(on_cpu) == digest(on_gpu)


@pytest.mark.gpu
def test_a_full_gpu_leaves_it_to_the_cpu(monkeypatch):
    monkeypatch.setattr(module.devices, "free_bytes", lambda device: 1 << 10)
    monkeypatch.setattr(module, "_rows_in_pieces", lambda *args: pytest.fail("the GPU was used"))
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


def test_the_command_says_what_is_wrong(monkeypatch, capsys, tmp_path):
    assert command(monkeypatch, "grid", "--rows", "3", "--output", str(tmp_path / "g.hl")) == 1
    assert "a grid graph is sized by scale, or rows and cols, but rows was given" in capsys.readouterr().err
    assert command(monkeypatch, "grid", "--scale", "3") == 2


@pytest.mark.parametrize("sizes", [{"scale": 6.5}, {"scale": "6"}, {"scale": 6, "seed": 1.5}, {"scale": 6, "edge_factor": 1.5}])
def test_numbers_that_are_not_whole_get_a_sentence(sizes):
    with pytest.raises(ConfigError, match="whole number"):
        generate("kronecker", **sizes)
