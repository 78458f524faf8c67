"""Full-graph message passing over several parts: GPUs, processes or virtual ranks (MGG, OSDI 2023)."""

from .aggregate import aggregate
from .host import HostRows
from .partitioned import PartitionedGraph
from .strategies import STRATEGIES
from .tuner import tune

__all__ = ["STRATEGIES", "HostRows", "PartitionedGraph", "aggregate", "tune"]
