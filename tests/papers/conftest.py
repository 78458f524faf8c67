"""The graphs of the product's commands, for those of papers."""

from tests.cli.test_traversal import file, graph

__all__ = ["file", "graph"]
