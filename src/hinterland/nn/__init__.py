"""Layers of graph neural networks over partitioned graphs, with PyTorch Geometric's signatures and parameters."""

from .gat import GATConv, GATv2Conv
from .gcn import GCNConv
from .gin import GINConv
from .parts import each
from .sage import SAGEConv
from .transformer import TransformerConv

__all__ = ["GATConv", "GATv2Conv", "GCNConv", "GINConv", "SAGEConv", "TransformerConv", "each"]
