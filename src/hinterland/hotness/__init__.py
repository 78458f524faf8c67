"""Which vertices mini-batch sampling will touch most: scores to fill caches and tiers by."""

from .compare import Comparison, compare
from .corrected import corrected_probability
from .hits import hit_rate
from .presample import presample
from .renumber import Renumbered, renumber
from .scores import degree, inclusion_probability, reverse_pagerank, weighted_reverse_pagerank

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
