"""Host memory that GPUs read directly, and tables of rows in it and above it."""

from .allocator import Report, allocate, report
from .cached import CachedTensor
from .clock import SlotPlan, plan_slots
from .faults import synchronize
from .order import hottest_first
from .plan import SortPlan, plan_sort
from .tiered import TierCount, TieredTensor
from .tiers import TierPlan, plan_tiers
from .unified import UnifiedTensor, reorder_rows

__all__ = [
    "CachedTensor",
    "Report",
    "SlotPlan",
    "SortPlan",
    "TierCount",
    "TierPlan",
    "TieredTensor",
    "UnifiedTensor",
    "allocate",
    "hottest_first",
    "plan_slots",
    "plan_sort",
    "plan_tiers",
    "reorder_rows",
    "report",
    "synchronize",
]
