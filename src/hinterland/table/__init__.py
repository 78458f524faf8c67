"""Tables of rows, wherever these lie: in host memory, GPUs, files and other machines."""

from .array import StorageArray
from .cached import CachedTensor
from .embedding import TableParameter, UnifiedEmbeddingBag
from .optim import SparseAdagrad, SparseSGD
from .place import OpenTable, open_table
from .placement import Placement
from .sharded import ShardedTensor, Shards
from .table import Table, as_table
from .tiered import TieredTensor
from .tiered_shards import TieredShards
from .tiered_storage import TieredStorage
from .tiers import TierPlan, plan_tiers
from .unified import UnifiedTensor, reorder_rows

__all__ = [
    "CachedTensor",
    "OpenTable",
    "Placement",
    "ShardedTensor",
    "Shards",
    "SparseAdagrad",
    "SparseSGD",
    "StorageArray",
    "Table",
    "TableParameter",
    "TierPlan",
    "TieredShards",
    "TieredStorage",
    "TieredTensor",
    "UnifiedEmbeddingBag",
    "UnifiedTensor",
    "as_table",
    "open_table",
    "plan_tiers",
    "reorder_rows",
]
