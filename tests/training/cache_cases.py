"""What tests of caches compare: batches with those without a cache, and what is served with what was predicted."""

from __future__ import annotations

import pytest
import torch


def same_batches(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(a.seeds, b.seeds) and torch.equal(a.x, b.x)
        for name in ("node", "row", "col", "edge"):
            assert torch.equal(getattr(a.sample, name), getattr(b.sample, name))
    return True


def as_predicted(plan, sampler, table, epochs=1):
    """What the plan's check has found in other epochs, which is nearly what was predicted."""
    check = plan.measure(sampler, table, epochs)
    for name in ("rows", "edges", "peers"):
        assert getattr(check.found, name) == pytest.approx(getattr(plan.predicted, name), abs=0.03)
    return check
