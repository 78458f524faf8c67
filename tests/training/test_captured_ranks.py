"""Steps of two ranks, of which each replays, overflows or falls back as it must: all make the same sums in the same order."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from hinterland import datasets
from hinterland.runtime.errors import PipelineStalled, RankLost
from hinterland.training.capture import CapturedSteps
from hinterland.training.gradients import GradientAllReduce

from ..ranks import run_ranks
from .captured_steps import SHAPE, Net, adam, eager, loss_of, made, sgd


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def two_ranks(request, tmp_path_factory):
    """What captured_ranks.py left of a run, by rank; and what its ranks said."""
    folder = tmp_path_factory.mktemp("ranks")
    said = run_ranks(2, Path(__file__).with_name("captured_ranks.py"), folder, request.param)
    return lambda name: [torch.load(folder / f"{name}.{rank}.pt", map_location="cpu") for rank in range(2)], said


def close(found, expected):
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-2, atol=1e-3)


def test_a_loop_of_the_users_is_that_of_ddp(two_ranks):
    """The second rank overflows in every third step."""
    found, expected = (two_ranks[0](name) for name in ("captured by hand", "DDP"))
    assert found[0]["replayed"] > found[1]["replayed"] > 0
    for one in found:
        close(one["model"], expected[0]["model"])
        for gradient, true in zip(one["gradients"], expected[0]["gradients"], strict=True):
            torch.testing.assert_close(gradient, true, rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("kind", ["Drift", "BatchNorm1d"])
def test_buffers_are_those_of_the_first_rank(two_ranks, kind):
    """As DistributedDataParallel has them when a forward begins: steps that are replayed, and eager ones of BatchNorm."""
    found, expected = (two_ranks[0](f"{kind}, {way}") for way in ("by hand", "DDP"))
    assert (found[0]["replayed"] > found[1]["replayed"] > 0) == (kind == "Drift")
    held = [name for name in expected[0]["model"] if name.startswith("between.")]
    assert len(held) >= 3
    for name in held:
        assert torch.equal(found[0]["model"][name], found[1]["model"][name]), name
    assert not all(torch.equal(expected[0]["model"][name], expected[1]["model"][name]) for name in held)
    for one in found:
        close(one["model"], {name: value for name, value in expected[0]["model"].items() if name != "between.count"})


@pytest.mark.parametrize("name", ["overflowing", "failing", "whole"])
def test_training_is_that_without_capture(two_ranks, name):
    """Whatever each rank does, both call the same collectives in the same order, one for each step."""
    found, expected = two_ranks[0](name), two_ranks[0]("eager")
    for one, other in zip(found, expected, strict=True):
        close(one["model"], other["model"])
        assert one["collectives"] == other["collectives"] == found[0]["collectives"]
        assert [e["loss"] for e in one["history"]] == pytest.approx([e["loss"] for e in other["history"]], rel=1e-3)
        assert all(e["batches"] == 8 for e in one["history"])
    sizes = f"all_reduce {sum(value.numel() for value in found[0]['model'].values())}"
    assert found[0]["collectives"].count(sizes) == 6 * 4
    replayed, most = (sum(e["replayed"] for e in two_ranks[0](one)[0]["history"]) for one in (name, "whole"))
    least, below = {"whole": (24, most + 1), "overflowing": (most // 2 + 1, most), "failing": (most // 2, most // 2 + 1)}[name]
    assert least <= replayed < below
    assert (sum(e["overflowed"] for e in found[0]["history"]) > 0) == (name == "overflowing")


def test_a_resumed_run_is_the_run(two_ranks):
    """To the bit: each rank goes on with batches of its own shape."""
    for whole, resumed in zip(*(two_ranks[0](name) for name in ("whole", "resumed")), strict=True):
        for name, value in whole["model"].items():
            assert torch.equal(resumed["model"][name], value), name
        for one, other in zip(whole["history"], resumed["history"], strict=True):
            assert one["loss"] == other["loss"] and one["padding"] == other["padding"]


def test_a_rank_that_dies_ends_one_that_replays(two_ranks):
    assert "lost: another rank died, or gave no answer for 60 s" in two_ranks[1][0]


@pytest.mark.parametrize("mean", [True, False])
def test_all_gradients_are_summed(two_ranks, mean):
    """Of each dtype; one that a rank has not counts as zeros; what does not learn has none."""
    expected = [torch.tensor([1.0, 3.0]), torch.tensor([[2.0]], dtype=torch.float64), torch.zeros(3)]
    for found in two_ranks[0](f"gradients {mean}"):
        assert found[3] is None
        for gradient, total in zip(found[:3], expected, strict=True):
            assert torch.equal(gradient, total / 2 if mean else total)


class Event:
    def __init__(self, reached):
        self.query = lambda: reached


@pytest.mark.parametrize(
    "reached, raised",
    [
        (((True, True), (True, False), (False, False)), RankLost),
        (((True, True), (False, False)), PipelineStalled),  # its own gradients are not there
        (((True, True), (True, True)), PipelineStalled),
    ],
)
def test_batches_that_wait_for_a_lost_rank(reached, raised):
    """Whose buffers are not free as steps on them wait: the loader knows only that nothing comes."""

    def stalled():
        yield from ()
        raise PipelineStalled("stage sample has worked on batch 3 for 60 s")

    net = Net()
    optimizer = adam(net.parameters())
    all_reduce = GradientAllReduce(optimizer)
    all_reduce._under_way.extend((Event(before), Event(after)) for before, after in reached)
    steps = CapturedSteps(net, loss_of, optimizer, stalled(), all_reduce=all_reduce)
    with pytest.raises(raised, match="stage sample has worked on batch 3"):
        list(steps)


@pytest.mark.gpu
def test_one_rank_with_nccl():
    """What NCCL does between two graphs: its first collective too, and the watch over it while graphs are captured."""
    device = torch.device("cuda:0")
    dataset = datasets.generate(SHAPE, seed=1, device="cpu")
    torch.distributed.init_process_group("nccl", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        net, loader = made(dataset, device, True)
        optimizer = sgd(net.parameters())
        all_reduce = GradientAllReduce(optimizer, mean=True)
        steps = CapturedSteps(net, loss_of, optimizer, loader, all_reduce=all_reduce)
        losses = torch.stack([loss for _ in range(5) for _, loss in steps]).cpu()
        assert steps.replayed >= 25 and steps.why_not is None and not all_reduce.waits()
    finally:
        torch.distributed.destroy_process_group()
    other, loader = made(dataset, device, False)
    torch.testing.assert_close(losses, eager(other, loader, sgd(other.parameters()), 5), rtol=1e-4, atol=1e-5)
    close(net.state_dict(), other.state_dict())
