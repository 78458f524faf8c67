"""EMOGI (Min et al. 2020; Min 2022, chapter 2): its traversals as published, what they ask of the link, and its evaluation."""

from .traversal import ACCESSES, ALGORITHMS, ASSIGNMENTS, UVM, WEIGHTS, EmogiResult, bfs, cc, pagerank, sssp

__all__ = ["ACCESSES", "ALGORITHMS", "ASSIGNMENTS", "UVM", "WEIGHTS", "EmogiResult", "bfs", "cc", "pagerank", "sssp"]
