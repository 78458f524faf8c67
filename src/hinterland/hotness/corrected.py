"""Fetches that are expected by the inclusion probability and by counts together: what caches rank rows by.

The probability knows every vertex and no chance, but takes events for independent that are not, and looks at no weights. Counts
of few epochs know the sampler as it is, and are mostly chance. So each is believed as far as the counts themselves say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ..runtime import arguments
from ..runtime.errors import ConfigError


def corrected_probability(probability: torch.Tensor, counts: Sequence[torch.Tensor]) -> torch.Tensor:
    """How often each vertex is expected in the batches that were counted: the best linear mix of both, by credibility theory
    (Buehlmann and Straub 1970).

    With c(v) the counts of both halves and m(v) the probability times one number, so that m and c have the same sum, it is

        m(v) + Z(v) (c(v) - m(v)),    Z(v) = m(v) / (m(v) + a).

    a is what counts stray by chance over what the probability is wrong by. Chance makes the two halves differ from each other,
    and what makes both differ from m in the same direction is none:

        a = sum((c_0 - m_0 - c_1 + m_1)^2) / sum(m) * sum(m_0 m_1) / sum((c_0 - m_0) (c_1 - m_1)).

    Args:
        probability: as :func:`inclusion_probability` makes it, ``[num_vertices]``.
        counts: two, as :func:`presample` makes them, of different epochs, each ``[num_vertices]``.

    Returns:
        float64 ``[num_vertices]``, on the device of ``probability``.

    Raises:
        ConfigError: other than two counts, or of another shape than the probability.
    """
    if not isinstance(counts, Sequence | torch.Tensor):
        raise ConfigError(f"counts are a list of two, as presample() makes them, not {arguments.repr_of(counts)}")
    if len(counts) != 2:
        raise ConfigError(f"counts are of two halves of the epochs, not of {len(counts)}; presample() each of them")
    for name, given in (("probability", probability), ("counts", counts[0]), ("counts", counts[1])):
        if arguments.dense(name, given).ndim != 1 or given.shape != probability.shape:
            shapes = f"{tuple(given.shape)} beside {tuple(probability.shape)}"
            raise ConfigError(f"{name} have shape {shapes}, but both are one number for each vertex")
    chance = probability.double()
    first, second = (half.to(chance) for half in counts)
    return believed(chance, first + second, trust(chance, first, second))


def trust(probability: torch.Tensor, first: torch.Tensor, second: torch.Tensor) -> float:
    """a of :func:`corrected_probability`; infinity where the counts say nothing against the probability."""
    means = [_mean(probability, half) for half in (first, second)]
    astray = [half - mean for half, mean in zip((first, second), means, strict=True)]
    common = float((astray[0] * astray[1]).sum(dtype=torch.float64))
    if common <= 0:
        return math.inf
    chance = float((astray[0] - astray[1]).square().sum(dtype=torch.float64) / (means[0] + means[1]).sum(dtype=torch.float64))
    return chance * float((means[0] * means[1]).sum(dtype=torch.float64)) / common


def believed(probability: torch.Tensor, counts: torch.Tensor, trust: float) -> torch.Tensor:
    """Expected counts, as of :func:`corrected_probability`, of the probability's type. 0 where the probability is."""
    mean = _mean(probability, counts)
    if math.isinf(trust):
        return mean
    return torch.where(mean > 0, mean * (trust + counts) / (trust + mean), 0.0)


def _mean(probability: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    return probability * float(counts.sum() / probability.sum(dtype=torch.float64))
