"""A pytest plugin: PyG's own tests meet these loaders and this sampler under PyG's names."""

from __future__ import annotations

import torch_geometric.loader
import torch_geometric.sampler
import torch_geometric.sampler.neighbor_sampler
import torch_geometric.testing.decorators
import torch_geometric.typing

import hinterland.pyg

# PyG's tests are skipped where neither pyg-lib nor torch-sparse is installed. Ours need neither.
for decides in (torch_geometric.typing, torch_geometric.testing.decorators):
    for package in ("PYG_LIB", "TORCH_SPARSE", "EDGE_TIME_NEIGHBOR_SAMPLE", "WEIGHTED_NEIGHBOR_SAMPLE"):
        setattr(decides, f"WITH_{package}", True)
has_package = torch_geometric.testing.decorators.has_package
torch_geometric.testing.decorators.has_package = lambda package: package == "pyg_lib" or has_package(package)

torch_geometric.loader.NeighborLoader = hinterland.pyg.NeighborLoader
torch_geometric.loader.LinkNeighborLoader = hinterland.pyg.LinkNeighborLoader
for module in (torch_geometric.sampler, torch_geometric.sampler.neighbor_sampler):
    module.NeighborSampler = hinterland.pyg.Sampler
