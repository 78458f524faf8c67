"""Graphs in CSR form: files, generators and traversals."""

from .build import from_edges, simplify
from .graph import Graph

__all__ = ["Graph", "from_edges", "simplify"]
