"""Training over tables and graphs larger than GPU memory: on mini-batches, sampled and gathered while the model trains, or on
whole graphs in parts."""

from ..memory import Ranks, joined
from ..table import ShardedTensor, Shards, SparseAdagrad, SparseSGD, TableParameter, UnifiedEmbeddingBag
from .cache import plan_cache
from .cache_costs import Costs
from .cache_plan import CachePlan
from .capture import CapturedSteps, capture
from .converted_rows import ConvertedRows
from .factored import Averaged, Factored
from .factored_plan import FactoredPlan, StageTimes
from .full import TrainedFull, train_full
from .full_models import FULL_MODELS, FullGNN, make_full_model
from .hetero_models import HeteroGNN
from .infer import infer
from .loader import Loader
from .mini_batch import Batch
from .models import GNN, MODELS, make_model
from .pipeline import Pipeline, Stage
from .shared import open_shared
from .train import Trained, train

__all__ = [
    "FULL_MODELS",
    "GNN",
    "MODELS",
    "Averaged",
    "Batch",
    "CachePlan",
    "CapturedSteps",
    "ConvertedRows",
    "Costs",
    "Factored",
    "FactoredPlan",
    "FullGNN",
    "HeteroGNN",
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
    "TrainedFull",
    "UnifiedEmbeddingBag",
    "capture",
    "infer",
    "joined",
    "make_full_model",
    "make_model",
    "open_shared",
    "plan_cache",
    "train",
    "train_full",
]
