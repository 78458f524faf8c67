"""A graph in host memory, traversed breadth-first: by the GPU where there is one, else by the CPU, with the same answer."""

import torch

import hinterland as hl

graph = hl.generate("kronecker", scale=14, seed=1)
source = int(graph.degrees().argmax())
levels = hl.bfs(graph, source).levels
per_level = torch.bincount(levels[levels >= 0].cpu())
print(f"{graph.num_vertices:,} vertices, {graph.num_edges:,} edges; on each level: {per_level.tolist()}")
