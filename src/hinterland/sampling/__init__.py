"""Samplers of graphs larger than GPU memory."""

from .adjacency import Adjacency
from .envelope import Envelope, PaddedSample
from .hetero import HeteroSampler
from .negatives import negative_edges
from .neighbor import NeighborSampler
from .pinsage import PinSAGESampler, pinsage_neighbors
from .sample import HeteroSample, Sample
from .walks import random_walks

__all__ = [
    "Adjacency",
    "Envelope",
    "HeteroSample",
    "HeteroSampler",
    "NeighborSampler",
    "PaddedSample",
    "PinSAGESampler",
    "Sample",
    "negative_edges",
    "pinsage_neighbors",
    "random_walks",
]
