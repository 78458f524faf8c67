"""Host memory that GPUs read directly, and the copies of rows that kernels make of it."""

from .allocator import Report, allocate, report
from .clock import SlotPlan, plan_slots
from .copies import copy
from .count import TierCount
from .faults import synchronize
from .help_plan import HelpPlan, plan_help
from .mapping import MappingPlan, managed_limit, plan_mapping, set_managed_limit
from .order import hottest_first
from .plan import SortPlan, plan_sort
from .ranks import Ranks, joined
from .sharing import pickle_shared

__all__ = [
    "HelpPlan",
    "MappingPlan",
    "Ranks",
    "Report",
    "SlotPlan",
    "SortPlan",
    "TierCount",
    "allocate",
    "copy",
    "hottest_first",
    "joined",
    "managed_limit",
    "pickle_shared",
    "plan_help",
    "plan_mapping",
    "plan_slots",
    "plan_sort",
    "report",
    "set_managed_limit",
    "synchronize",
]
