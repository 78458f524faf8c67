"""Layers of graph neural networks over partitioned graphs, with PyTorch Geometric's signatures, and row tables."""

from .gat import GATConv, GATv2Conv
from .gcn import GCNConv
from .gin import GINConv
from .parts import each
from .row_table import RowTable
from .sage import SAGEConv
from .transformer import TransformerConv

__all__ = ["GATConv", "GATv2Conv", "GCNConv", "GINConv", "RowTable", "SAGEConv", "TransformerConv", "each"]
