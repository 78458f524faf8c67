"""Whatever a public function is given, it answers, or says in a sentence of ours what is wrong.

Each argument of each function in turn is replaced by everything that is not what it takes: other types, numbers that no
machine counts to, tensors without data. Functions of the user's are left out, since what they raise is the user's to see.
At the end every function and class in an ``__all__`` is called so, by its signature, with a wrong kind of value for each.
"""

from __future__ import annotations

import inspect
import tempfile
import warnings
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import hinterland as hl
from hinterland import (
    datasets,
    fullgraph,
    graph,
    hotness,
    kernels,
    machine,
    memory,
    nn,
    sampling,
    storage,
    training,
)
from hinterland.graph import Graph
from hinterland.graph.algorithms import known
from hinterland.runtime.errors import HinterlandError
from hinterland.table import UnifiedTensor

NUMBERS = [True, 0, -1, 2**31, 2**63 - 1, 2**63, 2**64 + 5, 10**30, -(2**63) - 1, 10**400, 10**5000]
REALS = [0.5, 1e300, float("nan"), float("inf"), float("-inf"), 1j, Fraction(1, 3), np.float32("nan"), np.int64(-3)]
WORDS = ["", "no such word", "\0", "1e5", "é" * 300, "\udcff", b"bytes", Path("/no/such\0place"), Path("/dev/null/x")]
LISTS = [[], {}, [None], ["a"], [0.5], [float("nan")], [2**64 + 5], [10**30], [-1], [[0], [1, 2]], [[]], {"a": None}, {None: 1}]
LISTS += [{0: 0.5}, {"a": "host"}, {0: float("nan")}, {10**30: 1}, [torch.zeros(2)], [b"\0"]]
OTHERS = [None, object(), int, slice(None), ..., np.zeros(3), np.zeros((2, 2), dtype=object)]
DEVICES = [torch.device("meta"), "cuda:99", "meta", "cpu:7", torch.device("xla"), torch.float32, torch.quint8]


def tensors() -> list[torch.Tensor]:
    """One of each kind."""
    values = torch.arange(8, dtype=torch.float32)
    types = [torch.bool, torch.uint8, torch.uint16, torch.uint64, torch.bfloat16, torch.float64, torch.complex64]
    made = [torch.ones(8, dtype=torch.float32).to(dtype) for dtype in (*types, torch.float8_e4m3fn)]
    made += [torch.zeros(0), torch.zeros(0, dtype=torch.int64), torch.zeros((0, 3)), torch.tensor(3), torch.tensor(0.5)]
    made += [torch.zeros(8, dtype=torch.int64), torch.full((8,), 2**62), torch.full((8,), -(2**63)), torch.zeros(8, 2)]
    made += [torch.full((8,), float(name)) for name in ("nan", "inf", "-1")]
    made += [torch.ones(8).to_sparse(), torch.ones(8, dtype=torch.int64).to_sparse(), torch.ones(8, 8).to_sparse_csr()]
    made += [torch.ones(8, dtype=torch.int64, device="meta"), torch.ones(8, 2, device="meta")]
    parts = [torch.zeros(2), torch.zeros(3)]
    made += [torch.nested.nested_tensor(parts), torch.nested.nested_tensor(parts, layout=torch.jagged)]
    made += [torch.nested.nested_tensor([part.long() for part in parts])]
    made += [torch.quantize_per_tensor(values, 0.1, 0, torch.quint8), values.clone().requires_grad_() * 2]
    made += [torch.arange(16)[::2], torch.ones(8, dtype=torch.complex64).conj().imag, torch.zeros(1).expand(8)]
    return made


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of torch's about nested, sparse and quantized tensors, which come and go
    BAD = [*NUMBERS, *REALS, *WORDS, *LISTS, *OTHERS, *DEVICES, *tensors()]


class Asked:
    """Queries to an Arrow file that lasts as long as this object."""

    def __init__(self) -> None:
        from pyarrow import feather, table

        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "t.arrow"
        feather.write_feather(table({"x": [1, 2, None], "y": [0.5, 1.5, 2.5]}), self.path)

    def __call__(self, predicate: Any, key: Any, aggregate: Any) -> Any:
        return hl.query(self.path).filter(predicate).group_by(key).agg(aggregate)


STARTS = {"source": 0, "sources": [0, 1]}  # where algorithms begin


def needed(call: Callable[..., Any], of: dict[str, Any]) -> dict[str, Any]:
    """What a function has to be given."""
    return {name: of[name] for name, one in inspect.signature(call).parameters.items() if one.default is one.empty}


def defaults(call: Callable[..., Any]) -> dict[str, Any]:
    """The other arguments."""
    return {name: one.default for name, one in inspect.signature(call).parameters.items() if one.default is not one.empty}


Cases = dict[str, tuple[Callable[..., Any], dict[str, Any]]]


def cases() -> Cases:
    """Of each name a function, and arguments that it takes. What they hold goes with them: other tests count memory."""
    src, dst = torch.tensor([0, 0, 1, 2, 3, 4, 5, 6]), torch.tensor([1, 2, 3, 3, 4, 5, 6, 7])
    plain = hl.from_edges(src, dst, num_vertices=8, symmetrize=True)
    weighted = hl.random_weights(plain, "float32")
    reordered = hl.reorder(plain, "degree")
    packed = hl.compress(plain)
    table = UnifiedTensor.from_tensor(torch.randn(8, 2))
    tiered, cached = table.tiered("1KiB", devices=["cpu"]), table.cached("4KiB", device="cpu")
    with tempfile.TemporaryDirectory() as folder:  # an open file needs no name
        stored = hl.StorageArray.create(Path(folder) / "x.bin", (8, 2), host_budget="64KiB")
    on_storage = stored.tiered("1KiB", host=32, devices=["cpu"])
    labels, index = torch.tensor([0, 1] * 4), torch.arange(3)
    splits = {"train": torch.arange(4), "valid": torch.arange(4, 6), "test": torch.arange(6, 8)}
    dataset = datasets.Dataset(plain, table, labels, splits, 2)
    sampler = sampling.NeighborSampler(plain, [2, 2])
    timed = sampling.NeighborSampler(plain, [2, 2], times=torch.arange(8))
    bag = hl.UnifiedEmbeddingBag(8, 2, mode="sum")
    run = {"gpu_budget": None, "device": None}
    relation = ("a", "to", "a")
    pairs = torch.tensor([[0, 1], [2, 5]])
    nowhere = "/no/such/folder/target"

    found: Cases = {}

    def case(name: str, call: Callable[..., Any], /, **good: Any) -> None:
        found[name] = call, good

    def one_list(weights):
        """A vertex with eight edges to itself."""
        return Graph(torch.tensor([0, 8]), torch.zeros(8, dtype=torch.int64), weights)

    def sampled_by_weight(weights):
        made = one_list(weights)
        sampling.NeighborSampler(made, [2], weighted=True).sample([0])
        sampling.random_walks(made, [0], 3, weighted=True)

    def of_names(**options):
        Path("names.txt").write_text("ann bob\n")
        hl.load_graph("names.txt", **options)

    def train(data=dataset, **options):
        training.train(data, **{"fanouts": (2, 2), "epochs": 1, "hidden": 4, **options})

    def whole(data=dataset, **options):
        training.train_full(data, **{"epochs": 1, "hidden": 4, **options})

    def parts(**changed):
        return {"graph": plain, "features": table, "labels": labels, "splits": splits, "num_classes": 2, **changed}

    def hetero(**changed):
        held = {"graphs": {relation: plain}, "features": {"a": table}, "num_vertices": {"a": 8}, "labels": labels}
        return datasets.HeteroDataset(**{**held, "splits": splits, "num_classes": 2, "target": "a", **changed})

    arrays = {"indptr": torch.tensor([0, 1, 2]), "indices": torch.tensor([1, 0])}
    case("Graph", Graph, **arrays, weights=None, placement="host")
    case("Graph undirected", partial(Graph, directed=False), **arrays, weights=torch.ones(2))
    case("Graph.array", plain.array, name="indptr", device="cpu")
    case("Graph.join", Graph(**arrays).join, other=Graph(**arrays), check=True)
    case("Graph.to_internal", reordered.to_internal, vertices=index)
    case("Graph.to_original", reordered.to_original, values=torch.arange(8))
    case("Graph.to_original of vertices", partial(reordered.to_original, vertices=True), values=torch.arange(8))
    case("Graph.weight_range", lambda weights: one_list(weights).weight_range, weights=torch.ones(8))
    for record in known():
        good = {"graph": weighted if record.weights == "needed" else plain, **STARTS}
        result = record.run(**needed(record.run, good))
        verify = getattr(graph, record.verify)
        case(record.run.__name__, record.run, **{**defaults(record.run), **needed(record.run, good)})
        case(record.verify, verify, **{**defaults(verify), **needed(verify, {**good, "result": result})})
    case("betweenness_centrality's count", partial(hl.betweenness_centrality, plain), sources=2, seed=1)
    case("hits", graph.hits, graph=plain, tolerance=1e-8, max_iterations=9, start=torch.ones(8), **run)
    case("jaccard", graph.jaccard, graph=plain, pairs=pairs)
    case("louvain", graph.louvain, graph=plain, resolution=1, threshold=1e-7, max_levels=3, seed=1)
    case("leiden", graph.leiden, graph=plain, resolution=1, max_levels=3, seed=1)
    case("prepare", hl.prepare, graph=plain, algorithms=("bfs",), scores=None, **run)
    case("Prepared.order_on", hl.prepare(reordered).order_on, device="cpu")
    case("compress", hl.compress, graph=plain, reorder=None, placement=None)
    case("decompress", hl.decompress, graph=packed, placement=None)
    case("reorder", hl.reorder, graph=plain, by="degree", placement=None)
    case("reorder by an order", hl.reorder, graph=plain, order=torch.arange(8))
    case("simplify", graph.simplify, graph=plain, placement=None)
    case("random_weights", hl.random_weights, graph=plain, dtype="int32", seed=1, placement="host")
    case("from_edges", hl.from_edges, src=src, dst=dst, weights=torch.ones(8), placement="host")
    case("from_edges' size", partial(hl.from_edges, src, dst), num_vertices=8)
    case("from_networkx", hl.from_networkx, graph=None, weight=None, placement="host")
    case("from_scipy", hl.from_scipy, matrix=None, placement="host")
    case(
        "kronecker",
        partial(hl.generate, "kronecker"),
        scale=4,
        edge_factor=4,
        seed=1,
        weights=None,
        placement="host",
        device=None,
    )
    case("uniform", hl.generate, kind="uniform", vertices=5)
    case("grid", partial(hl.generate, "grid"), rows=3, cols=3, missing=0.5)
    case("ring", partial(hl.generate, "ring"), vertices=5, edge_factor=2, rewired=0.5)
    case("load_graph", hl.load_graph, path="/dev/null", placement="host", directed=None, weight_dtype=None, format=None)
    case("load_graph of names", of_names, ids="any", placement="host", directed=None, sort_neighbors=None, transpose=None)
    stays = {"placement": "storage", "transpose": None, "host_budget": None, "cache": None}
    case("load_graph on storage", hl.load_graph, path="/dev/null", **stays)
    case("save_graph", hl.save_graph, graph=plain, path=nowhere + ".hl", format=None, transpose=False, host_budget="1MiB")
    case("verify_hits", graph.verify_hits, graph=plain, result=graph.hits(plain), tolerance=1e-4)
    case("verify_leiden", graph.verify_leiden, graph=plain, result=graph.leiden(plain), resolution=1, max_levels=None)
    case("verify_jaccard", graph.verify_jaccard, graph=plain, pairs=pairs, result=graph.jaccard(plain, pairs))
    tables = {"UnifiedTensor": table, "TieredTensor": tiered, "CachedTensor": cached}
    for name, rows in {**tables, "StorageArray": stored, "TieredTensor on storage": on_storage}.items():
        case(f"{name}[]", rows.__getitem__, index=index)
        case(f"{name}[,]", lambda index, rows=rows: rows[0, index], index=1)
        case(f"{name}[]=", rows.__setitem__, index=index, value=1.0)
        case(f"{name}.size", rows.size, dim=0)
        case(f"{name}.gather", rows.gather, index=index, out=None, max_blocks=None, check="sync", sort="auto")
        filled = lambda stats, rows=rows: rows.gather(index, stats=dict(stats) if isinstance(stats, dict) else stats)  # noqa: E731
        case(f"{name}.gather's stats", filled, stats=None)
        case(f"{name}.scatter_", rows.scatter_, index=index, rows=torch.zeros(3, 2))
        case(f"{name}.reach", rows.reach, index=index)
    case("TieredTensor.count", tiered.count, index=index)
    for name, rows in (("StorageArray", stored), ("TieredTensor on storage", on_storage)):
        case(f"{name}.count", rows.count, index=index)
        case(f"{name}.prefetch", rows.prefetch, index=index)
    case("map", partial(hl.kernels.map_chunks, lambda x: x + 1, torch.zeros(8)), out=None, device=None)
    case("map's array", lambda array: hl.kernels.map_chunks(lambda x: x + 1, array), array=torch.zeros(8))
    case(
        "filter's array",
        lambda array, device: hl.kernels.filter_chunks(lambda x: x > 1, array, device=device),
        array=table,
        device=None,
    )
    case(
        "reduce",
        lambda how, device: hl.kernels.reduce_chunks(how, lambda x: x * 2, table, device=device),
        how="sum",
        device=None,
    )
    case("StorageArray.tiered", stored.tiered, local=64, peers=None, host=64, scores=None, order=None, devices=["cpu"])
    place = hl.table.OpenTable(stored).place
    case("OpenTable.place", place, gpu=64, peers=None, host=64, hot=torch.rand(8), devices=["cpu"])
    case("open_table", hl.open_table, path=nowhere, name=None)
    case("StorageArray.pin", stored.pin, index=index)
    case("StorageArray.expect", stored.expect, batches=[index])
    case("StorageArray.open", hl.StorageArray.open, path=__file__, mode="r", dtype=torch.uint8, shape=(4,), offset=0)
    raw = partial(hl.StorageArray.open, __file__, dtype=torch.uint8, shape=4)
    case("StorageArray.open's cache", raw, cache=None, name=None, host_budget="64KiB")
    case("StorageArray.create", hl.StorageArray.create, path=nowhere, shape=(3, 4), dtype=torch.float32)
    case("StorageCache", hl.StorageCache, host_budget="64KiB", line_bytes=512, engine="auto", device_budget="64KiB")
    case("CachedTensor.admit", cached.admit, index=index, max_blocks=None)
    case("UnifiedTensor.empty", UnifiedTensor.empty, shape=(3,), dtype=torch.float32, placement="host")
    case("UnifiedTensor.empty (0, n)", lambda n: UnifiedTensor.empty((0, n)), n=3)
    case("UnifiedTensor.from_tensor", UnifiedTensor.from_tensor, tensor=torch.zeros(3), placement="host")
    case("UnifiedTensor.over", UnifiedTensor.over, tensor=torch.zeros(3))
    case("UnifiedTensor.from_file", UnifiedTensor.from_file, path=__file__, dtype=torch.uint8, shape=(4,), offset=0, name=None)
    raw = partial(UnifiedTensor.from_file, __file__, dtype=torch.uint8, shape=(4,))
    case("UnifiedTensor.from_file on storage", raw, placement="storage", host_budget="64KiB")
    case("UnifiedTensor.view", lambda shape, dtype: table.view(shape, dtype=dtype), shape=(4, 4), dtype=None)
    case("UnifiedTensor.to", table.to, device=None, dtype=None, copy=False)
    case("UnifiedTensor.tiered", table.tiered, local=64, peers=None, scores=None, order=None, devices=["cpu"])
    case("UnifiedTensor.cached", table.cached, budget="4KiB", device="cpu")
    case("UnifiedTensor.cuda", table.cuda, device=None)
    case("allocate", memory.allocate, nbytes=10, mapping="host")
    case("hottest_first", memory.hottest_first, scores=torch.arange(8.0), rows=8)
    case("plan_slots", memory.plan_slots, rows=8, row_bytes=8, budget=4096)
    case("plan_help", memory.plan_help, mapping="pinned", rows=8, row_bytes=8, table_bytes=1 << 30)
    case("plan_sort", memory.plan_sort, mapping="managed", rows=8, row_bytes=8, table_bytes=1 << 30)
    case("plan_tiers of a file", hl.table.plan_tiers, rows=8, row_bytes=8, gpus=1, local=1000, peers=0, host=9, line_bytes=512)
    case("plan_tiers", hl.table.plan_tiers, rows=8, row_bytes=8, gpus=1, local=1000, peers=0)
    case("reorder_rows", hl.table.reorder_rows, table=table, order=torch.arange(8), placement=None)
    case(
        "UnifiedEmbeddingBag",
        hl.UnifiedEmbeddingBag,
        num_embeddings=8,
        embedding_dim=2,
        mode="mean",
        padding_idx=None,
        check="sync",
    )
    sums = partial(training.SparseAdagrad, bag.parameters())
    case("SparseAdagrad", sums, lr=0.1, initial_accumulator_value=0.0, placement=None, rowwise=True)
    case("UnifiedEmbeddingBag's place", partial(hl.UnifiedEmbeddingBag, 8, 2), dtype=torch.float32, placement="host")
    case("from_pretrained", hl.UnifiedEmbeddingBag.from_pretrained, embeddings=torch.zeros(8, 2), padding_idx=None)
    case("bag()", bag, input=torch.arange(4), offsets=torch.tensor([0, 2]), per_sample_weights=None)
    case("Adjacency", sampling.Adjacency, **arrays, num_sources=2, weights=None, placement="host")
    case("Adjacency.of", sampling.Adjacency.of, graph=plain, num_targets=2, num_sources=8)
    case(
        "NeighborSampler", sampling.NeighborSampler, graph=plain, fanouts=[2], times=None, edge_times=None, seed=0, device=None
    )
    case("NeighborSampler's strategy", partial(sampling.NeighborSampler, plain, [2]), temporal_strategy="uniform")
    dated = {"graph": plain, "fanouts": [2], "times": torch.arange(plain.num_vertices)}
    case("NeighborSampler's window", partial(sampling.NeighborSampler, **dated), time_window=3)
    case("NeighborSampler.sample", sampler.sample, seeds=index, batch=0, seed_times=None)
    case("NeighborSampler.sample in time", timed.sample, seeds=index, seed_times=index)
    case("NeighborSampler.over", sampler.over, prepared=hl.prepare(plain, algorithms="sampling"))
    case("weighted draws", sampled_by_weight, weights=torch.ones(8))
    case("HeteroSampler", sampling.HeteroSampler, graphs={relation: plain}, fanouts=[2], times=None, edge_times=None, seed=0)
    case("HeteroSampler's target", partial(sampling.HeteroSampler, {relation: plain}, [2]), target="a")
    case("HeteroSampler of", lambda lists: sampling.HeteroSampler({relation: lists}, [2]), lists=plain)
    case(
        "HeteroSampler.sample",
        sampling.HeteroSampler({relation: plain}, [2]).sample,
        seeds={"a": index},
        batch=0,
        seed_times=None,
    )
    case(
        "PinSAGESampler", sampling.PinSAGESampler, graph=plain, fanouts=[2], walks=2, length=2, restart=0.0, seed=0, device=None
    )
    case("PinSAGESampler.sample", sampling.PinSAGESampler(plain, [2], walks=2).sample, seeds=index, batch=0)
    case("pinsage_neighbors", partial(sampling.pinsage_neighbors, plain), seeds=index, walks=2, length=2, neighbors=2, batch=0)
    case("random_walks", sampling.random_walks, graph=plain, starts=index, length=3, restart=0.0, seed=0, batch=0, device=None)
    case("negative_edges", sampling.negative_edges, graph=plain, count=3, positives=None, seed=0, batch=0, device=None)
    case(
        "Loader",
        training.Loader,
        sampler=sampler,
        seeds=index,
        batch_size=2,
        features=table,
        labels=labels,
        seed=0,
        device=None,
    )
    options = {
        "prefetch": 2,
        "gather_blocks": None,
        "rank": 0,
        "world_size": 1,
        "timeout": 30.0,
        "cache": None,
        "gpu_budget": None,
    }
    case("Loader's options", partial(training.Loader, sampler, index, 2), **options)
    loader = training.Loader(sampler, index, 2, features=table, labels=labels)
    case("Loader.load_state_dict", loader.load_state_dict, state=loader.state_dict())
    case(
        "Pipeline",
        training.Pipeline,
        source=[1],
        stages=[training.Stage("a", abs)],
        device=torch.device("cpu"),
        depth=2,
        timeout=5.0,
    )
    case("plan_cache", training.plan_cache, graph=plain, features=table, sampler=[2], seeds=index, batch_size=2, budget="1KiB")
    case(
        "plan_cache's options",
        partial(training.plan_cache, plain, table, [2], index, 2, 1024),
        policy="auto",
        seed=0,
        costs=None,
    )
    case("joined", training.joined, device=None, timeout=300.0)
    case("SparseSGD", training.SparseSGD, params=bag.parameters(), lr=0.1)
    case(
        "SparseAdagrad",
        partial(training.SparseAdagrad, list(bag.parameters())),
        lr=0.1,
        initial_accumulator_value=0.0,
        eps=1e-10,
    )
    case("make_model", training.make_model, name="sage", inputs=2, hidden=4, classes=2, layers=2, dropout=0.0)
    case(
        "open_shared",
        training.open_shared,
        path=nowhere,
        ranks=training.Ranks(0, 1, torch.device("cpu"), 1, 3.0),
        num_classes=None,
    )
    case("train", train, data=dataset, model="sage", fanouts=(2, 2), hidden=4, batch_size=2, lr=0.01, device=None, cache=None)
    case("train's numbers", train, weight_decay=0.0, dropout=0.5, patience=None, seed=0, timeout=30.0, checkpoint_every=None)
    case("train's places", train, devices=["cpu", "cpu"], round=None, checkpoint=nowhere)
    case("train on", lambda **changed: train(datasets.Dataset(**parts(**changed))), **parts())
    case("train on several types", lambda **changed: train(hetero(**changed)), **vars(hetero()))
    found["train on several types"][1].pop("vertex_types")
    case("train with a split", lambda split: train(datasets.Dataset(**parts(splits={"train": split}))), split=torch.arange(4))
    case("train_full", whole, data=dataset, model="gcn", layers=2, hidden=4, lr=0.01, precision="float32", device=None)
    case("train_full's parts", whole, parts=None, capture=False)
    case("train_full's places", whole, devices=["cpu", "cpu"], strategy="auto", checkpoint=nowhere, timeout=30.0)
    made = {"name": "gcn", "inputs": 2, "hidden": 4, "classes": 2, "layers": 2, "dropout": 0.0, "strategy": "auto"}
    case("make_full_model", training.make_full_model, **made)
    gnn = training.make_model("sage", 2, 4, 2, 2)
    case("infer", training.infer, model=gnn, data=dataset, out=None, device="cpu", batch_size=None, gpu_budget=None)
    case("infer from", lambda graph, x: training.infer(gnn, (graph, x), device="cpu"), graph=plain, x=table)
    several = {"devices": ["cpu", "cpu"], "round": None, "samplers": None, "depth": None}
    case("Factored", training.Factored, loader=loader, sampler_on=len, model=torch.nn.Linear(2, 2), step=abs, **several)
    case("degree", hotness.degree, graph=plain, device=None)
    case("hit_rate", hotness.hit_rate, scores=torch.arange(8.0), counts=torch.ones(8), shares=[0.5])
    case(
        "inclusion_probability", hotness.inclusion_probability, graph=plain, seeds=index, fanouts=[2], batch_size=2, device=None
    )
    case("presample", hotness.presample, sampler=sampler, seeds=index, batch_size=2, seed=0, first_epoch=0)
    case(
        "renumber",
        hotness.renumber,
        graph=plain,
        features=table,
        labels=labels,
        splits={"train": index},
        scores=torch.arange(8.0),
    )
    case("renumber by an order", hotness.renumber, graph=plain, order=torch.arange(8))
    case("reverse_pagerank", hotness.reverse_pagerank, graph=plain, iterations=2, damping=0.85, device=None)
    case(
        "weighted_reverse_pagerank", partial(hotness.weighted_reverse_pagerank, plain), seeds=index, iterations=2, damping=0.85
    )
    case("save", datasets.save, dataset=dataset, target=nowhere, progress=None)
    case("save a Dataset of", lambda **changed: datasets.save(datasets.Dataset(**parts(**changed)), nowhere), **parts())
    case("save a HeteroDataset of", lambda **changed: datasets.save(hetero(**changed), nowhere), **vars(hetero()))
    found["save a HeteroDataset of"][1].pop("vertex_types")
    case("open", datasets.open, path=nowhere, placement="host", num_classes=None, format=None, progress=None)
    case("convert", datasets.convert, path=nowhere, target=nowhere, num_classes=None, format=None, progress=None)
    case("detect", datasets.detect, path=nowhere)
    shape = {"vertices": {"node": 200}, "columns": {"node": 2}, "edges": {("node", "to", "node"): 300}, "splits": (60, 9, 9)}
    shape |= {"classes": 2, "dtype": torch.float32, "target": "node"}
    case("generate a data set of", lambda **changed: datasets.generate(datasets.Shape(**{**shape, **changed})), **shape)
    case("generate a data set", partial(datasets.generate, scale=1), shape=datasets.Shape(**shape), seed=1, placement="host")
    case("largest_component", datasets.largest_component, dataset=dataset)
    case("random_splits", datasets.random_splits, dataset=dataset, seed=0, train_per_class=1, valid_per_class=1)
    case("Machine.from_json", hl.Machine.from_json, data={})
    case("query", hl.query, path=__file__)
    case("query filtered and grouped", Asked(), predicate="x > 1", key="x", aggregate="sum(y)")
    return found


@pytest.fixture(scope="module")
def made():
    return cases()


@pytest.fixture(autouse=True)
def little_memory(monkeypatch, tmp_path):
    """What is asked for by mistake is refused, or written where it goes with the test."""
    monkeypatch.setenv("HINTERLAND_HOST_MEMORY", "256MiB")
    monkeypatch.chdir(tmp_path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(cases()))
def test_a_wrong_argument_gets_a_sentence(name, made):
    assert not raw_with_bad(*made[name])


def raw_with_bad(call: Callable[..., Any], good: dict[str, Any]) -> list[str]:
    """What is raised, but no sentence, where one argument of a call is bad."""
    raw = []
    for argument in good:
        for bad in BAD:
            try:
                call(**{**good, argument: bad})
            except HinterlandError as error:
                if not str(error) or len(str(error)) > 1000:
                    raw.append(f"{argument}={bad!r:.60}: a sentence of {len(str(error))} characters")
            except Exception as error:
                raw.append(f"{argument}={bad!r:.60}: {type(error).__name__}: {error!s:.100}")
    return raw


MODULES = (datasets, fullgraph, graph, hotness, kernels, machine, memory, nn, sampling, storage, hl.table, training)
ELSEWHERE = {
    "probe": "measures the machine for a minute",
    "launch": "starts processes; tests/fullgraph/test_processes.py has its bad arguments",
    "managed_limit": "asks a GPU",
    "plan_mapping": "asks a GPU",
    "from_igraph": "needs igraph; tests/graph/test_convert.py",
    "set_managed_limit": "is of the whole process; tests/memory/test_limits.py",
    "ShardedTensor": "needs a process group; tests/table/test_sharded.py",
    "TieredShards": "needs a process group; tests/table/test_sharded.py",
    "as_table": "takes anything",
    "Machine.from_json": "takes what a probe has written; see cases()",
    **dict.fromkeys(("Graph.of", "HostRows.of", "HostRows.of_files", "TierCount.of"), "takes what is known to be right"),
}


def public(*modules: Any) -> dict[str, Callable[..., Any]]:
    """By their names the functions in every ``__all__``, the classes that say how they are made, and what else makes them."""
    found: dict[str, Callable[..., Any]] = {}
    seen = set()
    for module in modules:
        for name in module.__all__:
            one, path = getattr(module, name), name if module is hl else f"{module.__name__.split('.')[-1]}.{name}"
            if name in ELSEWHERE or id(one) in seen:
                continue
            seen.add(id(one))
            if inspect.isfunction(one) or (inspect.isclass(one) and "Args:" in (one.__doc__ or "")):
                found[path] = one
            for maker, held in vars(one).items() if inspect.isclass(one) else ():
                if isinstance(held, classmethod) and maker[0] != "_" and f"{name}.{maker}" not in ELSEWHERE:
                    found[f"{path}.{maker}"] = getattr(one, maker)
    return found


PUBLIC = public(hl, *MODULES)


class Right:
    """What parameters take: by their names, and where a function takes something else of a name, by that function's."""

    def __init__(self, folder: Path) -> None:
        import networkx
        import scipy.sparse
        from pyarrow import feather
        from pyarrow import table as columns

        index, labels, pairs = torch.arange(3), torch.tensor([0, 1] * 4), torch.tensor([[0, 1], [2, 5]])
        plain = hl.from_edges(torch.arange(7), torch.arange(1, 8), num_vertices=8, symmetrize=True)
        weighted, chain = hl.random_weights(plain, "float32"), hl.from_edges(index, index + 1)
        table, splits = UnifiedTensor.from_tensor(torch.randn(8, 2)), {"train": torch.arange(4), "valid": torch.arange(4, 6)}
        data, sampler = datasets.Dataset(plain, table, labels, splits, 2), sampling.NeighborSampler(plain, [2, 2])
        bag = hl.UnifiedEmbeddingBag(8, 2, mode="sum")
        p = hl.PartitionedGraph.from_graph(plain, 1, devices="cpu")
        rows, loader = p.scatter(torch.ones(8, 2)), training.Loader(sampler, index, 2, features=table, labels=labels)
        pinned_rows = UnifiedTensor.empty((3,), placement="pinned")
        small = datasets.Shape({"node": 200}, {"node": 2}, {("node", "to", "node"): 300}, (60, 9, 9), 2)
        raw = {"path": folder / "edges.el", "dtype": torch.uint8, "shape": (4,)}
        self.edges, self.set = folder / "edges.el", folder / "set"
        self.edges.write_text("0 1\n1 2\n")
        feather.write_feather(columns({"x": [1, 2, None]}), folder / "t.arrow")
        datasets.save(data, self.set)
        wrong = [
            None,
            "a text",
            7,
            -1,
            -0.5,
            [None],
            object(),
            hl.prepare(plain),
            plain,
            table,
            torch.ones(8, dtype=torch.bool),
        ]
        self.wrong = [*wrong, torch.zeros(8, dtype=torch.complex64), torch.tensor([[0.5, 1], [2, 3]])]

        held: dict[str, Any] = {"graph": plain, **STARTS, "src": index, "dst": index, "pairs": pairs}
        held |= {"indptr": torch.tensor([0, 1, 2]), "indices": torch.tensor([1, 0]), "num_sources": 2, "num_targets": 2}
        held |= {"path": self.edges, "target": folder / "out", "kind": "uniform", "what": pinned_rows, "nbytes": 10}
        held |= {"dataset": data, "data": data, "features": table, "labels": labels, "graphs": {("a", "to", "a"): plain}}
        held |= {"function": lambda x: x > 0, "how": "sum", "arrays": torch.zeros(8), "to": torch.zeros(3)}
        held |= {
            "tensor": torch.zeros(3),
            "shape": (3,),
            "dtype": torch.float32,
            "device": torch.device("cpu"),
            "devices": ["cpu"],
        }
        held |= {"table": table, "order": torch.arange(8), "scores": torch.arange(8.0), "probability": torch.rand(8)}
        held |= {
            "shares": [0.5],
            "rows": 8,
            "row_bytes": 8,
            "budget": 4096,
            "gpus": 1,
            "mapping": "managed",
            "table_bytes": 1 << 30,
        }
        held |= {
            "seeds": index,
            "starts": index,
            "length": 3,
            "count": 3,
            "fanouts": [2, 2],
            "batch_size": 2,
            "sampler": sampler,
        }
        held |= {"prepared": hl.prepare(plain), "sample": sampler.sample([0]), "rate": 1e9, "latency": 1e-6}
        held |= {"counted": hl.bfs(plain, 0, device="cpu", stats=True).stats, "num_embeddings": 8, "embedding_dim": 2}
        held |= {"embeddings": torch.zeros(8, 2), "params": list(bag.parameters()), "in_channels": 2, "out_channels": 4}
        held |= {"p": p, "x": rows, "others": rows, "fn": lambda *rows: rows[0], "nn": torch.nn.Linear(2, 2), "loader": loader}
        held |= {"name": "sage", "inputs": 2, "hidden": 4, "classes": 2, "layers": 2, "stages": [training.Stage("a", abs)]}
        held |= {"model": training.make_model("sage", 2, 4, 2, 2), "step": abs, "sampler_on": lambda device: sampler}
        self.by_name = {**held, "ranks": training.Ranks(0, 1, torch.device("cpu"), 1, 3.0)}

        of: dict[str, dict[str, Any]] = {}
        for record in known():
            one = {"graph": weighted if record.weights == "needed" else plain}
            name = record.run.__name__
            of |= {name: one, f"graph.{name}": one}
            of[f"graph.{record.verify}"] = {**one, "result": record.run(**needed(record.run, {**one, **STARTS}))}
        of |= {name: {"path": self.set} for name in ("datasets.open", "datasets.detect", "datasets.convert")}
        of |= {"training.open_shared": {"path": self.set}, "query": {"path": folder / "t.arrow"}, "generate": {"vertices": 5}}
        torch.save(torch.zeros(8, 2), folder / "x.pt")
        of |= {
            "open_table": {"path": folder / "x.pt"},
            "StorageArray.open": raw,
            "UnifiedTensor.from_file": raw,
            "StorageArray.create": {"path": folder / "x.bin"},
        }
        of |= {
            "save_graph": {"path": folder / "out.hl"},
            "reorder": {"by": "degree"},
            "memory.copy": {"source": torch.zeros(3)},
        }
        float8 = hl.UnifiedTensor.from_tensor(torch.zeros(8, 16).to(torch.float8_e4m3fn))
        of |= {
            "nn.RowTable": {"tables": [float8], "slots": 4, "dtype": torch.float32, "scales": torch.ones(8), "write": "back"}
        }
        of |= {"kernel": {"source": "__global__ void add(array<float> a, int64_t n) {}"}}
        of |= {"from_networkx": {"graph": networkx.path_graph(3)}, "from_scipy": {"matrix": scipy.sparse.eye(3).tocsr()}}
        of |= {"datasets.generate": {"shape": small}, "datasets.save": {"overwrite": True}}
        of |= {"datasets.random_splits": {"train_per_class": 1, "valid_per_class": 1}}
        envelope = sampling.Envelope((2, 9), (6,))
        of |= {"sampling.Envelope": {"vertices": (2, 9), "edges": (6,)}, "sampling.Envelope.largest": {"num_vertices": 8}}
        of |= {"sampling.Envelope.of": {"counts": torch.zeros(3, 2, 2).long(), "most": envelope}}
        of |= {"hotness.corrected_probability": {"counts": [torch.ones(8)] * 2}, "hotness.hit_rate": {"counts": torch.ones(8)}}
        of |= {"hotness.renumber": {"scores": torch.arange(8.0)}, "PartitionedGraph.from_graph": {"devices": "cpu"}}
        of |= {"training.make_full_model": {"name": "gcn"}, "training.Pipeline": {"source": [1]}}
        of |= {"training.plan_cache": {"sampler": [2, 2]}, "training.train_full": {"model": "gcn", "epochs": 1, "hidden": 4}}
        linear = torch.nn.Linear(2, 2)
        of |= {"training.capture": {"model": linear, "loss": _no_loss, "optimizer": torch.optim.SGD(linear.parameters())}}
        of |= {"training.train": {"model": "sage", "epochs": 1, "hidden": 4, "fanouts": (2,)}}
        of |= {"graph.verify_jaccard": {"result": graph.jaccard(plain, pairs)}}
        of |= {"graph.strongly_connected_components": {"graph": chain}}
        of |= {"graph.verify_strong_components": {"graph": chain, "result": graph.strongly_connected_components(chain)}}
        found = {"hits": graph.hits, "leiden": graph.leiden, "communities": graph.louvain, "cores": graph.core_numbers}
        found |= {"eigenvector": graph.eigenvector_centrality, "katz": graph.katz_centrality, "triangles": graph.triangles}
        found |= {"weighted_pagerank": graph.weighted_pagerank}
        self.of = of | {f"graph.verify_{name}": {"result": find(plain)} for name, find in found.items()}


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    return Right(tmp_path_factory.mktemp("right"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PUBLIC)
def test_a_wrong_kind_of_value_gets_a_sentence(name, right, monkeypatch):
    monkeypatch.setattr("hinterland.kernels.chunks.compiled", lambda function: function)  # which takes seconds on a CPU
    assert not raw_with_wrong(PUBLIC[name], right, right.of.get(name, {}))


def raw_with_wrong(call: Callable[..., Any], right: Right, own: dict[str, Any]) -> list[str]:
    """The same where one argument is of a wrong kind; ``own``: what it takes, where ``right`` does not know."""
    raw = []
    parameters = inspect.signature(call).parameters.values()
    named = {one.name for one in parameters if one.kind is not one.VAR_KEYWORD}
    good = {one: ({**right.by_name, **own})[one] for one in named if _is_needed(call, one)} | own

    def tried(**given):
        """Positions go to those that have no names for the caller."""
        placed = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.VAR_POSITIONAL)]
        if any(one.kind is one.VAR_POSITIONAL for one in placed):
            placed = [
                one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD, one.VAR_POSITIONAL)
            ]
        call(*[given.pop(one.name) for one in placed if one.name in given], **given)

    tried(**good)
    for argument in sorted(named | own.keys()):
        for wrong in right.wrong:
            try:
                tried(**{**good, argument: wrong})
            except HinterlandError:
                continue
            except Exception as error:
                raw.append(f"{argument}={wrong!r:.60}: {type(error).__name__}: {error!s:.100}")
    return raw


def _no_loss(model: Any, batch: Any) -> torch.Tensor:
    return torch.zeros(())


def _is_needed(call: Callable[..., Any], name: str) -> bool:
    one = inspect.signature(call).parameters[name]
    return one.default is one.empty


@pytest.mark.parametrize(
    ("name", "changed", "sentence"),
    [
        ("hotness.corrected_probability", {"counts": 5}, "counts are a list of two, as presample.* makes them, not 5"),
        ("graph.verify_katz", {"alpha": "x"}, "alpha 'x' is not a number"),
        ("from_edges", {"symmetrize": "no"}, "symmetrize 'no' is neither True nor False"),
        ("nn.GCNConv", {"bias": None}, "bias None is neither True nor False"),
        ("training.train", {"dataset": "prepared"}, "is no data set; open one with"),
    ],
)
def test_the_sentences_of_some(name, changed, sentence, right):
    call, own = PUBLIC[name], right.of.get(name, {})
    needed = [one for one in inspect.signature(call).parameters if _is_needed(call, one) and one != "options"]
    good = {one: right.by_name[one] for one in needed if one not in own} | own
    changed = {one: right.by_name["prepared"] if value == "prepared" else value for one, value in changed.items()}
    with pytest.raises(HinterlandError, match=sentence):
        call(**{**good, **changed})
