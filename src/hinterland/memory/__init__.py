"""Host memory that GPUs read directly, and tables of rows in it."""

from .allocator import Report, allocate, report
from .faults import synchronize
from .plan import SortPlan, plan_sort
from .unified import UnifiedTensor

__all__ = ["Report", "SortPlan", "UnifiedTensor", "allocate", "plan_sort", "report", "synchronize"]
