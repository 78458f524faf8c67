"""Counts of link requests against a replay with Python's sets, warp by warp and load by load."""

from __future__ import annotations

import bisect
import json
from collections import Counter, defaultdict

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland.runtime.errors import ConfigError, GraphError, IndexOutOfRange
from hinterland_papers.emogi import traversal as emogi
from hinterland_papers.emogi.traffic import LinkModel, analyse
from hinterland_papers.emogi.traffic.plot import plot

SIZES = (32, 64, 96, 128)
WARPS = 8  # of a block


def usual_size(graph, assignment, edge_bytes):
    mean = max(graph.num_edges / graph.num_vertices, 1)
    sizes = {"warp": 1, "chunked": 8, "transposed": 128, "coarsened": max(round(4096 / edge_bytes / mean), 1)}
    return sizes.get(assignment, 4096 // edge_bytes)


def workers_of(indptr, assignment, size):
    """For each worker its turns: (vertex, begin, end), or None where a turn has no vertex."""
    vertices = len(indptr) - 1
    lists = [(v, indptr[v], indptr[v + 1]) for v in range(vertices)]
    if assignment == "transposed":
        pivot = -(-vertices // size)
        numbers = [w // pivot + w % pivot * size for w in range(pivot * size)]
        return [[lists[v] if v < vertices else None] for v in numbers]
    if assignment in ("odt", "odt-active"):
        tiles = []
        for begin in range(0, indptr[-1], size):
            first = bisect.bisect_right(indptr, begin) - 1
            pieces = [(v, max(b, begin), min(e, begin + size)) for v, b, e in lists[first:] if b < begin + size]
            tiles.append(pieces)
        return tiles
    chunks = [lists[v : v + size] for v in range(0, vertices, size)]
    return [chunk + [None] * (size - len(chunk)) for chunk in chunks]


def warps_of(workers, access, assignment, size):
    """For each warp, the turns that it takes one after the other: the pieces that its lanes read in step."""
    if access == "naive":
        for first in range(0, len(workers), 32):
            lanes = workers[first : first + 32]
            yield [[lane[t] for lane in lanes if t < len(lane)] for t in range(max(map(len, lanes)))]
        return
    each = {"transposed": 32, "odt": 1, "odt-active": 1}.get(assignment, max(32 // size, 1))
    for block in range(0, len(workers), each * WARPS):
        for warp in range(WARPS):
            mine = [w for w in range(block + warp, block + each * WARPS, WARPS) if w < len(workers)]
            yield [[piece] for w in mine for piece in workers[w]]


def loads_of(pieces, access, line_elements):
    """The element numbers of each load, as sets."""
    loads = defaultdict(set)
    for _, begin, end in pieces:
        if access == "naive":
            for i in range(begin, end):
                loads[i - begin].add(i)
        else:
            start = begin // line_elements * line_elements if access == "aligned" else begin
            for i in range(begin, end):
                loads[(i - start) // 32].add(i)
    return [loads[k] for k in sorted(loads)]


def requests_of(sectors):
    """Sizes of the requests for these sectors: runs within lines."""
    return Counter(
        32 * len(run)
        for line in {s // 4 for s in sectors}
        for run in "".join("x" if 4 * line + i in sectors else " " for i in range(4)).split()
    )


def replayed(graph, levels, access, assignment, edge_bytes, size, element_bytes=None):
    """By level: requests by size, and the waits of the busiest warp."""
    element_bytes = element_bytes or edge_bytes
    requests, waits = defaultdict(Counter), Counter()
    for turns in warps_of(workers_of(graph.indptr.tolist(), assignment, size), access, assignment, size):
        for level in range(max(levels) + 1):
            before, waited = set(), 0
            for turn in turns:
                active = [p for p in turn if p is not None and levels[p[0]] == level and p[1] < p[2]]
                fetching = 0
                for load in loads_of(active, access, 128 // edge_bytes):
                    sectors = {i * element_bytes // 32 for i in load}
                    requests[level] += requests_of(sectors - before)
                    fetching += bool(sectors - before)
                    before = sectors
                waited += -(-fetching // (1 if access == "naive" else 8))
            waits[level] = max(waits[level], waited)
    return requests, waits


@st.composite
def graphs(draw):
    """Lists of many lengths: most short, some of several lines."""
    degrees = draw(st.lists(st.one_of(st.integers(0, 6), st.integers(0, 90)), min_size=1, max_size=120))
    seed = draw(st.integers(0, 2**32 - 1))
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randint(0, len(degrees), (sum(degrees),), generator=generator)
    sources = torch.repeat_interleave(torch.arange(len(degrees)), torch.tensor(degrees))
    return hl.from_edges(sources, targets, num_vertices=len(degrees))


@pytest.mark.parametrize("access", emogi.ACCESSES)
@pytest.mark.parametrize("assignment", emogi.ASSIGNMENTS)
@settings(max_examples=12)
@given(graph=graphs(), edge_bytes=st.sampled_from([4, 8]), size=st.one_of(st.none(), st.integers(1, 80)))
def test_counts_are_those_of_a_replay(access, assignment, graph, edge_bytes, size):
    source = int(graph.degrees().argmax())
    found = analyse(graph, "bfs", source, access, assignment, edge_bytes, size)
    levels = hl.bfs(graph, source, device="cpu").levels.tolist()
    chosen = size or usual_size(graph, assignment, edge_bytes)
    requests, waits = replayed(graph, levels, access, assignment, edge_bytes, chosen)
    assert len(found.levels) == max(levels) + 1
    for number, level in enumerate(found.levels):
        assert level["requests"] == {str(size): requests[number][size] for size in SIZES}
        assert level["waits"] == waits[number]


@given(graph=graphs(), edge_bytes=st.sampled_from([4, 8]))
def test_bytes_are_those_of_the_lists(graph, edge_bytes):
    source = int(graph.degrees().argmax())
    found = analyse(graph, "bfs", source, "aligned", "warp", edge_bytes)
    levels, indptr = hl.bfs(graph, source, device="cpu").levels, graph.indptr.tolist()
    for number, level in enumerate(found.levels):
        active = (levels == number).nonzero()[:, 0].tolist()
        elements = [i for v in active for i in range(indptr[v], indptr[v + 1])]
        assert level["vertices"] == len(active)
        assert level["useful_bytes"] == edge_bytes * len(elements)
        assert level["distinct_bytes"] == 32 * len({i * edge_bytes // 32 for i in elements})
        assert level["distinct_bytes"] <= level["bytes"] == sum(s * level["requests"][str(s)] for s in SIZES)
    read = emogi.bfs(hl.Graph(graph.indptr, graph.indices), source, device="cpu").stats["bytes"]
    if edge_bytes == 4:  # what a run reports has each list for itself, without what a warp's cache still holds
        assert found.total["bytes"] <= read


def test_sssp_counts_edges_and_weights():
    graph = hl.random_weights(hl.generate("uniform", scale=8, edge_factor=4, seed=1, device="cpu"), "int32")
    seen = []
    emogi.sssp(graph, 3, device="cpu", observe=lambda active: seen.append(active.clone()))
    found = analyse(graph, "sssp", 3, "merged", edge_bytes=8)
    assert len(found.levels) >= 2
    first = [0 if v == 3 else -1 for v in range(graph.num_vertices)]
    edges, _ = replayed(graph, first, "merged", "warp", 8, 1)
    weights, _ = replayed(graph, first, "merged", "warp", 8, 1, element_bytes=4)
    together = edges[0] + weights[0]
    assert found.levels[0]["requests"] == {str(size): together[size] for size in SIZES}
    assert found.levels[0]["vertices"] == 1


@pytest.mark.parametrize("algorithm", ["cc", "pagerank"])
def test_what_has_no_source_begins_with_every_vertex(algorithm):
    graph = hl.generate("kronecker", scale=8, edge_factor=4, seed=1, device="cpu")
    found = analyse(graph, algorithm)
    assert found.levels[0]["vertices"] == graph.num_vertices
    assert found.levels[0]["useful_bytes"] == 4 * graph.num_edges
    assert found.run["source"] is None


def test_a_list_that_begins_off_a_line():
    """EMOGI's figure 3: 256 elements of 4 bytes that begin 32 bytes past a line."""
    indptr = torch.tensor([0, 8, 264])
    graph = hl.Graph(indptr, torch.zeros(264, dtype=torch.int32))
    merged = analyse(graph, "bfs", 1, "merged").levels[0]["requests"]
    aligned = analyse(graph, "bfs", 1, "aligned").levels[0]["requests"]
    naive = analyse(graph, "bfs", 1, "naive").levels[0]["requests"]
    assert merged == {"32": 8, "64": 0, "96": 8, "128": 0}
    assert aligned == {"32": 1, "64": 0, "96": 1, "128": 7}
    assert naive == {"32": 32, "64": 0, "96": 0, "128": 0}


def test_time_is_the_link_or_the_longest_chain():
    graph = hl.generate("uniform", scale=12, edge_factor=16, seed=1, device="cpu")
    link = LinkModel(rate=1e9, latency=1e-6, overhead=12)
    found = analyse(graph, "bfs", 0, link=link)
    heavy = max(found.levels, key=lambda level: level["bytes"])
    requests = sum(heavy["requests"].values())
    assert heavy["seconds"] == pytest.approx((heavy["bytes"] + 12 * requests) / 1e9)
    assert heavy["in_flight"] == pytest.approx(requests / heavy["seconds"] * 1e-6)
    assert found.levels[0]["seconds"] == pytest.approx(max(1e-6, (found.levels[0]["bytes"] + 12) / 1e9), rel=0.5)
    assert found.total["seconds"] == pytest.approx(sum(level["seconds"] for level in found.levels))
    assert found.levels[2]["start"] == pytest.approx(found.levels[0]["seconds"] + found.levels[1]["seconds"])


def test_json_and_picture(tmp_path):
    found = analyse(hl.generate("kronecker", scale=8, edge_factor=4, seed=1, device="cpu"))
    assert json.loads(json.dumps(found.to_json()))["total"]["bytes"] == found.total["bytes"]
    plot(found, tmp_path / "traffic.svg")
    assert "bfs from" in (tmp_path / "traffic.svg").read_text()
    with pytest.raises(ConfigError, match="ends in none of .pdf, .png, .svg"):
        plot(found, tmp_path / "traffic.txt")


def test_graphs_without_edges():
    graph = hl.from_edges(torch.tensor([], dtype=torch.int64), torch.tensor([], dtype=torch.int64), num_vertices=3)
    for assignment in emogi.ASSIGNMENTS:
        total = analyse(graph, "bfs", 1, assignment=assignment).total
        assert total["bytes"] == total["seconds"] == 0 and total["vertices"] == 1


def test_bad_input():
    graph = hl.from_edges(torch.tensor([0]), torch.tensor([1]))
    with pytest.raises(ConfigError, match="algorithm 'dfs' is not one of bfs, sssp, cc, pagerank"):
        analyse(graph, "dfs")
    with pytest.raises(ConfigError, match="edge_bytes=2 is neither 4 nor 8"):
        analyse(graph, edge_bytes=2)
    with pytest.raises(IndexOutOfRange, match="source 9 is not a vertex"):
        analyse(graph, source=9)
    with pytest.raises(GraphError, match="undirected"):
        analyse(graph, "cc")
    with pytest.raises(ConfigError, match="a link has a rate"):
        LinkModel(rate=0)


def test_traffic_of_a_reordered_graph_is_that_of_its_arrays():
    graph = hl.random_weights(hl.generate("kronecker", scale=8))
    found = hl.reorder(graph, "degree")
    alone = hl.Graph(found.indptr, found.indices, found.weights, directed=False)
    for algorithm in emogi.ALGORITHMS:
        source = None if algorithm in ("cc", "pagerank") else 7
        there = analyse(alone, algorithm, None if source is None else int(found.to_internal(source)))
        assert analyse(found, algorithm, source).total == there.total
    assert torch.equal(emogi.bfs(found, 7, device="cpu").values, emogi.bfs(graph, 7, device="cpu").values)
    assert torch.equal(emogi.sssp(found, 7, device="cpu").values, emogi.sssp(graph, 7, device="cpu").values)
    assert torch.equal(emogi.cc(found, device="cpu").values, emogi.cc(graph, device="cpu").values)
