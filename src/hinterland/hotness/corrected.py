"""Fetches that are expected by the inclusion probability and by counts together: what caches rank rows by.

The probability knows every vertex and no chance, but takes events for independent that are not, and looks at no weights. Counts of
few epochs know the sampler as it is, and are mostly chance. So each is believed as far as the counts themselves say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ..runtime import arguments
from ..runtime.errors import ConfigError


def corrected_probability(probability: torch.Tensor, counts: Sequence[torch.Tensor]) -> torch.Tensor:
    """How often each vertex is expected among the batches that were counted: the mean of a gamma prior around the probability
    after Poisson counts (Clayton and Kaldor 1987, "Empirical Bayes estimates of age-standardized relative risks").

    With c(v) the counts of both halves, m(v) the probability times one number, so that m and c have the same sum, it is

        m(v) (a + c(v)) / (a + m(v)).

    a says how far m is to be believed. What makes the halves differ from m in the same direction is not chance, so

        1 / a = sum over v of (c_0(v) - m_0(v)) (c_1(v) - m_1(v)) / sum over v of m_0(v) m_1(v).

    Args:
        probability: as :func:`inclusion_probability` makes it, ``[num_vertices]``.
        counts: two, as :func:`presample` makes them, of different epochs, each ``[num_vertices]``.

    Returns:
        float64 ``[num_vertices]``, on the device of ``probability``.

    Raises:
        ConfigError: other than two counts, or of another shape than the probability.
    """
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
    common = float(((first - means[0]) * (second - means[1])).sum())
    return float((means[0] * means[1]).sum()) / common if common > 0 else math.inf


def believed(probability: torch.Tensor, counts: torch.Tensor, trust: float) -> torch.Tensor:
    """Expected counts, as of :func:`corrected_probability`; all float64 ``[num_vertices]``."""
    mean = _mean(probability, counts)
    return mean if math.isinf(trust) else mean * (trust + counts) / (trust + mean)


def _mean(probability: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    return probability * (counts.sum() / probability.sum())
