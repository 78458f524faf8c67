"""What a traversal asks of the link between GPU and host, counted without a GPU: EMOGI's FPGA as arithmetic."""

from .estimate import Estimate, drawn, estimate
from .requests import LinkModel, Traffic, analyse

__all__ = ["Estimate", "LinkModel", "Traffic", "analyse", "drawn", "estimate"]
