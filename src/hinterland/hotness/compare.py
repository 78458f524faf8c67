"""All scores on one graph, against the fetches that they are to foretell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from ..graph import Graph
from ..runtime import devices
from ..runtime.repr import Repr
from .corrected import corrected_probability
from .hits import hit_rate
from .presample import SeedSampler, presample
from .scores import degree, inclusion_probability, reverse_pagerank, weighted_reverse_pagerank

PRESAMPLED = (1, 2)  # K of PreSC#K
CORRECTED = "corrected-probability"  # by the counts of PreSC#2
ORACLE = "oracle"


@dataclass(frozen=True, repr=False)
class Comparison(Repr):
    """What each score promised, and what was fetched.

    Attributes:
        counts: fetches of each vertex in the epochs that count, float64 ``[num_vertices]``.
        scores: by name, each ``[num_vertices]``; the last one, ``"oracle"``, is ``counts`` itself.
        seconds: by name, what it took to make each; of the oracle, to count.
    """

    counts: torch.Tensor
    scores: dict[str, torch.Tensor]
    seconds: dict[str, float]

    def hit_rates(self, shares: Sequence[float]) -> dict[str, list[float]]:
        """By name, the :func:`hit_rate` of a cache of each of the shares."""
        return {name: hit_rate(scores, self.counts, shares) for name, scores in self.scores.items()}


def compare(
    graph: Graph,
    sampler: SeedSampler,
    seeds: torch.Tensor | Sequence[int],
    fanouts: Sequence[int],
    batch_size: int,
    epochs: int = 5,
    seed: int = 0,
    device: torch.device | str | int | None = None,
) -> Comparison:
    """Makes every score of ``graph``, samples ``epochs`` epochs besides those of pre-sampling, and counts them.

    Args:
        graph, seeds, fanouts, batch_size: as :func:`inclusion_probability` takes them.
        sampler: of the same graph and fanouts, as :func:`presample` takes it.
        epochs: how many count.
        seed: of the order of the seeds.
        device: where graph scores are made; None is the current GPU, or the CPU on a machine without one.

    Raises:
        ConfigError, IndexOutOfRange, GraphError, OutOfMemory: as the scores do.
    """
    device = devices.as_device(device)
    scores: dict[str, torch.Tensor] = {}
    makers: dict[str, Callable[[], torch.Tensor]] = {
        "degree": lambda: degree(graph, device=device),
        "reverse-pagerank": lambda: reverse_pagerank(graph, device=device),
        "weighted-reverse-pagerank": lambda: weighted_reverse_pagerank(graph, seeds, device=device),
        "inclusion-probability": lambda: inclusion_probability(graph, seeds, fanouts, batch_size, device=device),
    }
    for k in PRESAMPLED:
        makers[f"presample-{k}"] = lambda k=k: presample(sampler, seeds, batch_size, k, seed)  # type: ignore[misc]
    makers[CORRECTED] = lambda: corrected_probability(
        scores["inclusion-probability"].to(scores["presample-1"]),
        (scores["presample-1"], scores["presample-2"] - scores["presample-1"]),
    )
    makers[ORACLE] = lambda: presample(sampler, seeds, batch_size, epochs, seed, first_epoch=max(PRESAMPLED))
    seconds: dict[str, float] = {}
    for name, make in makers.items():
        began = devices.idle_at(device)
        scores[name] = make()
        seconds[name] = devices.idle_at(device) - began
    seconds[CORRECTED] += seconds["inclusion-probability"] + seconds["presample-2"]
    return Comparison(scores[ORACLE], scores, seconds)
