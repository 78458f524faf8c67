"""Mini-batch training over tables and graphs larger than GPU memory: sampled and gathered while the model trains."""

from ..memory import Ranks, ShardedTensor, Shards, SparseAdagrad, SparseSGD, TableParameter, UnifiedEmbeddingBag, joined
from .cache import CachePlan, plan_cache
from .cache_costs import Costs
from .factored import Averaged, Factored
from .factored_plan import FactoredPlan, StageTimes
from .loader import Batch, Loader
from .models import GNN, MODELS, make_model
from .pipeline import Pipeline, Stage
from .shared import open_shared
from .train import Trained, train

__all__ = [
    "GNN",
    "MODELS",
    "Averaged",
    "Batch",
    "CachePlan",
    "Costs",
    "Factored",
    "FactoredPlan",
    "Loader",
    "Pipeline",
    "Ranks",
    "ShardedTensor",
    "Shards",
    "SparseAdagrad",
    "SparseSGD",
    "Stage",
    "StageTimes",
    "TableParameter",
    "Trained",
    "UnifiedEmbeddingBag",
    "joined",
    "make_model",
    "open_shared",
    "plan_cache",
    "train",
]
