"""The picture of a cache plan: its curves are the reads that were met, and the plan's rates lie on them."""

from __future__ import annotations

import xml.etree.ElementTree as xml

import pytest
import torch

import hinterland as hl
from hinterland.runtime.errors import ConfigError
from hinterland.training import plan_cache


@pytest.fixture(scope="module")
def plan():
    graph = hl.generate("kronecker", scale=11, edge_factor=16, seed=1)
    features = hl.UnifiedTensor.from_tensor(torch.randn(graph.num_vertices, 32))
    seeds = torch.arange(0, graph.num_vertices, 4)
    return plan_cache(graph, features, [5, 3], seeds, 64, "150KiB", epochs=6, device="cpu")


def test_the_plans_rates_lie_on_the_curves(plan):
    assert plan.split.rows and plan.split.pages and not plan.split.whole
    for reads, kept, rate in (
        (plan.row_reads(), plan.split.rows, plan.predicted.rows),
        (plan.page_reads(), plan.split.pages, plan.predicted.edges),
    ):
        hottest = reads.double().sort(descending=True).values
        # The plan checks one half of the epochs by the other; the curve flatters itself a little.
        assert rate == pytest.approx(float(hottest[:kept].sum() / hottest.sum()), abs=0.05)
    assert plan.row_bytes == 128 and plan.page_bytes == 4096


def test_it_is_drawn(plan, tmp_path):
    pytest.importorskip("matplotlib")
    plan.plot(tmp_path / "plan.svg")
    root = xml.parse(tmp_path / "plan.svg").getroot()
    assert root.tag.endswith("svg") and len(list(root.iter("{http://www.w3.org/2000/svg}path"))) > 10
    with pytest.raises(ConfigError, match="ends in none of .pdf, .png, .svg"):
        plan.plot(tmp_path / "plan.txt")
