"""A graph and models over it for tests in one process and in several, which start sooner without PyG."""

from __future__ import annotations

import torch

import hinterland as hl

VERTICES = 150


def edges(seed=1):
    """Directed, without repetition: a hub with half of all, some loops, and vertices that have no edge."""
    generator = torch.Generator().manual_seed(seed)
    others = torch.randint(1, VERTICES - 20, (2, 2 * VERTICES), generator=generator)
    spokes = torch.randint(0, VERTICES - 20, (8 * VERTICES,), generator=generator)
    hub = torch.zeros_like(spokes)
    loops = torch.arange(3, 20, 4).expand(2, -1)
    both = [torch.stack([spokes, hub]), torch.stack([hub, spokes])[:, : len(spokes) // 8]]
    return torch.cat([others, *both, loops], 1).unique(dim=1)


EDGES = edges()


def graph(weights=None):
    """PyG's edges go from edge_index[0] to edge_index[1], which sums up; a row lists whom it sums over."""
    return hl.from_edges(EDGES[1], EDGES[0], weights, num_vertices=VERTICES)


def rows(dtype=torch.float64, width=6):
    return torch.randn(VERTICES, width, generator=torch.Generator().manual_seed(4), dtype=torch.float64).to(dtype)


def mlp(width=6, out=5):
    return torch.nn.Sequential(torch.nn.Linear(width, 8), torch.nn.ReLU(), torch.nn.Linear(8, out))


class Net(torch.nn.Module):
    """A model of PyG's, whose package is an argument."""

    def __init__(self, package, kind, hidden=16, classes=4):
        super().__init__()
        made = getattr(package, kind)
        if kind == "GINConv":
            self.conv1, self.conv2 = made(mlp(6, hidden)), made(mlp(hidden, classes), train_eps=True)
        elif kind in ("GATConv", "GATv2Conv"):
            self.conv1, self.conv2 = made(6, hidden // 4, heads=4), made(hidden, classes, heads=2, concat=False)
        else:
            self.conv1, self.conv2 = made(6, hidden), made(hidden, classes)

    def forward(self, x, edge_index):
        x = self.conv1(x, edge_index).relu()
        return self.conv2(x, edge_index)
