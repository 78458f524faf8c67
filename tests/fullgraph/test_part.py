"""Parts: together they are the graph, whatever its form and however it is split."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import hinterland as hl
from hinterland import _core
from hinterland.fullgraph import part as module
from hinterland.fullgraph.part import build_part, served
from hinterland.fullgraph.split import BALANCES, split
from hinterland.graph import arrays
from hinterland.runtime.errors import ConfigError, GraphError

from ..graphs import family, with_wide_edges
from .test_split import graphs

NO_HUBS = torch.empty(0, dtype=torch.int64)
WEIGHTS = (None, torch.float32, torch.float64, torch.int32, torch.uint8, torch.float16)


def weighted(graph, dtype):
    return graph if dtype is None else hl.Graph(graph.indptr, graph.indices, (torch.arange(graph.num_edges) % 97).to(dtype))


FORMS = {
    "plain": lambda graph: graph,
    "wide": with_wide_edges,
    "reordered": lambda graph: hl.reorder(graph, "degree"),
    "compressed": lambda graph: hl.compress(graph, "rcm"),
}


def parts_of(graph, found):
    made = [build_part(graph, found, rank) for rank in range(found.parts)]
    check(made, found, graph)
    return made


def check(parts, found, graph):
    """What each part promises of its arrays."""
    bounds, degrees = found.bounds, graph.to_scipy().tocsr().indptr
    degrees = np.diff(degrees) if found.order is None else np.diff(degrees)[found.order.numpy()]
    for part in parts:
        first, last = bounds[part.rank], bounds[part.rank + 1]
        n, h, lists = last - first, len(part.halo), last - first + len(found.hubs)
        assert part.rows == n and part.offsets.shape == (lists + 1,) and part.split.shape == (lists,)
        assert int(part.offsets[0]) == 0 and int(part.offsets[-1]) == len(part.places)
        assert bool((part.offsets[:-1] <= part.split).all()) and bool((part.split <= part.offsets[1:]).all())
        assert torch.equal(part.split[n:], part.offsets[n + 1 :])
        row = torch.repeat_interleave(part.offsets.diff())
        local = torch.arange(len(part.places)) < part.split[row]
        assert bool(((part.places >= 0) & (part.places < n))[local].all())
        remote = part.places.long()[~local]
        steps, same_row = remote.diff(), row[~local].diff() == 0
        assert bool((steps >= 0)[same_row].all())
        assert bool((part.halo.diff() > 0).all()) and not bool(((part.halo >= first) & (part.halo < last)).any())
        owners = torch.searchsorted(torch.tensor(bounds), part.halo, right=True) - 1
        assert list(part.halo_offsets) == [int((owners < p).sum()) for p in range(found.parts + 1)]
        read = torch.zeros(h, dtype=torch.bool).index_fill(0, remote.unique() - n, True)
        for p, (begin, end) in enumerate(pairwise(part.halo_offsets)):
            size, wanted = bounds[p + 1] - bounds[p], int(read[begin:end].sum())
            assert end - begin == (size if 5 * wanted > 4 * size else wanted)  # of most of a part's rows all
            if p != part.rank:
                begins, ends = part.entries_of(p)
                of_owner = (part.places >= n + begin) & (part.places < n + end) & (row < n)
                among, own = torch.arange(len(part.places)), row.clamp(max=n - 1)
                assert torch.equal((row < n) & (among >= begins[own]) & (among < ends[own]), of_owner)
        assert part.degrees.tolist() == degrees[first:last].tolist()


def edges_of(parts, found, graph):
    """(row, neighbour, weight) of all entries of all parts by the user's numbers, sorted."""
    order = torch.arange(graph.num_vertices) if found.order is None else found.order
    listed = []
    for part in parts:
        first, last = found.bounds[part.rank], found.bounds[part.rank + 1]
        rows = torch.cat([torch.arange(first, last), found.hubs]).repeat_interleave(part.offsets.diff())
        columns = torch.cat([torch.arange(first, last), part.halo])[part.places.long()]
        weights = torch.ones(len(rows)) if part.weights is None else part.weights
        listed.append(torch.stack([order[rows].double(), order[columns].double(), weights.double()]).numpy())
    return ordered(np.concatenate(listed, axis=1))


def expected(graph):
    matrix = graph.to_scipy()
    return ordered(np.stack([np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)), matrix.indices, matrix.data]))


def ordered(edges):
    return edges[:, np.lexsort(edges)].astype(np.float64)


@given(
    graph=graphs(),
    parts=st.integers(1, 50),
    balance=st.sampled_from(BALANCES),
    form=st.sampled_from(sorted(FORMS)),
    dtype=st.sampled_from(WEIGHTS),
    hubs=st.booleans(),
    piece=st.sampled_from((3, module._PIECE)),
)
def test_parts_together_are_the_graph(graph, parts, balance, form, dtype, hubs, piece):
    graph = FORMS[form](weighted(graph, dtype))
    found = split(graph, parts, balance)
    found = found if hubs else replace(found, hubs=NO_HUBS)
    with mock.patch.object(module, "_PIECE", piece):
        made = parts_of(graph, found)
    assert np.array_equal(edges_of(made, found, graph), expected(graph))
    kind = (torch.int32, None if dtype is None else dtype)
    assert {(part.places.dtype, None if part.weights is None else part.weights.dtype) for part in made} == {kind}


@pytest.mark.parametrize("balance", ["contiguous", "dealt"])
@pytest.mark.parametrize("kind", ["kronecker", "grid", "web"])
def test_large_graphs_are_read_by_all_threads(kind, balance):
    graph = hl.random_weights(family(kind, 14))
    found = split(graph, 5, balance)
    assert np.array_equal(edges_of(parts_of(graph, found), found, graph), expected(graph))


def test_the_list_of_a_large_hub_is_shared():
    ends = torch.randint(0, 50_000, (2, 300_000), generator=torch.Generator().manual_seed(1))
    ends[0, :150_000] = 777
    graph = hl.from_edges(*ends, num_vertices=50_000)
    found = split(graph, 3)
    made = parts_of(graph, found)
    assert found.hubs.tolist() == [777] and all(int(part.offsets.diff()[-1]) > 45_000 for part in made)
    owner = next(part for part in made if found.bounds[part.rank] <= 777 < found.bounds[part.rank + 1])
    row = 777 - found.bounds[owner.rank]
    assert int(owner.degrees[row]) > 150_000 and int(owner.offsets[row]) == int(owner.offsets[row + 1])
    assert np.array_equal(edges_of(made, found, graph), expected(graph))


@given(graph=graphs(), parts=st.integers(1, 5), balance=st.sampled_from(BALANCES))
def test_local_entries_are_in_the_order_of_the_list_and_remote_ones_by_their_rows(graph, parts, balance):
    turned = graph.indices.split(graph.degrees().tolist())  # lists that do not ascend
    indices = torch.cat([NO_HUBS.int(), *(piece.flip(0) for piece in turned)])
    graph = hl.Graph(graph.indptr, indices, torch.arange(graph.num_edges))
    found = split(graph, parts, balance)
    for part in parts_of(graph, found):
        row = torch.repeat_interleave(part.offsets.diff())
        remote = torch.arange(len(part.places)) >= part.split[row]
        place = torch.where(remote, part.places + 1, 0)  # hubs' rows are local entries alone
        key = torch.stack([row, place, part.weights])  # entries with one place in the order of the list
        assert np.array_equal(np.lexsort(key.flip(0).numpy()), np.arange(len(row)))


def test_places_beyond_int32_are_int64():
    graph = hl.random_weights(hl.generate("kronecker", scale=8))
    found = split(graph, 3)
    with mock.patch.object(arrays, "index_dtype", return_value=torch.int64):
        made = parts_of(graph, found)
    assert made[0].places.dtype == torch.int64
    assert np.array_equal(edges_of(made, found, graph), expected(graph))


@given(graph=graphs(), parts=st.integers(1, 6), balance=st.sampled_from(BALANCES))
def test_rows_served_are_those_that_others_read(graph, parts, balance):
    found = split(graph, parts, balance)
    made = parts_of(graph, found)
    bounds = found.bounds
    by_hand = [
        sum(1 for reader in made for row in reader.halo.tolist() if bounds[p] <= row < bounds[p + 1]) for p in range(parts)
    ]
    assert served([part.halo_offsets for part in made]).tolist() == by_hand


def test_bytes_served_are_even_once_vertices_are_dealt_out():
    graph = hl.reorder(hl.generate("kronecker", scale=11, edge_factor=16, seed=1), "degree")
    graph = hl.Graph(graph.indptr, graph.indices, directed=False)  # the most read ones are all the first part's
    for balance in ("contiguous", "dealt"):
        p = hl.PartitionedGraph.from_graph(graph, 4, devices="cpu", balance=balance)
        rows = [sum(int(((of.halo >= a) & (of.halo < b)).sum()) for of in p.parts) for a, b in pairwise(p.bounds)]
        assert p.balance.served == max(rows) * len(rows) / sum(rows)
        assert p.balance.served > 2 if balance == "contiguous" else p.balance.served <= 1.05
        assert f"rows {p.balance.rows:.3f}, bytes served {p.balance.served:.3f}" in repr(p)


def test_a_part_moves_to_a_device(device):
    graph = hl.random_weights(hl.generate("kronecker", scale=8))
    part = build_part(graph, split(graph, 2), 1)
    there = part.to(device)
    for name in ("offsets", "split", "places", "weights", "halo", "degrees"):
        assert getattr(there, name).device == device and torch.equal(getattr(there, name).cpu(), getattr(part, name))
    assert (there.rank, there.rows, there.halo_offsets) == (1, part.rows, part.halo_offsets)


def test_wrong_arguments_get_a_sentence():
    graph = hl.generate("kronecker", scale=5)
    found = split(graph, 2)
    with pytest.raises(ConfigError, match="rank 2 is not a whole number from 0 to 1"):
        build_part(graph, found, 2)
    with pytest.raises(ConfigError, match="one of 32 vertices, but the graph has 64"):
        build_part(hl.generate("kronecker", scale=6), found, 0)
    with pytest.raises(ConfigError, match="from_edges or load_graph"):
        build_part("graph", found, 0)


@pytest.mark.parametrize("value", [-1, 32, 2**31 - 1])
@pytest.mark.parametrize("balance", ["contiguous", "dealt"])
def test_neighbours_that_were_changed_get_a_sentence(value, balance):
    graph = hl.generate("kronecker", scale=5)
    found = split(graph, 2, balance)
    graph.indices[:] = value
    for rank in range(2):
        with pytest.raises(GraphError, match=rf"indices\[0\] is {value}, but the vertices are numbered from 0 to 31"):
            build_part(graph, found, rank)


def test_offsets_that_were_changed_get_a_sentence():
    graph = hl.generate("kronecker", scale=5)
    found = split(graph, 2)
    graph.indptr[7] = 2**40
    with pytest.raises(GraphError, match=r"indptr\[8\] is \d+, less than indptr\[7\] = 1099511627776"):
        build_part(graph, found, 0)


@pytest.mark.parametrize("value", [-1, 3, 40, 77, 2**31 - 1])
@pytest.mark.parametrize("rank", [0, 1])
def test_neighbours_that_change_meanwhile_get_a_sentence(value, rank):
    ends = torch.randint(0, 64, (2, 300), generator=torch.Generator().manual_seed(1))
    ends[0, :100] = 5
    graph = hl.from_edges(*ends, num_vertices=64)
    found = split(graph, 2, "contiguous")
    assert found.hubs.tolist()

    def survey(address):
        surveyed = _core.survey_part(address)
        graph.indices[:] = value
        return surveyed

    loops = SimpleNamespace(survey_part=survey, fill_part=_core.fill_part)
    with mock.patch.object(module, "_core", loops), pytest.raises(GraphError, match="changed while a part was being made"):
        build_part(graph, found, rank)
