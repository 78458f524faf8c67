"""Hinterland: GPU code reads data larger than GPU memory directly, in pieces as small as a cache line."""

__version__ = "0.1.0"
