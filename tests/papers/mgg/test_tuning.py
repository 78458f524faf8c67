"""What the tuner is measured against: every shape."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.append(str(Path(__file__).parents[3]))
from hinterland.fullgraph import PartitionedGraph, tune, tuner
from hinterland.fullgraph.space import LONGEST
from papers.benchmarks.mgg._tuning import brute_force
from tests.fullgraph.test_tuner import longer_is_quicker, parted, rows_of  # noqa: F401
from tests.graphs import family


def test_every_shape_is_timed_by_brute_force(request):
    request.getfixturevalue("longer_is_quicker")
    p = parted()
    trials = brute_force(p, rows_of(p), strategy="halo")
    assert [trial.shape.longest for trial in trials] == sorted(LONGEST) and all(trial.spent > 0 for trial in trials)
    assert not any(e.tuned for e in p.entries("all", None)) and not tuner.tuned(p)


@pytest.mark.gpu
def test_the_tuner_tries_some_of_all(device="cuda:0"):
    p = PartitionedGraph.from_graph(family("kronecker", 14, seed=1), devices=device)
    x = p.scatter(torch.randn(p.num_vertices, 64))
    found, trials = tune(p, x, again=True), brute_force(p, x)
    assert {trial.shape for trial in found.table} <= {trial.shape for trial in trials} and len(trials) > 20
