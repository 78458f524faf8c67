"""One part in each of several processes: all strategies agree with the oracle, and nobody waits for ever."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from ..ranks import start_ranks

PROGRAM = Path(__file__).with_name("ranks.py")


class Job:
    """A run of ranks.py in ``count`` processes, of which the last dies as ``death`` says."""

    def __init__(self, count, death, backend="gloo"):
        own = {"LOCAL_WORLD_SIZE": str(count)}
        self.codes, self.said, self.errors = start_ranks(
            count, PROGRAM, backend, death, own=lambda rank: {**own, "LOCAL_RANK": str(rank)}, seconds=560
        )

    def check(self, count):
        """What every rank has to say, whatever ends them."""
        for text, error in zip(self.said, self.errors, strict=True):
            assert "races: none\n" in text and "reads: as sent\n" in text and "replicas: none is old\n" in text, error
            assert "looks: alike\n" in text, error
            assert text.count("as the oracle\n") >= 7 + 6 + 3 + 1 + 3, error
            last, different = f"rank {count - 1}", f"ConfigError: rank {count - 1} has"
            for name, says in (
                ("graph", different),
                ("neighbours", f"{different} checksum of neighbors="),
                ("direction", f"{different} directed=False, but rank 0 has True; start"),
                ("weights", f"{different} type of weights=torch.float32, but rank 0 has None; start"),
                ("type", f"{different} type of weights=torch.float64, but rank 0 has torch.float32; start"),
                ("values", f"{different} checksum of weights="),
                ("balance", f"{different} balance='dealt', but rank 0 has 'contiguous'; start"),
                ("balance of one", "ConfigError: balance"),
                ("part", "OutOfMemory: no room for the part"),
                ("device", "DeviceError: "),
                ("dtype", f"{different} dtype=torch.float16, but rank 0 has torch.float32; start"),
                ("width", f"{different} shape=(50, 3), but rank 0 has (50, 2); start"),
                ("rows", f"{different} shape=(49, 2), but rank 0 has (50, 2); start"),
                ("all rows", "ConfigError: x of shape [49, 2] for 50 vertices"),
            ):
                assert f"refused {name}: {says}" in text, (last, name, text, error)


@pytest.mark.timeout(600)  # eight on two cores that others use as well
@pytest.mark.parametrize(
    "count, death",
    [
        (2, "halo"),
        pytest.param(3, "stuck", marks=pytest.mark.nightly),
        pytest.param(4, "direct", marks=pytest.mark.nightly),
        pytest.param(8, "gradient", marks=pytest.mark.nightly),
    ],
)
def test_processes_of_the_cpu(count, death):
    """Parity, refusals and races in one start, which takes seconds; then the last dies and the others hear of it."""
    job = Job(count, death)
    job.check(count)
    assert job.codes == [0] * (count - 1) + [7], job.errors
    for text in job.said[:-1]:
        seconds, sentence = re.search(r"^lost: (\S+) s: (.*)$", text, re.MULTILINE).groups()
        assert sentence.startswith(
            f"another rank died, or gave no answer for {10 if death == 'stuck' else 20} s; its own message"
        )
        assert (9.5 if death == "stuck" else 0) <= float(seconds) < 30


@pytest.mark.gpu
def test_processes_of_gpus():
    """As many as there are GPUs, of which one dies by NCCL's timeout alone: that is not tried here."""
    count = min(torch.cuda.device_count(), 8)
    if count < 2:
        pytest.skip("one GPU alone")
    job = Job(count, "none", "nccl")
    job.check(count)
    assert job.codes == [0] * count, job.errors
