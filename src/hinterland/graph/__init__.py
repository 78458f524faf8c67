"""Graphs in CSR form: files, generators and traversals."""

from .graph import Graph

__all__ = ["Graph"]
