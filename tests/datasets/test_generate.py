"""Generated data sets: the same on any number of threads, skewed, and easier to learn with neighbours than without."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland import _core
from hinterland.runtime.errors import ConfigError
from hinterland.runtime.params import struct


@pytest.fixture(scope="module")
def products() -> hl.datasets.Dataset:
    return hl.datasets.generate("products", scale=0.003, seed=5, device="cpu")


def parts(made) -> list[torch.Tensor]:
    """Everything that a data set holds."""
    graphs = made.graphs.values() if isinstance(made, hl.datasets.HeteroDataset) else [made.graph]
    tables = made.features.values() if isinstance(made, hl.datasets.HeteroDataset) else [made.features]
    arrays = [array for graph in graphs for array in (graph.indptr, graph.indices)]
    return [*arrays, *(table.cpu() for table in tables), made.labels, *made.splits.values()]


@pytest.mark.parametrize("shape, scale", [("products", 5e-4), ("papers100M", 5e-5), ("mag240m", 1e-5), ("igbh", 2e-6)])
def test_any_number_of_threads_makes_the_same(set_threads, shape, scale):
    made = []
    for count in (1, 2, 3):
        set_threads(count)
        made.append(parts(hl.datasets.generate(shape, scale=scale, seed=9, device="cpu")))
    for other in made[1:]:
        assert all(torch.equal(a, b) for a, b in zip(made[0], other, strict=True))
    again = parts(hl.datasets.generate(shape, scale=scale, seed=10, device="cpu"))
    assert not any(torch.equal(a, b) for a, b in zip(made[0][1:2], again[1:2], strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("shape, scale", [("products", 1e-3), ("mag240m", 1e-5), ("igb", 1e-5)])
def test_a_gpu_makes_the_same(shape, scale):
    ours, theirs = (parts(hl.datasets.generate(shape, scale=scale, device=device)) for device in ("cpu", "cuda"))
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def _philox(key: int, low: int, high: int) -> list[int]:
    return list(_core.philox(key, low, high))


@pytest.mark.parametrize("columns", [1, 3, 4, 100, 128, 131, 260])
def test_features_are_what_they_are_said_to_be(columns):
    """Centre, share of strays and noise, worked out here value by value."""
    seed, classes, count = 77, 5, 6
    labels = torch.tensor([0, 1, 2, 3, 4, 0], dtype=torch.int32)
    table = torch.empty(count, columns)
    params = struct("datasets::FeatureParams")(seed=seed, communities=classes, community_of=labels.data_ptr(), end=count)
    params.columns, params.to = columns, table.data_ptr()
    _core.fill_features(params.address)
    key = {}
    for name, stream in (("noise", 3), ("center", 4)):
        low, high, *_ = _philox(seed, stream, 2**64 - 1)
        key[name] = high << 32 | low
    for vertex in range(count):
        drawn = _philox(key["noise"], vertex, 2**64 - 1)
        shown = int(labels[vertex]) if drawn[0] >= int(0.4 * 2**32) else (drawn[1] << 32 | drawn[2]) * classes >> 64
        for column in range(columns):
            noise = _philox(key["noise"], vertex, column // 4)[column % 4]
            center = _philox(key["center"], shown, column // 128)[column % 128 // 32]
            sign = 1 if center >> column % 32 & 1 else -1
            expected = (sum(noise.to_bytes(4, "little")) - 510 + sign * 72) / 128
            assert float(table[vertex, column]) == expected


def test_float16_holds_every_value_exactly():
    made = hl.datasets.generate("mag240m", scale=2e-5, device="cpu").features["paper"].cpu()
    assert made.dtype == torch.float16 and float(made.abs().max()) < 8
    assert torch.equal(made.float() * 128, (made.float() * 128).round())


@settings(max_examples=30)
@given(owners=st.integers(1, 300), members=st.integers(1, 300), classes=st.integers(1, 40), seed=st.integers(0, 2**64 - 1))
def test_edges_join_vertices_of_their_types(owners, members, classes, seed):
    edges = 500
    kinds = (_core.CommunityVertices(seed // 3, owners, classes), _core.CommunityVertices(seed // 5, members, classes))
    source = _core.community_edges(edges, seed, *kinds)
    ends = torch.empty(2, edges, dtype=torch.int64)
    _core.list_edges(source, 0, edges, ends[0].data_ptr(), ends[1].data_ptr())
    assert int(ends.min()) >= 0 and int(ends[0].max()) < owners and int(ends[1].max()) < members
    labels = [torch.full((n,), -1, dtype=torch.int32) for n in (owners, members)]
    for kind, held in zip(kinds, labels, strict=True):
        _core.fill_communities(kind, held.data_ptr())
        sizes = held.bincount(minlength=classes)
        assert int(sizes.max() - sizes.min()) <= 1  # communities are of one size
    if members >= classes > 1:
        own = float((labels[0][ends[0]] == labels[1][ends[1]]).float().mean())
        assert own > 0.6
    assert ends[0].bincount(minlength=owners).min() >= 125 // owners  # every fourth edge goes to the lists in turn


def test_degrees_are_skewed_and_no_list_is_empty(products):
    degrees = products.graph.degrees().sort(descending=True).values
    assert int(degrees[-1]) >= 1
    top = int(degrees[: len(degrees) // 100].sum()) / products.graph.num_edges
    assert top > 0.1  # of a uniform graph it would be about 0.012


def test_most_neighbours_are_of_the_own_community(products):
    rows = torch.repeat_interleave(products.graph.degrees())
    same = products.labels[rows] == products.labels[products.graph.indices.long()]
    assert 0.55 < float(same.float().mean()) < 0.75


def _accuracy(x: torch.Tensor, made: hl.datasets.Dataset, train: torch.Tensor, test: torch.Tensor) -> float:
    """A linear model's accuracy: ridge regression on the classes."""
    x = torch.cat([x, torch.ones(len(x), 1)], 1).double()
    classes = torch.nn.functional.one_hot(made.labels[train], made.num_classes).double()
    weights = torch.linalg.solve(x[train].T @ x[train] + 10 * torch.eye(x.shape[1], dtype=torch.double), x[train].T @ classes)
    return float(((x[test] @ weights).argmax(1) == made.labels[test]).double().mean())


def test_neighbours_tell_what_features_do_not(products):
    """Features averaged over two hops (SGC, Wu et al. 2019) beat the vertex's own by far; those are right for three in five."""
    graph, x = products.graph, products.features.cpu()
    rows, degrees = torch.repeat_interleave(graph.degrees()), graph.degrees().unsqueeze(1)

    def averaged(values: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(values).index_add_(0, rows, values[graph.indices.long()]) / degrees

    order = torch.from_numpy(np.random.default_rng(0).permutation(len(x)))
    train, test = order[: len(x) // 2], order[len(x) // 2 :]
    alone = _accuracy(x, products, train, test)
    heard = _accuracy(torch.cat([x, averaged(x), averaged(averaged(x))], 1), products, train, test)
    assert alone < 0.66
    assert heard > alone + 0.2


@pytest.mark.parametrize("shape", [name for name, full in hl.datasets.SHAPES.items() if len(full.vertices) == 1])
@pytest.mark.parametrize("scale", [1e-4, 4e-4])
def test_sizes_scale(shape, scale):
    full = hl.datasets.SHAPES[shape]
    scale = scale / 10 if shape == "igb" else scale
    made = hl.datasets.generate(shape, scale=scale, device="cpu")
    assert made.num_vertices == round(full.vertices["node"] * scale)
    assert tuple(made.features.shape) == (made.num_vertices, full.columns["node"]) and made.features.dtype == full.dtype
    assert made.graph.num_edges == round(full.edges["node", "to", "node"] * scale) * (1 + full.undirected)
    assert made.graph.directed != full.undirected
    for size, part in zip(full.splits, made.splits.values(), strict=True):
        assert abs(len(part) - size * scale) <= 2 and bool((part.diff() > 0).all())
    everything = torch.cat(list(made.splits.values()))
    assert len(everything.unique()) == len(everything)
    assert bool((made.labels[everything] >= 0).all()) and int((made.labels >= 0).sum()) == len(everything)
    assert int(made.labels.max()) < made.num_classes <= full.classes


def test_types_and_relations():
    made = hl.datasets.generate("igbh", scale=1e-5, seed=3, symmetrize=True, device="cpu")
    assert isinstance(made, hl.datasets.HeteroDataset) and made.target == "paper"
    for (source, name, target), graph in made.graphs.items():
        n, m = made.num_vertices[source], made.num_vertices[target]
        assert int(graph.indptr[m]) == graph.num_edges and int(graph.indices.max()) < n
        if source != target and not name.startswith("rev_"):
            reverse = made.graphs[target, f"rev_{name}", source]
            assert (reverse.to_scipy() != graph.to_scipy().T).nnz == 0
    assert not made.graphs["paper", "cites", "paper"].directed


def test_a_shape_of_ones_own():
    shape = hl.datasets.Shape({"node": 500}, {"node": 6}, {("node", "to", "node"): 3000}, (100, 50, 350), 4)
    made = hl.datasets.generate(shape, device="cpu")
    assert made.num_vertices == 500 and made.num_classes == 4 and made.name == "generated"


def shaped(kind, relation):
    return hl.datasets.Shape({kind: 600}, {kind: 8}, {relation: 3000}, (240, 120, 240), 4, target=kind)


@pytest.mark.parametrize(
    "options, says",
    [
        ({"shape": "reddit"}, "no data set's shape is called 'reddit'; there are products"),
        ({"scale": 0}, "scale 0 is not above 0"),
        ({"scale": float("nan")}, "scale nan is not above 0"),
        ({"scale": "small"}, "scale .small. is not a number"),
        ({"scale": 1e-9}, "leaves 1 vertices to classify"),
        ({"shape": "igb", "scale": 900}, "more than 2\\^40"),
        ({"seed": -1}, "seed -1 is not a whole number"),
        ({"seed": 0.5}, "seed 0.5 is not a whole number"),
        ({"placement": "gpu", "scale": 1e-4}, "features are placed in host memory"),
        ({"shape": shaped("node", ("node", "cites", "node"))}, "has features of 'node' and the relation .*'to'.*'cites'"),
        ({"shape": shaped("paper", ("paper", "to", "paper"))}, "has features of 'node' and the relation"),
        ({"shape": shaped("node", ("author", "to", "node"))}, "counts no vertices of type 'author', only of node"),
    ],
)
def test_wrong_options_get_a_sentence(options, says):
    with pytest.raises(ConfigError, match=says):
        hl.datasets.generate(**options)
