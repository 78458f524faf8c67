"""PyG's sampler interface (torch_geometric/sampler/base.py) over this library's samplers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch_geometric.sampler import BaseSampler, HeteroSamplerOutput, NegativeSampling, SamplerOutput
from torch_geometric.sampler.base import SubgraphType
from torch_geometric.sampler.neighbor_sampler import edge_sample, node_sample

from ..graph import arrays
from ..runtime import arguments, devices
from ..runtime.errors import ConfigError, GraphError
from ..runtime.warned import warn
from ..sampling import HeteroSampler, NeighborSampler
from .counted import read
from .lists import TargetLists
from .user_data import UserData, ends, fanouts_of

_NUMBERS = 2**62  # of mini-batches


class Sampler(BaseSampler):  # type: ignore[misc]
    """Samples neighbours for PyG's NodeLoader and LinkLoader, and for the loaders here; needs no pyg-lib or torch-sparse.

    Draws depend on the number of the mini-batch alone, which comes from torch's generator: ``torch.manual_seed`` repeats them,
    and a GPU and the CPU draw the same.

    Args:
        data: Data, HeteroData or (FeatureStore, GraphStore).
        num_neighbors, subgraph_type, replace, disjoint, temporal_strategy, time_attr, weight_attr, is_sorted, directed: as of
            PyG's NeighborLoader.
        share_memory: has no effect: worker processes that are forked read the lists where they lie, and others make their own.
        sample_direction: ``"forward"``: from a node to those with edges to it; ``"backward"``: to those that it has edges to.
            Batches hold the edges as they are, from source to target. ``is_sorted`` is of no use backward.
        device: where samples are made and returned. PyG's own loaders work on the CPU and want them there.
        placement: where the lists of neighbours go; as of UnifiedTensor, or ``"gpu"``: into the memory of ``device`` (host
            memory on a machine without a GPU).
        time_window: how much older than its seed a node or edge may be, in the unit of ``time_attr``; None is any time.

    Raises:
        ConfigError: an option that cannot be used, or that does not fit the data.
        DeviceError: placement ``"gpu"`` where torch sees a GPU and cuda-core is missing.
        GraphError: edges between nodes that do not exist, or features that do not have a row for each node.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        subgraph_type: SubgraphType | str = "directional",
        replace: bool = False,
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        is_sorted: bool = False,
        share_memory: bool = False,
        directed: bool = True,
        sample_direction: str = "forward",
        *,
        device: torch.device | str | int = "cpu",
        placement: str = "host",
        time_window: int | None = None,
    ) -> None:
        is_sorted, directed = arguments.switches(is_sorted=is_sorted, directed=directed)
        for name, given in (("time_attr", time_attr), ("weight_attr", weight_attr), ("placement", placement)):
            if given is not None:
                arguments.instance(name, given, str, "as 'time', 'weight' and 'host' are")
        if not directed:
            warn("directed=False is deprecated: use subgraph_type='induced'")
            subgraph_type = "induced"
        if temporal_strategy not in ("uniform", "last"):
            raise ConfigError(f"temporal_strategy={temporal_strategy!r} is neither 'uniform' nor 'last'")
        self._given = UserData(data)
        self._made_with = {"time_attr": time_attr, "weight_attr": weight_attr, "is_sorted": is_sorted, "placement": placement}
        self.device = devices.as_device(device)
        placement = checked_placement(placement, self.device)
        self.replace, self.temporal_strategy = replace, temporal_strategy
        if sample_direction not in ("forward", "backward"):
            raise ConfigError(f"sample_direction={sample_direction!r} is neither 'forward' nor 'backward'")
        self.sample_direction = sample_direction
        try:
            self.subgraph_type = SubgraphType(subgraph_type)
        except ValueError:
            raise ConfigError(f"subgraph_type={subgraph_type!r} is none of {[kind.value for kind in SubgraphType]}") from None
        self._disjoint = disjoint
        self.num_neighbors = num_neighbors
        with devices.on(self.device):
            self._lists = {t: self._given.lists(t, placement, is_sorted, self._backward) for t in self._given.edge_types}
        self._times, self._edge_times = self._read_times(time_attr)
        if time_window is not None:
            time_window = arguments.whole_number("time_window", time_window, 0)
            if not self.is_temporal:
                raise ConfigError(f"time_window={time_window} counts back from the seeds' times; name times in time_attr=")
        self.time_window = time_window
        self._weighted = weight_attr is not None
        weights = {} if weight_attr is None else self._read_weights(weight_attr)
        self._graphs: dict[Any, Any] = {
            self._as_drawn(t): lists.sampled(self._sizes(t), t is not None, weights.get(t)) for t, lists in self._lists.items()
        }
        if self.is_hetero:
            self._graphs |= self._lists_of_types_without(placement)
        self._engines: dict[Any, Any] = {}
        if self.subgraph_type == SubgraphType.induced and self.disjoint:
            raise ConfigError(
                "subgraph_type='induced' joins all sampled nodes, which disjoint and temporal samples keep apart; choose one"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, or another process, makes lists of its own from the data: memory that GPUs read belongs to one process."""
        options = ("subgraph_type", "replace", "temporal_strategy", "time_window", "sample_direction", "device")
        now = {name: getattr(self, name) for name in options} | self._made_with | {"disjoint": self._disjoint}
        return partial(type(self), **now), (self._given.data, self.num_neighbors)

    def __copy__(self) -> Sampler:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    @property
    def _backward(self) -> bool:
        return self.sample_direction == "backward"

    def _as_drawn(self, edge_type: Any) -> Any:
        """An edge type as samplers go through it, from the end that is found to the end that draws."""
        return edge_type[::-1] if self._backward and edge_type is not None else edge_type

    def _sizes(self, edge_type: Any) -> tuple[int, int]:
        sizes = self._given.sizes(edge_type)
        return sizes[::-1] if self._backward else sizes

    def _lists_of_types_without(self, placement: str) -> dict[Any, Any]:
        """Empty lists for node types that no edge type joins: their nodes can be seeds."""
        joined = {end for edge_type in self._lists for end in ends(edge_type)}
        none = torch.empty(0, dtype=torch.int64)
        made = {}
        for node_type in self._given.num_nodes.keys() - joined:
            sizes = (self._given.num_nodes[node_type],) * 2
            made[node_type, "", node_type] = TargetLists.from_coo(none, none, sizes, placement).sampled(sizes, True)
        return made

    def _read_times(self, name: str | None) -> tuple[dict[Any, torch.Tensor] | None, dict[Any, arrays.Array] | None]:
        """Of nodes by type, or of edges by type in the order of the lists; PyG has them of one of the two."""
        if name is None:
            return None, None
        nodes, edges = self._given.node_values(name), self._given.edge_values(name)
        if nodes and edges:
            raise ConfigError(f"time_attr={name!r} is an attribute of nodes and of edges; rename the one that is not meant")
        if not nodes and not edges:
            raise ConfigError(
                f"time_attr={name!r} is no attribute of nodes or edges; set it, one whole number for each node, or for each "
                f"edge{self._where_of_edges()}"
            )
        kind, counts = ("nodes", self._given.num_nodes) if nodes else ("edges", self._num_edges())
        for key, time in (nodes or edges).items():
            if time.shape != (counts[key],) or time.is_floating_point():
                raise ConfigError(
                    f"time_attr={name!r} is {time.dtype} of shape {tuple(time.shape)}; it needs a whole number for each of "
                    f"{counts[key]} {kind}"
                )
        if nodes:
            return {node_type: time.cpu().long() for node_type, time in nodes.items()}, None
        return None, {edge_type: self._lists[edge_type].by_target(time.long()) for edge_type, time in edges.items()}

    def _num_edges(self) -> dict[Any, int]:
        return {edge_type: lists.graph.num_edges for edge_type, lists in self._lists.items()}

    def _where_of_edges(self) -> str:
        """Where stores have attributes of edges, said as the end of a sentence; nothing for other data."""
        if not isinstance(self._given.data, tuple | list):
            return ""
        where, group = (" under the edge type", "(src, rel, dst)") if self.is_hetero else ("", "None")
        return f", in the feature store{where}: put_tensor(..., group_name={group}, attr_name=...)"

    def _read_weights(self, name: str) -> dict[Any, torch.Tensor]:
        weights = self._given.edge_values(name)
        if not weights:
            raise ConfigError(
                f"weight_attr={name!r} is no attribute of edges; set it, one number for each edge{self._where_of_edges()}"
            )
        for edge_type, weight in weights.items():
            count = self._num_edges()[edge_type]
            if weight.shape != (count,):
                raise GraphError(f"weight_attr={name!r} has shape {tuple(weight.shape)}, but there are {count} edges")
            if not bool((weight >= 0).all()) or not bool(weight.isfinite().all()):
                raise GraphError(f"weight_attr={name!r} holds negative or infinite weights, or NaN; use finite ones from 0 on")
        return weights

    @property
    def num_neighbors(self) -> Any:
        """Neighbours for each hop, -1 for all; in a heterogeneous graph a dict of such lists by edge type."""
        return self._fanouts

    @num_neighbors.setter
    def num_neighbors(self, num_neighbors: Any) -> None:
        self._fanouts = fanouts_of(num_neighbors, self._given)

    @property
    def disjoint(self) -> bool:
        """Whether each seed has a sample of its own, as with times it must."""
        return self._disjoint or self.is_temporal

    @disjoint.setter
    def disjoint(self, disjoint: bool) -> None:
        self._disjoint = disjoint

    @property
    def is_hetero(self) -> bool:
        """Whether nodes and edges have types."""
        return self._given.is_hetero

    @property
    def is_temporal(self) -> bool:
        """Whether nodes or edges have times."""
        return self._times is not None or self._edge_times is not None

    @property
    def num_nodes(self) -> Any:
        """How many nodes there are; in a heterogeneous graph by type."""
        return self._given.num_nodes if self.is_hetero else self._given.num_nodes[None]

    @property
    def edge_permutation(self) -> Any:
        """Where the user has each edge of the sampler's order, on ``device``; by type in a heterogeneous graph."""
        order = {edge_type: lists.permutation(self.device) for edge_type, lists in self._lists.items()}
        return order if self.is_hetero else order[None]

    def on(self, device: torch.device) -> Sampler:
        """The same sampler for another device, with the options that this has now; the graph is shared."""
        other = copy.copy(self)
        other.device = device
        return other

    def over_lists_of(self, kept: Sampler) -> Sampler:
        """This sampler, over the lists that :meth:`kept` gave, as long as the options are those of then."""
        other = copy.copy(self)
        other._engines = kept._engines
        return other

    @property
    def plannable(self) -> bool:
        """Whether what batches read can be told from their seeds alone: of one type, and without times of edges."""
        return not self.is_hetero and self._edge_times is None

    def kept(self, keep: Callable[[NeighborSampler], NeighborSampler]) -> Sampler:
        """The same sampler over what ``keep`` makes of the one that it draws with: same draws, other places of the lists.

        The one before is let go, and made again where another loader still needs it. Homogeneous graphs only.
        """
        other = copy.copy(self)
        other._engines = {}
        key = self._engine_key()
        other._engines[key] = keep(self._engines.pop(key, None) or other._engine())
        return other

    def sample_from_nodes(self, index: Any, number: int | None = None) -> SamplerOutput | HeteroSamplerOutput:
        """The neighbourhood of ``index.node``; ``number`` decides the draws and by default comes from torch's generator."""
        self._given.check_nodes(index.input_type, index.node, "a seed")
        return self._finish(node_sample(index, partial(self._sample, number=number)))

    def sample_from_edges(
        self, index: Any, neg_sampling: NegativeSampling | None = None, number: int | None = None
    ) -> SamplerOutput | HeteroSamplerOutput:
        """The neighbourhood of both ends of edges, and of negative ones."""
        number = _number(number)
        source, target = ends(index.input_type)
        self._given.check_nodes(source, index.row, "edge_label_index")
        self._given.check_nodes(target, index.col, "edge_label_index")
        if index.time is not None and not self.is_temporal:
            raise ConfigError("edge_label_time is compared with times of nodes or edges; name them in time_attr")
        times: Any = self._times
        if times is not None and not self.is_hetero:
            times = times[None]
        negatives = None if neg_sampling is None else Negatives(neg_sampling, number)
        sample = partial(self._sample, number=number)
        return self._finish(edge_sample(index, sample, self.num_nodes, self.disjoint, times, negatives))

    def _finish(self, out: Any) -> Any:
        return out.to_bidirectional() if self.subgraph_type == SubgraphType.bidirectional else out

    def _sample(self, seeds: Any, seed_times: Any = None, number: int | None = None) -> SamplerOutput | HeteroSamplerOutput:
        # Without times of their own, seeds have those of their nodes.
        if seed_times is None and self._edge_times is not None:
            raise ConfigError("edges have times, but the seeds have none to compare them with; pass input_time=")
        with read() as stats:
            sample = self._engine().sample(seeds, batch=_number(number), seed_times=seed_times, stats=stats)
        induced = self.subgraph_type == SubgraphType.induced
        edges = self._induced(sample.node) if induced else (sample.row, sample.col, sample.edge)
        hops = (None, None) if induced else self._hops(sample)
        row, col, edge = map(self._as_given, edges)
        if self._backward:
            row, col = col, row
        output = HeteroSamplerOutput if self.is_hetero else SamplerOutput
        return output(sample.node, row, col, edge, sample.batch, *hops)

    def _as_given(self, found: Any) -> Any:
        """What was found, by the edge types of the user's."""
        return {t: found[self._as_drawn(t)] for t in self._lists} if self.is_hetero else found

    def _hops(self, sample: Any) -> tuple[Any, Any]:
        nodes, edges = sample.num_sampled_nodes, self._as_given(sample.num_sampled_edges)
        if self._hops_drawn:
            return nodes, edges
        if self.is_hetero:
            return {t: counts[:1] for t, counts in nodes.items()}, {t: [] for t in edges}
        return nodes[:1], []

    @property
    def _hops_drawn(self) -> int:
        return len(next(iter(self._fanouts.values()), [])) if isinstance(self._fanouts, dict) else len(self._fanouts)

    def most_nodes(self, seeds: int) -> int | None:
        """The most nodes that a sample of ``seeds`` nodes can have; None where whole lists are taken."""
        fanouts = self._fanouts.values() if isinstance(self._fanouts, dict) else [self._fanouts]
        nodes = frontier = seeds
        for drawn in zip(*fanouts, strict=True):
            if min(drawn) < 0:
                return None
            frontier *= sum(drawn)
            nodes += frontier
        return nodes

    def _induced(self, node: Any) -> tuple[Any, Any, Any]:
        """All edges between the nodes: of their whole neighbourhoods, those that stay among them."""
        if self.is_hetero:
            whole = HeteroSampler(self._graphs, [-1], device=self.device).sample(node)
            inside = {t: whole.row[t] < len(node[ends(t)[0]]) for t in whole.row}
            row, col, edge = ({t: found[t][inside[t]] for t in inside} for found in (whole.row, whole.col, whole.edge))
            return row, col, edge
        alone = NeighborSampler(self._graphs[None], [-1], device=self.device).sample(node)
        within = alone.row < len(node)
        return alone.row[within], alone.col[within], alone.edge[within]

    def _engine(self) -> Any:
        """The sampler for the present options, which PyG's Lightning modules change on a copy."""
        key = self._engine_key()
        if key not in self._engines:
            options: dict[str, Any] = {
                "replace": self.replace,
                "weighted": self._weighted,
                "disjoint": self.disjoint,
                "temporal_strategy": self.temporal_strategy if self.is_temporal else "uniform",
                "time_window": self.time_window,
                "device": self.device,
            }
            times, edge_times = self._times, self._edge_times
            none = [0] * max(self._hops_drawn, 1)  # samplers want a hop
            if self.is_hetero:
                by_type = edge_times and {self._as_drawn(t): time for t, time in edge_times.items()}
                options |= {"times": times, "edge_times": by_type}
                fanouts = dict.fromkeys(self._graphs, none) | {self._as_drawn(t): f or none for t, f in self._fanouts.items()}
                self._engines[key] = HeteroSampler(self._graphs, fanouts, **options)
            else:
                options |= {"times": times and times[None], "edge_times": edge_times and edge_times[None]}
                self._engines[key] = NeighborSampler(self._graphs[None], self._fanouts or none, **options)
        return self._engines[key]

    def _engine_key(self) -> Any:
        return str(self._fanouts), self.replace, self.disjoint, self.temporal_strategy, self.time_window, self.device


class Negatives(NegativeSampling):  # type: ignore[misc]
    """Negative edges as PyG draws them, from a generator of their own: a thread cannot share torch's."""

    def __init__(self, like: NegativeSampling, number: int) -> None:
        super().__init__(like.mode, like.amount, like.src_weight, like.dst_weight)
        self._generator = torch.Generator().manual_seed(number)

    def sample(self, num_samples: int, endpoint: str, num_nodes: int | None = None) -> torch.Tensor:
        """``num_samples`` nodes for one end of edges."""
        weight = self.src_weight if endpoint == "src" else self.dst_weight
        if weight is None:
            return torch.randint(num_nodes or 0, (num_samples,), generator=self._generator, device="cpu")
        if num_nodes is not None and weight.numel() != num_nodes:
            raise ConfigError(
                f"{endpoint}_weight of neg_sampling has {weight.numel()} elements, but there are {num_nodes} nodes"
            )
        return torch.multinomial(weight, num_samples, replacement=True, generator=self._generator)


def checked_placement(placement: str, device: torch.device) -> str:
    """The placement; of ``"gpu"`` without a GPU the host's. Refuses to keep in GPU memory what the CPU is to read, and to write
    what is in memory to storage."""
    if isinstance(placement, str) and placement == "storage":
        raise ConfigError(
            "placement='storage' is of tables that lie in a file: put one into the data, as in data.x = "
            "hl.StorageArray.open('features.npy'), and leave placement= to the rest"
        )
    if placement != "gpu":
        return placement
    if not devices.keeps_on_gpu("placement='gpu'"):
        return "host"
    if device.type != "cuda":
        raise ConfigError(
            f"placement='gpu' is for batches that a GPU makes, but device is {device}; name a GPU, or take placement='host'"
        )
    return placement


def _number(given: int | None) -> int:
    return int(torch.randint(_NUMBERS, ())) if given is None else given
