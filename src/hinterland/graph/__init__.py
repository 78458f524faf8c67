"""Graphs in CSR form: files, generators and traversals."""

from .build import from_edges, simplify
from .formats import load_graph, save_graph
from .generate import generate
from .graph import Graph

__all__ = ["Graph", "from_edges", "generate", "load_graph", "save_graph", "simplify"]
