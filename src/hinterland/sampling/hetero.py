"""Neighbour sampling where vertices and edges have types."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from ..graph import arrays
from ..graph.graph import Graph
from ..graph.prepare import view_for
from ..runtime import arguments, devices
from ..runtime.arguments import repr_of
from ..runtime.errors import ConfigError, GraphError
from .adjacency import Adjacency
from .batch import NO_WEIGHTS, RULE, BatchSampler, Relation, VertexSet, cut
from .neighbor import (
    UNTIMED,
    check_fanouts,
    check_rule,
    edge_times_on,
    integer,
    limits_on,
    steps,
    usual_bytes,
    vertex_times_on,
    vertices_on,
    weights_of,
    window_of,
)
from .sample import EdgeType, HeteroSample
from .sample_stats import Drawn, Taken, with_stats


class HeteroSampler:
    """Samples the neighbourhoods of seed vertices over relations between types of vertices.

    A hop goes through the relations in the order in which they are given. In each, the vertices of type ``dst`` that the hop
    before added draw from their lists of vertices of type ``src``. Everything else is as for :class:`NeighborSampler`.

    Args:
        graphs: for each relation ``(src, rel, dst)`` the lists of ``dst``'s vertices: an :class:`Adjacency`, or, where both
            types are the same, a :class:`Graph` that is not reordered.
        fanouts: neighbours that each vertex draws, hop by hop: one list for all relations, or one for each; -1 takes whole
            lists.
        replace, disjoint, seed, device: as for :class:`NeighborSampler`.
        weighted: draw in proportion to weights in those relations that have them.
        times: for some types, int64 ``[num_vertices]``, when each vertex appeared. Only those that are not newer than
            the subtree's seed are drawn, vertices of other types always; samples are disjoint.
        edge_times: for some relations, int64 ``[num_edges]``, when each edge appeared; as for :class:`NeighborSampler`.
        temporal_strategy: ``"uniform"``, or ``"last"``, which takes the newest ones.
        time_window: as for :class:`NeighborSampler`, of what has times.
        target: the type of seeds that come without one, as those of a Loader do.

    Attributes:
        num_vertices: of each type.
        views: of each relation, the lists as the device reads them.

    Raises:
        ConfigError: no relations, a name that is no triple of words, fanouts for a relation that does not exist or of another
            number of hops, times or a target of an unknown type or relation, and what :class:`NeighborSampler` refuses.
        GraphError: relations that count the vertices of a type differently; a weight that is negative or infinite.
    """

    def __init__(
        self,
        graphs: Mapping[EdgeType, Adjacency | Graph],
        fanouts: Iterable[int] | Mapping[EdgeType, Iterable[int]],
        *,
        replace: bool = False,
        weighted: bool = False,
        disjoint: bool = False,
        times: Mapping[str, arrays.Array] | None = None,
        edge_times: Mapping[EdgeType, arrays.Array] | None = None,
        temporal_strategy: str = "uniform",
        time_window: int | None = None,
        target: str | None = None,
        seed: int = 0,
        device: torch.device | str | int | None = None,
    ) -> None:
        for what, given in (("graphs", graphs), ("times", times), ("edge_times", edge_times)):
            if not isinstance(given, Mapping) and (given is not None or what == "graphs"):
                raise ConfigError(f"{what} is a dictionary by relation or type, not {repr_of(given)}; see HeteroSampler")
        self.graphs = dict(graphs)
        self.num_vertices = _count_types(self.graphs)
        self.fanouts = _fanouts(fanouts, list(self.graphs))
        self._temporal = times is not None or edge_times is not None
        check_rule(replace, weighted, self._temporal, temporal_strategy)
        self._window = window_of(time_window, self._temporal)
        if unknown := (times or {}).keys() - self.num_vertices.keys():
            raise ConfigError(f"times of type {min(map(str, unknown))!r}, but the types are {', '.join(self.num_vertices)}")
        if target is not None:
            arguments.one_of("target", target, list(self.num_vertices))
        self.target = target
        for relation in edge_times or {}:
            if relation not in self.graphs:
                raise ConfigError(f"edge_times of relation {relation!r}, which is not among the graphs")
        rows = {name: graph.neighbor_lists for name, graph in self.graphs.items()}
        if weighted and not any("weights" in lists.placement for lists in rows.values()):
            raise ConfigError("weighted=True needs weights in one of the relations, as in Adjacency(..., weights=...)")
        self.replace, self.temporal_strategy = replace, temporal_strategy
        self.disjoint = arguments.switch("disjoint", disjoint) or self._temporal
        self.seed = integer("seed", seed)
        self.device = devices.as_device(device)
        self._weights = {
            name: weights_of(lists) if weighted and lists.weight_type is not None else NO_WEIGHTS
            for name, lists in rows.items()
        }
        times, edge_times = times or {}, edge_times or {}
        self._times = {n: vertex_times_on(self.device, times.get(n), count, None) for n, count in self.num_vertices.items()}
        self._edge_times = {n: edge_times_on(self.device, edge_times.get(n), lists.num_edges) for n, lists in rows.items()}
        self.views = {
            name: view_for(lists, self.device, usual_bytes(lists.num_lists), len(rows)) for name, lists in rows.items()
        }

    def sample(
        self,
        seeds: Mapping[str, torch.Tensor | Sequence[int]] | torch.Tensor,
        batch: int = 0,
        seed_times: Mapping[str, torch.Tensor | Sequence[int]] | None = None,
        *,
        stats: dict[str, Any] | None = None,
    ) -> HeteroSample:
        """The sampled neighbourhood of ``seeds``, vertices by their type.

        Args:
            seeds: ``[s]`` for each type that has any; or a tensor of them, if the sampler has a ``target``.
            batch: the number of the mini-batch: another one draws anew.
            seed_times: int64 ``[s]`` for types with seeds, the moment of each; those left out take their own of ``times``.
            stats: as of :meth:`NeighborSampler.sample`; ``vertices`` are by type, ``edges`` by relation, as in
                ``"author__writes__paper"``.

        Raises:
            ConfigError: a type that does not exist, a type with seeds but without times among some with, and what
                :meth:`NeighborSampler.sample` refuses.
            IndexOutOfRange, GraphError, OutOfMemory: as for :meth:`NeighborSampler.sample`.
        """
        if stats is None:
            return self._sample(seeds, batch, seed_times)
        exact = not self._temporal and all(kind == NO_WEIGHTS[0] for kind, _ in self._weights.values())
        draw = functools.partial(self._sample, seeds, batch, seed_times)
        return with_stats(draw, stats, self.device, self.views.values(), self._taken, exact)

    def _taken(self, sample: HeteroSample) -> Taken:
        edges = {"__".join(key): hops for key, hops in sample.num_sampled_edges.items()}
        return Taken(sample.num_sampled_nodes, edges, self.drawn(sample))

    def drawn(self, sample: HeteroSample) -> list[Drawn]:
        """As :meth:`NeighborSampler.drawn`, of each relation."""
        hops = sample.num_sampled_nodes
        owners = {name: node[: len(node) - hops[name][-1]] for name, node in sample.node.items()}
        return [Drawn(view, owners[key[2]], sample.edge[key], sample.col[key]) for key, view in self.views.items()]

    def _sample(
        self,
        seeds: Mapping[str, torch.Tensor | Sequence[int]] | torch.Tensor,
        batch: int,
        seed_times: Mapping[str, torch.Tensor | Sequence[int]] | None,
    ) -> HeteroSample:
        names = list(self.num_vertices)
        by_type: Any = {self.target: seeds} if self.target is not None and isinstance(seeds, torch.Tensor) else seeds
        for what, given in (("seeds", by_type), ("seed_times", {} if seed_times is None else seed_times)):
            if not isinstance(given, Mapping):
                raise ConfigError(
                    f"{what} are given by type, as in {{{names[0]!r}: [0, 1, 2]}}, not as a {type(given).__name__}"
                )
            if unknown := given.keys() - self.num_vertices.keys():
                raise ConfigError(f"{what} of type {min(map(str, unknown))!r}, but the types are {', '.join(names)}")
        with devices.on(self.device):
            chosen = {name: vertices_on(self.device, f"seeds of type {name!r}", given) for name, given in by_type.items()}
            sets = self._sets(chosen)
            limits = self._limits(chosen, seed_times or {})
            relations = [
                Relation(
                    self.views[key],
                    names.index(key[0]),
                    names.index(key[2]),
                    self.fanouts[key],
                    *self._weights[key],
                    self._edge_times[key],
                )
                for key in self.graphs
            ]
            number, newest = integer("batch", batch), self.temporal_strategy == "last"
            rule = RULE(seed=self.seed, batch=number, replace=bool(self.replace), newest=newest, window=self._window)
            run = BatchSampler(list(sets.values()), relations, rule, limits, self.device)
            run.begin()
            run.finish()
        found = {name: cut(r.edges, r.count) for name, r in zip(self.graphs, relations, strict=True)}
        return HeteroSample(
            node={name: cut(s.node, s.known) for name, s in sets.items()},
            row={name: edges[0] for name, edges in found.items()},
            col={name: edges[1] for name, edges in found.items()},
            edge={name: edges[2] for name, edges in found.items()},
            num_sampled_nodes={name: [ends[0], *steps(ends)] for name, ends in zip(names, run.vertex_ends, strict=True)},
            num_sampled_edges={name: steps(ends) for name, ends in zip(self.graphs, run.edge_ends, strict=True)},
            batch={n: cut(s.tree, s.known) for n, s in sets.items() if s.tree is not None} if self.disjoint else None,
        )

    def _sets(self, seeds: Mapping[str, torch.Tensor]) -> dict[str, VertexSet]:
        none = torch.zeros(0, dtype=torch.int64, device=self.device)
        trees: dict[str, torch.Tensor] = {}
        count = 0
        for name, given in seeds.items():
            trees[name] = torch.arange(count, count + len(given), device=self.device)
            count += len(given)
        return {
            name: VertexSet(size, seeds.get(name, none), trees.get(name, none) if self.disjoint else None, self._times[name])
            for name, size in self.num_vertices.items()
        }

    def _limits(
        self, seeds: Mapping[str, torch.Tensor], seed_times: Mapping[str, torch.Tensor | Sequence[int]]
    ) -> torch.Tensor | None:
        if not self._temporal:
            if seed_times:
                raise ConfigError(UNTIMED)
            return None
        parts = [torch.zeros(0, dtype=torch.int64, device=self.device)]
        for name, given in seeds.items():
            limits = limits_on(self.device, given, seed_times.get(name), self._times[name])
            if limits is None:
                raise ConfigError(f"seeds of type {name!r} have no times of their own; pass seed_times={{{name!r}: ...}}")
            parts.append(limits)
        return torch.cat(parts)

    def __repr__(self) -> str:
        return f"HeteroSampler({self.fanouts}, seed {self.seed}, on {self.device})"


def _count_types(graphs: Mapping[EdgeType, Adjacency | Graph]) -> dict[str, int]:
    """The vertices of each type, in order of first mention."""
    if not graphs:
        raise ConfigError("there are no relations; name one at least, as in {('paper', 'cites', 'paper'): graph}")
    counted: dict[str, int] = {}
    for name, graph in graphs.items():
        if not (isinstance(name, tuple) and len(name) == 3 and all(isinstance(word, str) for word in name)):
            raise ConfigError(f"relation {name!r} is not named by three words, as in ('author', 'writes', 'paper')")
        if isinstance(graph, Adjacency):
            ends = ((name[0], graph.num_sources), (name[2], graph.num_targets))
        elif isinstance(graph, Graph) and graph.original_ids is None:
            ends = ((name[0], graph.num_vertices), (name[2], graph.num_vertices))
        elif isinstance(graph, Graph):
            raise ConfigError(f"the graph of relation {name} was reordered, which samplers of several types do not take")
        else:
            raise ConfigError(f"relation {name} is a {type(graph).__name__}, but must be an Adjacency or a Graph")
        for kind, count in ends:
            if counted.setdefault(kind, count) != count:
                raise GraphError(f"relation {name} has {count} vertices of type {kind!r}, but another one has {counted[kind]}")
    return counted


def _fanouts(
    fanouts: Iterable[int] | Mapping[EdgeType, Iterable[int]], relations: Sequence[EdgeType]
) -> dict[EdgeType, list[int]]:
    """The fanouts of each relation."""
    if not isinstance(fanouts, Mapping):
        return dict.fromkeys(relations, check_fanouts(fanouts))
    if unknown := [name for name in fanouts if name not in relations]:
        raise ConfigError(f"fanouts of relation {unknown[0]!r}, which is not among the graphs")
    if missing := [name for name in relations if name not in fanouts]:
        raise ConfigError(f"fanouts of relation {missing[0]!r} are missing; [0, 0] draws none of it in two hops")
    checked = {name: check_fanouts(fanouts[name]) for name in relations}
    hops = {name: len(given) for name, given in checked.items()}
    if len(set(hops.values())) > 1:
        most, least = max(hops, key=hops.__getitem__), min(hops, key=hops.__getitem__)
        raise ConfigError(f"fanouts of {most} have {hops[most]} hops, those of {least} {hops[least]}; give all the same number")
    return checked
