"""The algorithms of this package, as :func:`.prepare` knows them. A new one is added here."""

from .algorithms import register
from .bc import ALGORITHM as BC
from .bfs import ALGORITHM as BFS
from .cc import ALGORITHM as CC
from .msbfs import ALGORITHM as MSBFS
from .pagerank import ALGORITHMS as PAGERANK
from .spmv import ALGORITHM as SPMV
from .sssp import ALGORITHM as SSSP
from .sswp import ALGORITHM as SSWP

register(BC, BFS, CC, MSBFS, *PAGERANK, SPMV, SSSP, SSWP)
