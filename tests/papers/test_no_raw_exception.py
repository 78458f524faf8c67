"""As of the product: whatever a caller passes is answered by a result or by an error of ours."""

from __future__ import annotations

import pytest
import torch

import hinterland as hl
from hinterland import sampling
from hinterland.runtime.errors import HinterlandError
from hinterland_papers import emogi
from hinterland_papers.emogi import traffic

from ..test_no_raw_exception import Right, public, raw_with_bad, raw_with_wrong

PUBLIC = public(emogi, traffic)


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    return Right(tmp_path_factory.mktemp("right"))


@pytest.fixture
def plain():
    return hl.from_edges(torch.arange(7), torch.arange(1, 8), num_vertices=8, symmetrize=True)


def test_a_wrong_argument_gets_a_sentence(plain):
    sample = sampling.NeighborSampler(plain, [2], seed=1, device="cpu").sample([0])
    stats = hl.bfs(plain, 0, device="cpu", stats=True).stats
    run = {"algorithm": "bfs", "source": 0, "access": "aligned", "assignment": "warp", "link": None}
    cases = (
        (traffic.LinkModel, {"rate": 1e9, "latency": 1e-6, "overhead": 12, "requests": 1e6}),
        (traffic.estimate, {"counted": stats, "link": None}),
        (traffic.drawn, {"graph": plain, "sample": sample}),
        (traffic.analyse, {"graph": plain, **run}),
        (lambda **given: traffic.analyse(plain, **given), {"edge_bytes": None, "size": None}),
    )
    assert [raw for call, good in cases for raw in raw_with_bad(call, good)] == []


@pytest.mark.parametrize("name", PUBLIC)
def test_a_wrong_kind_of_value_gets_a_sentence(name, right, plain):
    own = {"graph": hl.random_weights(plain, "float32")} if name == "emogi.sssp" else {}
    assert not raw_with_wrong(PUBLIC[name], right, own)


@pytest.mark.parametrize(
    ("call", "changed", "sentence"),
    [
        (emogi.bfs, {"graph": "prepared", "source": 0}, "graph is a ResidentGraph, but must be a Graph; pass its .graph"),
        (emogi.cc, {"graph": None}, "graph is a NoneType, but must be a Graph; make one with"),
        (emogi.pagerank, {"damping": "x"}, "damping 'x' is not a number"),
        (emogi.pagerank, {"tolerance": [1]}, r"tolerance \[1\] is not a number"),
        (emogi.sssp, {"source": 0, "observe": "x"}, "observe='x' is no function"),
        (traffic.LinkModel.of, {"rate": "x", "latency": 1e-6}, "rate 'x' is not a number"),
    ],
)
def test_the_sentences_of_some(call, changed, sentence, plain):
    if changed.get("graph") == "prepared":
        changed = {**changed, "graph": hl.prepare(plain)}
    graph = {} if call == traffic.LinkModel.of else {"graph": plain}
    with pytest.raises(HinterlandError, match=sentence):
        call(**{**graph, **changed})
