"""Data sets of known shapes at any scale, without a network: hubs, communities, features and labels that can be learned.

A vertex's label is its community. Its neighbours are mostly of its own (``include/hinterland/datasets/citations.hpp``; of
several types ``include/hinterland/graph/communities.hpp``), and its features show that community or, for two vertices in five,
any (``include/hinterland/datasets/features.hpp``). So a model that sees the features alone is right for about three in five,
and one that hears from the neighbours for most.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from .. import _core
from ..graph import Graph, arrays
from ..graph.build import build
from ..memory.copies import copy
from ..runtime import arguments, devices
from ..runtime.errors import ConfigError
from ..runtime.launch import launch
from ..runtime.params import Params, struct
from ..runtime.progress import progress
from ..runtime.thresholds import FEATURE_BYTES
from ..table import UnifiedTensor
from .citations import BLOCK, BLOCKS_PER_SM, FEATURES, KERNELS, citation_lists
from .dataset import SPLITS, AnyDataset, Dataset, EdgeType, HeteroDataset
from .files import placements
from .source import FLOATS, HOMOGENEOUS, Placement

_FeatureParams = struct("datasets::FeatureParams")
_DRAWN = 1.14  # edges drawn for each edge of the shape: about so many are repeated or self loops, and go
_ENOUGH, _MOST_DRAWN = 0.97, 2.0  # shares of the shape's edges: with fewer than the first, more are drawn, up to the second
_LEAST_TRAINED = 20  # training vertices of each class, on average; smaller data sets have fewer classes
_FEWEST = 16  # vertices to classify
_LABELLED_SHARE = 2  # of an area's vertices, about one in so many has a label; all labels are in one area
_NODE, _EDGES = HOMOGENEOUS[0], HOMOGENEOUS


@dataclass(frozen=True)
class Shape:
    """A data set's sizes at scale 1.

    Attributes:
        vertices: by type.
        columns: of the features, by type; types without features are left out.
        dtype: of the features.
        edges: by edge type (source, relation, target), before reverses are added.
        undirected: whether each edge counts in both directions.
        splits: vertices for training, validation and test; all other vertices have no label.
        classes, target: as in HeteroDataset.
    """

    vertices: dict[str, int]
    columns: dict[str, int]
    edges: dict[EdgeType, int]
    splits: tuple[int, int, int]
    classes: int
    dtype: torch.dtype = torch.float32
    undirected: bool = False
    target: str = _NODE


# OGB's and MAG240M's counts are those of the data sets, IGB's those of its largest size; of IGBH's smaller types and
# relations they are round, as are Wikipedia's and Amazon's (Min 2022, table 3.4; that it has 47 classes, and a tenth of the
# vertices to train on, is our guess).
SHAPES = {
    "products": Shape(
        {_NODE: 2_449_029}, {_NODE: 100}, {_EDGES: 61_859_140}, (196_615, 39_323, 2_213_091), 47, undirected=True
    ),
    "papers100M": Shape(
        {_NODE: 111_059_956}, {_NODE: 128}, {_EDGES: 1_615_685_872}, (1_207_179, 125_265, 214_338), 172
    ),
    "igb": Shape(
        {_NODE: 269_346_174}, {_NODE: 1024}, {_EDGES: 3_727_095_830}, (136_278_514, 45_426_171, 45_426_173), 19
    ),
    "igb-medium": Shape(
        {_NODE: 10_000_000}, {_NODE: 1024}, {_EDGES: 120_077_694}, (6_000_000, 2_000_000, 2_000_000), 19
    ),
    "wikipedia": Shape(
        {_NODE: 13_600_000}, {_NODE: 315}, {_EDGES: 437_200_000}, (1_360_000, 136_000, 136_000), 47
    ),
    "amazon": Shape(
        {_NODE: 14_700_000}, {_NODE: 578}, {_EDGES: 64_000_000}, (1_470_000, 147_000, 147_000), 47
    ),
    "mag240m": Shape(
        {"paper": 121_751_666, "author": 122_383_112, "institution": 25_721},
        {"paper": 768},
        {
            ("author", "affiliated_with", "institution"): 44_592_586,
            ("author", "writes", "paper"): 386_022_720,
            ("paper", "cites", "paper"): 1_297_748_926,
        },
        (1_112_392, 138_949, 146_818),
        153,
        dtype=torch.float16,
        target="paper",
    ),
    "igbh": Shape(
        {
            "paper": 269_346_174,
            "author": 277_220_883,
            "institute": 27_000,
            "fos": 700_000,
            "journal": 49_000,
            "conference": 4_500,
        },
        dict.fromkeys(("paper", "author", "institute", "fos", "journal", "conference"), 1024),
        {
            ("paper", "cites", "paper"): 3_727_095_830,
            ("paper", "written_by", "author"): 720_000_000,
            ("author", "affiliated_to", "institute"): 50_000_000,
            ("paper", "topic", "fos"): 1_100_000_000,
            ("paper", "published", "journal"): 100_000_000,
            ("paper", "venue", "conference"): 8_000_000,
        },
        (136_278_514, 45_426_171, 45_426_173),
        19,
        target="paper",
    ),
}  # fmt: skip


def generate(
    shape: str | Shape = "papers100M",
    *,
    scale: float = 1.0,
    seed: int = 1,
    symmetrize: bool = False,
    placement: Placement = "host",
    device: torch.device | str | None = None,
) -> AnyDataset:
    """A data set of the shape of a known one: a graph with hubs and communities, features, labels and splits.

    The same arguments give the same data set, on every device and for any number of threads.

    Args:
        shape: a name in ``SHAPES``, or a Shape of your own. ``"products"`` is undirected, ``"mag240m"`` and ``"igbh"`` have
            several types, all others are directed and of one.
        scale: what all counts of vertices and edges are multiplied by; columns and classes stay, except that there are never
            so many classes that fewer than 20 training vertices would fall to each. Of one type of vertices, the number of
            edges is exact, or as many as n vertices have without loops and reverses, n (n - 1) / 2. Of several, edges are drawn
            at random and repeated ones left out: their number is right within a few per cent (less where they are dense).
        seed: 0 to 2^64 - 1.
        symmetrize: as in ``open``; of one type it doubles the number of edges.
        placement: as in ``open``.
        device: where features, and lists of one type, are made; by default on the GPU, if there is one.

    Returns:
        A Dataset, or a HeteroDataset for a shape of several types. Vertices outside the splits have the label -1.

    Raises:
        ConfigError: no such shape, one whose parts do not name each other, or a scale or seed out of range.
        OutOfMemory: the data set does not fit.
    """
    symmetrize = arguments.switch("symmetrize", symmetrize)
    sizes, name = _scaled(shape, scale), shape if isinstance(shape, str) else "generated"
    seed = arguments.whole_number("seed", seed, 0, 2**64 - 1)
    device, places = devices.as_device(device), placements(placement)
    classes = max(2, min(sizes.classes, sizes.splits[0] // _LEAST_TRAINED))
    made = _Maker(sizes, seed, classes)
    graphs = made.graphs(symmetrize, {array: places[array] for array in arrays.NAMES}, device)
    communities = made.communities(sizes.target)
    features = {
        kind: made.features(kind, communities if kind == sizes.target else made.communities(kind), places["features"], device)
        for kind in sizes.columns
    }
    splits = made.splits(communities)
    labels = torch.full((sizes.vertices[sizes.target],), -1, dtype=torch.int64)
    for part in splits.values():
        labels[part] = communities[part].to(torch.int64)
    if len(sizes.vertices) == 1:
        return Dataset(graphs[_EDGES], features[_NODE], labels, splits, classes, name, messages="in")
    return HeteroDataset(graphs, features, dict(sizes.vertices), labels, splits, classes, sizes.target, name, messages="in")


def _scaled(shape: str | Shape, scale: float) -> Shape:
    if isinstance(shape, str) and shape not in SHAPES:
        raise ConfigError(f"no data set's shape is called {shape!r}; there are {', '.join(SHAPES)}")
    arguments.instance("shape", shape, (str, Shape), "as 'papers100M' is")
    given, scale = scale, arguments.number("scale", scale)
    if not 0 < scale <= 1000:
        raise ConfigError(f"scale {given!r} is not above 0 and at most 1000")
    full = SHAPES[shape] if isinstance(shape, str) else shape
    _check_shape(full)
    ends = [*full.columns, *(end for source, _, target in full.edges for end in (source, target)), full.target]
    if unknown := [kind for kind in ends if kind not in full.vertices]:
        raise ConfigError(f"the shape counts no vertices of type {unknown[0]!r}, only of {', '.join(full.vertices)}; name them")
    if len(full.vertices) == 1 and (list(full.columns), list(full.edges)) != ([_NODE], [_EDGES]):
        raise ConfigError(
            f"a shape of one type of vertices has features of {_NODE!r} and the relation {_EDGES}, not features of "
            f"{list(full.columns)} and relations {list(full.edges)}; name them so"
        )

    def times(count: int) -> int:
        return max(round(count * scale), 1)

    vertices = {kind: times(count) for kind, count in full.vertices.items()}
    edges = {kind: times(count) for kind, count in full.edges.items()}
    count, (train, valid, test) = vertices[full.target], map(times, full.splits)
    if count < _FEWEST:
        raise ConfigError(f"scale {scale} leaves {count} vertices to classify, fewer than {_FEWEST}; choose a larger one")
    if max(*vertices.values(), *edges.values()) > 1 << 40:
        raise ConfigError(f"scale {scale} makes more than 2^40 vertices or edges; choose a smaller one")
    return dataclasses.replace(full, vertices=vertices, edges=edges, splits=(train, valid, min(test, count - train - valid)))


def _check_shape(shape: Shape) -> None:
    """Refuses parts of a shape that are not what Shape says."""
    for name, counts in (("vertices", shape.vertices), ("columns", shape.columns), ("edges", shape.edges)):
        arguments.instance(name, counts, Mapping, "by type, as Shape says")
        for kind, count in counts.items():
            if not isinstance(kind, str) and name != "edges":
                raise ConfigError(f"{name} names the type {arguments.repr_of(kind)}; names of types are words")
            arguments.whole_number(f"{name}[{kind!r}]", count, 0)
    for kind in shape.edges:
        if not (isinstance(kind, tuple) and len(kind) == 3):
            raise ConfigError(
                f"edges of {arguments.repr_of(kind)} are not named by three words, as in ('author', 'writes', 'paper')"
            )
    if not isinstance(shape.splits, Sequence) or len(shape.splits) != 3:
        raise ConfigError(f"splits are three counts, for training, validation and test, not {arguments.repr_of(shape.splits)}")
    for count in shape.splits:
        arguments.whole_number("a split's count", count, 0)
    arguments.whole_number("classes", shape.classes, 1)
    if not isinstance(shape.dtype, torch.dtype) or shape.dtype not in FLOATS:
        raise ConfigError(f"features are {', '.join(map(str, FLOATS))}, not {arguments.repr_of(shape.dtype)}")
    if not isinstance(shape.target, str):
        raise ConfigError(f"target is the name of a type, not {arguments.repr_of(shape.target)}")


class _Maker:
    """Makes the parts of one data set; each has random streams of its own."""

    def __init__(self, sizes: Shape, seed: int, classes: int) -> None:
        self._sizes, self._seed, self._classes = sizes, seed, classes
        self._seeds = {kind: self._stream(0, number) for number, kind in enumerate(sizes.vertices)}
        one_type, labelled = len(sizes.vertices) == 1, max(sum(sizes.splits), 1)
        self._areas = max(sizes.vertices[sizes.target] // (_LABELLED_SHARE * labelled), 1) if one_type else 1
        self._communities = classes * self._areas  # labels are those of the first area
        self._kinds = {
            kind: _core.CommunityVertices(self._seeds[kind], n, self._communities) for kind, n in sizes.vertices.items()
        }

    def _stream(self, part: int, number: int) -> int:
        """The seed of a part: of vertices of one type (part 0), edges of one type (1), the splits (2)."""
        low, high, *_ = _core.philox(self._seed, number, part)
        return high << 32 | low

    def graphs(self, symmetrize: bool, placement: Placement, device: torch.device) -> dict[EdgeType, Graph]:
        if len(self._sizes.vertices) == 1:
            return {_EDGES: self._citations(symmetrize, placement, device)}
        graphs = {}
        for number, (source, name, target) in enumerate(self._sizes.edges):
            graph = graphs[source, name, target] = self._graph(number, (source, name, target), symmetrize, placement)
            if symmetrize and source != target:
                graphs[target, f"rev_{name}", source] = graph.transpose()
        return graphs

    def _citations(self, symmetrize: bool, placement: Placement, device: torch.device) -> Graph:
        """The one graph of a shape of one type."""
        count, mirror = self._sizes.vertices[_NODE], symmetrize or self._sizes.undirected
        edges = min(self._sizes.edges[_EDGES], count * (count - 1) // 2)
        vertices, fields = (self._seeds[_NODE], count), (self._classes, self._areas)
        lists = citation_lists(edges, self._stream(1, 0), vertices, fields, mirror, placement, device)
        return Graph.of(lists, directed=not mirror)

    def _graph(self, number: int, kind: EdgeType, symmetrize: bool, placement: Placement) -> Graph:
        """The lists of in-neighbours of one edge type. Draws more if too many edges were repeated: in small, dense graphs."""
        source, _, target = kind
        same, wanted = source == target, self._sizes.edges[kind]
        mirror = same and (symmetrize or self._sizes.undirected)
        drawn = math.ceil(wanted * _DRAWN)
        while True:
            lists = build(
                _core.community_edges(drawn, self._stream(1, number), self._kinds[target], self._kinds[source]),
                _core.EdgeRules(mirror=mirror, drop_loops=same),
                max(self._sizes.vertices[source], self._sizes.vertices[target]),
                remove_duplicates=True,
                placement=placement,
            )
            found = lists.num_edges / (2 if mirror else 1)
            if found >= _ENOUGH * wanted or drawn >= _MOST_DRAWN * wanted:
                return Graph.of(lists, directed=not mirror)
            del lists
            drawn = math.ceil(min(drawn * wanted / max(found, 1), _MOST_DRAWN * wanted))

    def communities(self, kind: str) -> torch.Tensor:
        """The community of each vertex, int32."""
        communities = torch.empty(self._sizes.vertices[kind], dtype=torch.int32)
        _core.fill_communities(self._kinds[kind], communities.data_ptr())
        return communities

    def features(self, kind: str, communities: torch.Tensor, placement: str, device: torch.device) -> UnifiedTensor:
        count, columns = self._sizes.vertices[kind], self._sizes.columns[kind]
        table = UnifiedTensor._allocate((count, columns), self._sizes.dtype, placement)
        step = max(FEATURE_BYTES // (4 * max(columns, 1)), 1)
        with progress(f"features of {kind}", table.nbytes) as done:
            for begin in range(0, count, step):
                end = min(begin + step, count)
                part = table.cpu()[begin:end]
                if device.type == "cuda":
                    copy(part, self._on_gpu(kind, communities[begin:end], begin, columns, device))
                else:
                    values = part if part.dtype == torch.float32 else torch.empty(part.shape)
                    filling = self._filling(kind, communities[begin:end], begin, values)
                    _core.fill_features(filling.address)
                    if values is not part:
                        part.copy_(values)
                done(part.nbytes)
        return table

    def _on_gpu(self, kind: str, communities: torch.Tensor, begin: int, columns: int, device: torch.device) -> torch.Tensor:
        """Rows from ``begin`` on, on the GPU."""
        held = communities.to(device)
        rows = torch.empty(len(held), columns, device=device)
        grid = devices.sm_count(device) * BLOCKS_PER_SM
        launch(KERNELS, FEATURES, device, grid, BLOCK, self._filling(kind, held, begin, rows))
        return rows.to(self._sizes.dtype)

    def _filling(self, kind: str, communities: torch.Tensor, begin: int, rows: torch.Tensor) -> Params:
        """How ``rows`` are filled in, those of vertices from ``begin`` on, which are in ``communities``."""
        made = _FeatureParams(seed=self._seeds[kind], communities=self._communities, community_of=communities.data_ptr())
        made.begin, made.end, made.columns, made.to = begin, begin + len(rows), rows.shape[1], rows.data_ptr()
        return made

    def splits(self, communities: torch.Tensor) -> dict[str, torch.Tensor]:
        """Random vertices of the target type, ascending, whose communities are classes."""
        sizes, members = list(self._sizes.splits), (communities < self._classes).nonzero()[:, 0]
        order = torch.empty(sum(sizes), dtype=torch.int64)
        _core.list_permutation(self._stream(2, 0), len(members), 0, len(order), order.data_ptr())
        return {name: members[part].sort().values for name, part in zip(SPLITS, order.split(sizes), strict=True)}
