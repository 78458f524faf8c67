"""Which vertices mini-batch sampling will touch most: scores to fill caches and tiers by."""

from ..graph.algorithms import register
from .compare import Comparison, compare
from .corrected import corrected_probability
from .hits import hit_rate
from .presample import presample
from .propagate import ALGORITHM
from .renumber import Renumbered, renumber
from .scores import degree, inclusion_probability, reverse_pagerank, weighted_reverse_pagerank

register(ALGORITHM)

__all__ = [
    "Comparison",
    "Renumbered",
    "compare",
    "corrected_probability",
    "degree",
    "hit_rate",
    "inclusion_probability",
    "presample",
    "renumber",
    "reverse_pagerank",
    "weighted_reverse_pagerank",
]
