"""Host memory that GPUs read directly, and tables of rows in it and above it."""

from .allocator import Report, allocate, report
from .cached import CachedTensor
from .clock import SlotPlan, plan_slots
from .copies import copy
from .count import TierCount
from .embedding import TableParameter, UnifiedEmbeddingBag
from .faults import synchronize
from .mapping import MappingPlan, mapped_limit, plan_mapping, set_mapped_limit
from .optim import SparseAdagrad, SparseSGD
from .order import hottest_first
from .plan import SortPlan, plan_sort
from .ranks import Ranks, joined
from .sharded import ShardedTensor, Shards
from .sharing import pickle_shared
from .tiered import TieredTensor
from .tiered_shards import TieredShards
from .tiered_storage import TieredStorage
from .tiers import TierPlan, plan_tiers
from .unified import UnifiedTensor, reorder_rows

__all__ = [
    "CachedTensor",
    "MappingPlan",
    "Ranks",
    "Report",
    "ShardedTensor",
    "Shards",
    "SlotPlan",
    "SortPlan",
    "SparseAdagrad",
    "SparseSGD",
    "TableParameter",
    "TierCount",
    "TierPlan",
    "TieredShards",
    "TieredStorage",
    "TieredTensor",
    "UnifiedEmbeddingBag",
    "UnifiedTensor",
    "allocate",
    "copy",
    "hottest_first",
    "joined",
    "mapped_limit",
    "pickle_shared",
    "plan_mapping",
    "plan_slots",
    "plan_sort",
    "plan_tiers",
    "reorder_rows",
    "report",
    "set_mapped_limit",
    "synchronize",
]
