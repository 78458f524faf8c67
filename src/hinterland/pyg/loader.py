"""Drop-in NeighborLoader and LinkNeighborLoader: batches are sampled and gathered while the model trains.

PyG's own code puts batches together (NodeLoader.filter_fn), so they have PyG's structure whatever its version; only what it
reads is exchanged: tables in host memory instead of tensors, on the device where batches are wanted.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
import torch_geometric.loader
from torch_geometric.sampler import BaseSampler, HeteroSamplerOutput, NegativeSampling, SamplerOutput
from torch_geometric.sampler.base import DataType, SubgraphType

from ..memory.gather_stats import add, require_dict
from ..runtime import devices
from ..runtime.errors import ConfigError
from ..runtime.thresholds import LOADER_DEPTH
from ..runtime.units import Share
from ..runtime.warned import warn
from ..sampling import NeighborSampler
from ..training import CachePlan, Pipeline, Stage
from ..training.cache_budget import after_a_step, filled, planned
from ..training.cache_choice import bytes_of, checked_scores, wanted
from ..training.pipeline import at_a_time, moved
from . import cache as caching
from .counted import counting
from .inputs import edge_label_index_of, input_nodes_of
from .others import ForeignSampler
from .readable import Known, add_missing_types, readable
from .sampler import Negatives, Sampler, checked_placement
from .table_tensor import TableTensor
from .user_data import UserData, ends

# What DataLoader needs for worker processes. Here threads work beside the model.
_OF_WORKERS = (
    "num_workers",
    "persistent_workers",
    "prefetch_factor",
    "multiprocessing_context",
    "worker_init_fn",
    "pin_memory",
    "pin_memory_device",
)
_PATIENCE = 300.0  # seconds without a batch, where DataLoader's timeout is not given
_USUAL = 1024  # inputs of a batch, where a batch_sampler of the user's decides
_SMALL = 1024  # nodes of a batch that one thread makes on a CPU: docs/notes/thresholds.md
_SMALL_DEPTH = 16  # and how many of these may wait
_STAGES = 2
_NO_WINDOW = "time_window= is of the sampler that the loader makes; give it to neighbor_sampler: Sampler(..., time_window=...)"
_OF_ROWS = ("auto", "features", "presample")  # what also works where only rows can be kept, as scores do


@dataclasses.dataclass
class _Parts:
    """What batches are made of: the data as PyG's code reads it, how it came about, and the sampler on the loader's device."""

    data: Any
    known: Known
    sampler: Sampler | ForeignSampler | None


@dataclasses.dataclass
class _Cached:
    """What a cache has copies of: rows of features, and the lists of a sampler of the user's, over which ``sampler`` draws."""

    rows: list[TableTensor] = dataclasses.field(default_factory=list)
    owner: BaseSampler | None = None
    sampler: Any = None


class _Pipelined:
    """What both loaders add to PyG's: a pipeline of two stages, and batches on ``device``."""

    data: Any
    device: torch.device
    generator: torch.Generator | None
    timeout: float
    stats: dict[str, Any] | None
    filter_per_worker: bool
    input_data: Any
    dataset: Any
    batch_size: int | None
    neg_sampling: Any
    _index_sampler: Any
    _sampler_name: str  # under which PyG's code has it
    _live = True  # what is changed counts from the next epoch on: within one its batches have a copy of the loader

    def _prepare(
        self, data: Any, device: Any, placement: str, cache: Any, gpu_budget: Any, stats: Any, options: dict[str, Any]
    ) -> UserData:
        """Before PyG's constructor: what the data is, and the DataLoader options that are left."""
        self._for_workers: dict[str, Any] = {n: options[n] for n in ("num_workers", "worker_init_fn") if n in options}
        workers = options.get("num_workers", 0)
        if workers > 0:
            warn(
                f"num_workers={workers} starts no processes: batches are sampled and gathered by threads beside the model, and "
                "all cores take part; leave it at 0"
            )
        for name in _OF_WORKERS:
            options.pop(name, None)
        given = UserData(data)
        if stats is not None:
            require_dict(stats)
        self.device, self.cache, self.gpu_budget, self.stats = devices.as_device(device), cache, gpu_budget, stats
        self.placement = checked_placement(placement, self.device)
        asked = wanted(cache, gpu_budget)
        if asked is not None and given.kind == DataType.remote:
            raise ConfigError("cache= is for Data and HeteroData; put ut.tiered(...) in the feature store instead")
        if given.kind == DataType.remote and placement == "gpu":
            raise ConfigError(
                "placement='gpu' is for Data and HeteroData; put ut.tiered(...) in the feature store instead, and edges in "
                "GraphStore(placement='gpu')"
            )
        return given

    def _finish(self, given: UserData) -> None:
        """After PyG's constructor: the sampler and the data as batches are made of them."""
        # DataLoader keeps the method bound to this loader, a cycle that holds GPU memory until it is collected.
        self.__dict__.pop("collate_fn", None)
        self.__dict__.update(self._for_workers)  # as PyG's enable_cpu_affinity() and enable_multithreading() want them
        self._given, self._wanted = given, wanted(self.cache, self.gpu_budget)
        self._parts = _Parts(None, {}, None)
        self._cached = _Cached()
        self._look()
        self.cache_plan: CachePlan | None = None
        if self._wanted is None:
            return
        policy, budget = self._wanted.policy, self._wanted.budget
        if not isinstance(policy, str):
            checked_scores(policy, given.num_nodes)
        elif policy not in _OF_ROWS and not self._plans:
            raise ConfigError(
                f"cache={self.cache!r} is for one type of nodes and edges, this library's sampler and no times of edges; take "
                "cache='auto', 'presample' or scores of the nodes"
            )
        if self.device.type == "cpu":
            self._wanted = None
        elif budget is not None:
            self._fill(self._bytes(budget))

    def _look(self) -> None:
        """Takes over what was changed in ``data`` and in the sampler since."""
        if not self._live:
            return
        sampler = getattr(self, self._sampler_name)
        mine: Any = sampler.on(self.device) if isinstance(sampler, Sampler) else ForeignSampler(sampler, self.device)
        if sampler is self._cached.owner:
            mine = mine.over_lists_of(self._cached.sampler)
        data, known = readable(self._given, self.data, self.device, self.placement, self._parts.known)
        self._parts = _Parts(data, known, mine)
        read = [made for _, _, made in known.values()]
        if any(all(rows is not made for made in read) for rows in self._cached.rows):
            self._cached.rows = []
            warn("the features of which GPU memory keeps rows were replaced: the new ones come without; make a new loader")

    @property
    def _read(self) -> Any:
        return self._parts.data

    @property
    def _sampler(self) -> Any:
        return self._parts.sampler

    def __getstate__(self) -> dict[str, Any]:
        """Without what memory of one process holds: a copy, or another process, makes that anew from the data."""
        made = ("_parts", "_cached", "_given", "_wanted", "cache_plan")
        return {name: value for name, value in self.__dict__.items() if name not in made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._finish(UserData(self.data))

    def __copy__(self) -> Any:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    @property
    def _plans(self) -> bool:
        """Whether lists and rows can be planned for together."""
        return isinstance(self._sampler, Sampler) and self._sampler.plannable

    def _bytes(self, budget: int | Share) -> int:
        """A budget in bytes. Of a share what that share of each table's rows takes."""
        if isinstance(budget, int):
            return budget
        widest = caching.widest(self._read, self._given.num_nodes).values()
        return sum(bytes_of(budget, len(rows.table), rows.table.row_bytes) for rows in widest)

    def _fill(self, budget: int) -> None:
        """Fills the cache that is asked for."""
        asked, self._wanted = self._wanted, None
        assert asked is not None
        widest = caching.widest(self._read, self._given.num_nodes)
        if not widest or (asked.budget is None and budget < max(rows.table.row_bytes for rows in widest.values())):
            return
        scores = None if isinstance(asked.policy, str) else checked_scores(asked.policy, self._given.num_nodes)
        if not self._plans or scores is not None or asked.policy == "presample":
            self._keep_hot_rows(widest, scores, budget)
            return
        (rows,) = widest.values()
        seeds, batch_size = self._seeds()

        def keep(engine: NeighborSampler) -> NeighborSampler:
            promised = asked.budget is not None
            plan = planned(asked.policy, budget, promised, engine, rows.table, seeds, batch_size)
            engine, rows.table = filled(plan, engine, rows.table)
            self.cache_plan = plan
            return engine

        self._parts.sampler = self._sampler.kept(keep)
        self._cached = _Cached([rows], getattr(self, self._sampler_name), self._parts.sampler)

    def _keep_hot_rows(self, widest: dict[Any, TableTensor], scores: dict[Any, torch.Tensor] | None, budget: int) -> None:
        """Puts the widest table of each node type in tiers, by the user's scores or by counts."""
        widths = {node_type: rows.table.row_bytes for node_type, rows in widest.items()}
        if scores is None:
            counts, size = self._given.num_nodes, self.batch_size or _USUAL

            def rows_of(scores: Mapping[Any, torch.Tensor]) -> dict[Any, int]:
                sizes = caching.split(budget, scores, widths)
                return {node_type: min(counts[node_type], size // widths[node_type]) for node_type, size in sizes.items()}

            scores = caching.presample(self._sample, len(self.dataset), size, counts, rows_of, self.device)
        widths = {node_type: width for node_type, width in widths.items() if node_type in scores}
        for node_type, size in caching.split(budget, scores, widths).items():
            rows = widest[node_type]
            rows.table = rows.table.tiered(local=size, scores=scores[node_type], devices=[self.device])
            self._cached.rows.append(rows)

    def _seeds(self) -> tuple[torch.Tensor, int]:
        """Nodes that mini-batches begin at, and how many one has."""
        raise NotImplementedError

    def _through(self, source: Iterator[Any], run: Callable[[Iterator[Any]], Pipeline]) -> Iterator[Any]:
        """One epoch's batches; the cache is filled after the first ones, where its budget is what training leaves."""
        if self._wanted is None:
            return iter(run(source))
        return after_a_step(source, run, at_a_time(_STAGES, LOADER_DEPTH), self.device, self._fill)

    def _get_iterator(self) -> Iterator[Any]:
        self._look()
        return _Batches(self)

    def _sample(self, index: Any, number: int | None = None) -> Any:
        raise NotImplementedError

    def collate_fn(self, index: Any) -> Any:
        """The sampled neighbourhood of the inputs at ``index``; the batch where ZipLoader says ``filter_per_worker``."""
        self._look()
        out = self._sample(index)
        return self.filter_fn(out) if self.filter_per_worker else out

    def filter_fn(self, out: SamplerOutput | HeteroSamplerOutput) -> Any:
        """The batch of a sample: its attributes are gathered on ``device``."""
        self._look()
        if isinstance(out, HeteroSamplerOutput):
            add_missing_types(out, self.data, self.device)
        for field in dataclasses.fields(out):
            value = getattr(out, field.name)
            if value is not None and not (isinstance(value, torch.Tensor) and value.device == self.device):
                setattr(out, field.name, moved(value, self.device))
        reader = copy.copy(self)  # PyG's code reads self.data and its sampler; users keep theirs
        reader.data = self._read
        reader.__dict__[self._sampler_name] = self._sampler
        return super(_Pipelined, reader).filter_fn(out)  # type: ignore[misc]


class _Batches:
    """One epoch. What is random is drawn from torch's generator here, in the caller's thread, and never in another."""

    def __init__(self, loader: Any) -> None:
        self._length = len(loader)
        indices = iter(loader._index_sampler)
        # In DataLoader's order, so that the same torch.manual_seed shuffles as it does for PyG's loaders.
        seed = int(torch.empty((), dtype=torch.int64).random_(generator=loader.generator))
        first = [index for index in [next(indices, None)] if index is not None]  # samplers shuffle when first asked
        epochs = copy.copy(loader)
        epochs._live = False
        if _are_small(loader):
            depth = _SMALL_DEPTH
            stages = [Stage("sample and gather", lambda numbered: _gathered(epochs, *_sampled(epochs, *numbered)))]
        else:
            depth = LOADER_DEPTH
            stages = [
                Stage("sample", lambda numbered: _sampled(epochs, *numbered)),
                Stage("gather", lambda sampled: _gathered(epochs, *sampled)),
            ]
        source = _numbered(first, indices, torch.Generator().manual_seed(seed))
        timeout = loader.timeout or _PATIENCE
        run = partial(Pipeline, stages=stages, device=loader.device, depth=depth, timeout=timeout)
        self._batches, self._stats = loader._through(source, run), loader.stats

    def __iter__(self) -> _Batches:
        return self

    def __next__(self) -> Any:
        batch = next(self._batches)
        if self._stats is not None:
            add(self._stats, {"batches": 1, **batch.stats})
        return batch

    def __len__(self) -> int:
        return self._length


def _are_small(loader: Any) -> bool:
    """Whether batches take two threads longer to hand on, and to take the interpreter's lock from each other, than to make."""
    if loader.device.type != "cpu" or not isinstance(loader._sampler, Sampler):
        return False
    most = loader._sampler.most_nodes(loader.batch_size or _USUAL)
    return most is not None and most <= _SMALL


def _sampled(loader: Any, index: Any, number: int) -> tuple[Any, dict[str, Any] | None]:
    """The sample of inputs, and what was read for it, if the loader has ``stats=``."""
    read: dict[str, Any] | None = None if loader.stats is None else {}
    with counting(read):
        return loader._sample(index, number), read


def _gathered(loader: Any, out: Any, sampling: dict[str, Any] | None) -> Any:
    """The batch of a sample."""
    read: dict[str, Any] | None = None if loader.stats is None else {}
    with counting(read):
        batch = loader.filter_fn(out)
    if read is not None:
        batch.stats = {"sampling": sampling, "features": read}
    return batch


def _check_one_each(name: str, what: str, values: torch.Tensor | None, inputs: torch.Tensor, whose: str) -> None:
    if values is not None and len(values) != len(inputs):
        raise ConfigError(f"{name} has {len(values)} {what}, but there are {len(inputs)} {whose}; give one for each")


def _numbered(first: list[Any], rest: Iterator[Any], generator: torch.Generator) -> Iterator[tuple[Any, int]]:
    """The inputs of each mini-batch, and a number that decides its draws."""
    for indices in (first, rest):
        for index in indices:
            yield index, int(torch.randint(2**62, (), generator=generator, device="cpu"))


class NeighborLoader(_Pipelined, torch_geometric.loader.NeighborLoader):  # type: ignore[misc]
    """PyG's NeighborLoader over a graph and features in host memory, sampled and gathered by the GPU where there is one.

    Its arguments are PyG's (torch_geometric.loader.NeighborLoader), in PyG's order and with PyG's defaults, and the following.
    ``filter_per_worker`` and what concerns worker processes (``num_workers``, ``pin_memory``, ``enable_cpu_affinity()``, ...)
    have no effect: a pipeline of threads prepares batches beside the model. ``timeout`` is the seconds without a batch after
    which PipelineStalled is raised; 0 means 300. What is changed in ``loader.data``, in its sampler or in the loader counts
    from the next epoch on.

    Args:
        placement: where features and lists of neighbours go; as of UnifiedTensor, or ``"gpu"``: into the memory of ``device``
            (host memory on a machine without a GPU). They are copied once for all loaders of the same tensors; a
            UnifiedTensor, its ``ut.cpu()``, a TieredTensor or StorageArray as ``data.x`` is taken as it is. On the CPU
            attributes stay where they are.
        cache: what the GPU keeps copies of: None; ``"auto"`` or another policy of hinterland.training.plan_cache, lists of
            neighbours and rows of the widest node features; a size such as ``"10GiB"``, which is ``"auto"`` within it;
            ``"presample"``, the rows that samples of two epochs at most met most; or scores of the nodes, higher for hotter, of
            hinterland.hotness or your own (by node type in a dict). With several node types, times of edges, or another
            library's sampler ``"auto"`` keeps rows by ``"presample"``. Data or HeteroData only: in a feature store put a
            TieredTensor. Without a GPU there is nothing to fill.
        gpu_budget: how many bytes they may take there, as in ``"4GiB"``, or in ``"10%"`` those that this share of the rows
            takes. None is what training leaves: the cache is filled after the first batches, and torch's peak is reset.
        device: where batches are made: by default the current GPU, or the CPU without one.
        stats: a dict to which each batch's ``stats``, an attribute that batches then have, are added as it is given out, and
            their number (docs/pyg.md). Batches are counted and waited for one by one.
        time_window: how much older than its seed a node or edge may be, in the unit of ``time_attr``: those are followed whose
            time lies in ``[seed time - time_window, seed time]``. None is any time.

    Raises:
        ConfigError, DeviceError, GraphError, IndexOutOfRange: as of Sampler; an input node or type that does not exist.
        OutOfMemory: what is placed on the GPU does not fit.
    """

    _sampler_name = "node_sampler"

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        input_nodes: Any = None,
        input_time: torch.Tensor | None = None,
        replace: bool = False,
        subgraph_type: SubgraphType | str = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Callable[..., Any] | None = None,
        transform_sampler_output: Callable[..., Any] | None = None,
        is_sorted: bool = False,
        filter_per_worker: bool | None = None,
        neighbor_sampler: BaseSampler | None = None,
        directed: bool = True,
        *,
        placement: str = "host",
        cache: Any = None,
        gpu_budget: int | str | None = None,
        device: torch.device | str | int | None = None,
        stats: dict[str, Any] | None = None,
        time_window: int | None = None,
        **kwargs: Any,
    ) -> None:
        given = self._prepare(data, device, placement, cache, gpu_budget, stats, kwargs)
        if neighbor_sampler is None:
            how = (subgraph_type, replace, disjoint, temporal_strategy, time_attr, weight_attr, is_sorted)
            where: dict[str, Any] = {"device": self.device, "placement": placement}
            neighbor_sampler = Sampler(data, num_neighbors, *how, directed=directed, time_window=time_window, **where)
        elif time_window is not None:
            raise ConfigError(_NO_WINDOW)
        super().__init__(
            data,
            num_neighbors,
            input_nodes_of(given, input_nodes),
            input_time,
            time_attr=time_attr,
            transform=transform,
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=False,
            neighbor_sampler=neighbor_sampler,
            **kwargs,
        )
        # Lightning makes a loader again, with another sampler of inputs, from attributes that are called as the arguments are.
        self.num_neighbors, self.time_attr, self.neighbor_sampler = num_neighbors, time_attr, neighbor_sampler
        given.check_nodes(self.input_data.input_type, self.input_data.node, "input_nodes")
        _check_one_each("input_time", "times", self.input_data.time, self.input_data.node, "input nodes")
        self._finish(given)

    def _sample(self, index: Any, number: int | None = None) -> Any:
        return self._sampler.sample_from_nodes(self.input_data[index], number=number)

    def _seeds(self) -> tuple[torch.Tensor, int]:
        return self.input_data.node.cpu(), self.batch_size or _USUAL


class LinkNeighborLoader(_Pipelined, torch_geometric.loader.LinkNeighborLoader):  # type: ignore[misc]
    """PyG's LinkNeighborLoader in the same way; see NeighborLoader for what is added, and for what has no effect."""

    _sampler_name = "link_sampler"

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        edge_label_index: Any = None,
        edge_label: torch.Tensor | None = None,
        edge_label_time: torch.Tensor | None = None,
        replace: bool = False,
        subgraph_type: SubgraphType | str = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        neg_sampling: NegativeSampling | None = None,
        neg_sampling_ratio: float | None = None,
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Callable[..., Any] | None = None,
        transform_sampler_output: Callable[..., Any] | None = None,
        is_sorted: bool = False,
        filter_per_worker: bool | None = None,
        neighbor_sampler: BaseSampler | None = None,
        directed: bool = True,
        *,
        placement: str = "host",
        cache: Any = None,
        gpu_budget: int | str | None = None,
        device: torch.device | str | int | None = None,
        stats: dict[str, Any] | None = None,
        time_window: int | None = None,
        **kwargs: Any,
    ) -> None:
        given = self._prepare(data, device, placement, cache, gpu_budget, stats, kwargs)
        edge_label_index = edge_label_index_of(given, edge_label_index)
        if neighbor_sampler is None:
            how = (subgraph_type, replace, disjoint, temporal_strategy, time_attr, weight_attr, is_sorted)
            where: dict[str, Any] = {"device": self.device, "placement": placement}
            neighbor_sampler = Sampler(data, num_neighbors, *how, directed=directed, time_window=time_window, **where)
        elif time_window is not None:
            raise ConfigError(_NO_WINDOW)
        super().__init__(
            data,
            num_neighbors,
            edge_label_index,
            edge_label,
            edge_label_time,
            neg_sampling=neg_sampling,
            neg_sampling_ratio=neg_sampling_ratio,
            time_attr=time_attr,
            transform=transform,
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=False,
            neighbor_sampler=neighbor_sampler,
            **kwargs,
        )
        self.num_neighbors, self.time_attr, self.neighbor_sampler = num_neighbors, time_attr, neighbor_sampler
        self.edge_label, self.edge_label_time = edge_label, edge_label_time
        source, target = ends(self.input_data.input_type)
        given.check_nodes(source, self.input_data.row, "edge_label_index")
        given.check_nodes(target, self.input_data.col, "edge_label_index")
        whose = self.input_data.row, "edges of edge_label_index"
        _check_one_each("edge_label", "labels", self.input_data.label, *whose)
        _check_one_each("edge_label_time", "times", self.input_data.time, *whose)
        self._finish(given)

    def _sample(self, index: Any, number: int | None = None) -> Any:
        return self._sampler.sample_from_edges(self.input_data[index], self.neg_sampling, number=number)

    def _seeds(self) -> tuple[torch.Tensor, int]:
        """Both ends of all edges; with negative edges theirs among them, as many as there will be."""
        edges, given = self.input_data, self.neg_sampling
        parts = [edges.row.cpu(), edges.col.cpu()]
        if given is not None:
            count = math.ceil(given.amount * len(edges.row))
            negatives, nodes = Negatives(given, 0), self._given.num_nodes[None]
            parts += [negatives.sample(count, "src", nodes)] * given.is_binary() + [negatives.sample(count, "dst", nodes)]
        seeds = torch.cat(parts)
        return seeds, round((self.batch_size or _USUAL) * len(seeds) / max(len(edges.row), 1))
