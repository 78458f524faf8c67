"""PyTorch Geometric's loaders over data larger than GPU memory: three changed lines, no pyg-lib or torch-sparse.

Batches are PyG's ``Data`` and ``HeteroData``, so model code stays as it is.
"""

try:
    import torch_geometric  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"hinterland.pyg needs PyTorch Geometric ({error}): pip install 'hinterland[pyg]'", name=error.name
    ) from error

from .loader import LinkNeighborLoader, NeighborLoader
from .sampler import Sampler
from .stores import FeatureStore, GraphStore
from .trim import trim_to_layer

__all__ = ["FeatureStore", "GraphStore", "LinkNeighborLoader", "NeighborLoader", "Sampler", "trim_to_layer"]
