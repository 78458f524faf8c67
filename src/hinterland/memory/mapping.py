"""How much host memory is mapped for GPUs in large pages, and what is done with the rest.

A GPU reads random rows of managed memory ten times as fast as those of pinned memory (docs/memory.md). But no more
of it is taken than a limit allows: by default the GPU's free memory, beyond which a driver may begin to move pages, or stop.
What is larger has two mappings: as much as is allowed from its beginning on is mapped, so that is where hot rows belong, and
the rest is pinned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import overload

from ..machine import load
from ..runtime import devices, old_words
from ..runtime.errors import ConfigError
from ..runtime.repr import Repr
from ..runtime.units import format_bytes, parse_bytes
from .plan import row_rate

GRAIN = 32 << 20  # the boundary between two mappings is at a multiple of it: where CUDA's driver places managed memory
UNLIMITED = 1 << 62
_SETTING = "HINTERLAND_MANAGED_LIMIT"
_LINE = 128  # bytes of the rows that a plan predicts the rate of: the shortest that fill the link from managed memory
_NOTABLY = 0.8
_SYSTEM = "all plain, read by page tables that GPUs share with the CPU (not tried by us: where no probe says, as if managed)"
_SMALL = 1 << 30  # a GPU translates so much of pinned memory without misses (docs/memory.md)

_chosen: int | None = None


@dataclass(frozen=True)
class Limit:
    """Most bytes of managed memory, and who says so."""

    nbytes: int
    source: str


def set_managed_limit(limit: int | str | None) -> None:
    """Sets the most bytes of managed memory that this process holds.

    Args:
        limit: a size as in ``"64GiB"``; what is more than the current GPU's free memory counts as that. ``"unlimited"`` lifts
            both, for those who know their driver, and not on machines that are shared. None is the default:
            ``HINTERLAND_MANAGED_LIMIT``, else what ``hinterland probe --managed-limit`` has kept for this machine, else the
            GPU's free memory.

    Raises:
        ConfigError: no size.
    """
    global _chosen
    _chosen = parse_limit(limit)


@overload
def parse_limit(limit: int | str) -> int: ...
@overload
def parse_limit(limit: int | str | None) -> int | None: ...
def parse_limit(limit: int | str | None) -> int | None:
    """The bytes of a limit, and None of None; ConfigError where it is neither a size nor ``"unlimited"``."""
    if limit is None:
        return None
    if limit == "unlimited":
        return UNLIMITED
    try:
        return parse_bytes(limit)
    except ConfigError as error:
        raise ConfigError(f"{error}; a limit of managed memory may also be 'unlimited'") from None


def managed_limit() -> Limit:
    """What holds now (:func:`set_managed_limit`)."""
    free = devices.free_bytes(devices.as_device("cuda"))
    limit = _said()
    if limit is not None and (limit.nbytes == UNLIMITED or limit.nbytes < free):
        return limit
    return Limit(max(0, free - 1), "the GPU's free memory")


def _said() -> Limit | None:
    if _chosen is not None:
        return Limit(_chosen, "set_managed_limit()")
    setting, name = old_words.setting(_SETTING)
    if setting:
        return Limit(parse_limit(setting), name)
    machine = load()
    if machine is not None and machine.managed_limit is not None:
        return Limit(machine.managed_limit, "hinterland probe --managed-limit")
    return None


@dataclass(frozen=True, repr=False)
class MappingPlan(Repr):
    """How host memory of ``nbytes`` bytes is mapped for GPUs.

    Attributes:
        managed: bytes from its beginning on that are mapped in large pages; the others are pinned.
        limit: what managed memory may be taken, with ``held`` bytes of it held before.
    """

    nbytes: int
    managed: int
    limit: Limit
    held: int

    @property
    def mapping(self) -> str:
        """``managed``, ``pinned``, or ``split`` where it is both."""
        if self.managed == self.nbytes:
            return "managed"
        return "split" if self.managed else "pinned"

    @property
    def is_slow(self) -> bool:
        """Whether random rows are expected to come notably slower than if all of it were mapped in large pages."""
        best = row_rate("managed", _LINE, self.nbytes)
        return row_rate(self.mapping, _LINE, self.nbytes, self.managed) < _NOTABLY * best

    def explain(self) -> str:
        """What is mapped how, at what rate random rows are expected, and why, in two sentences."""
        return (
            f"{explain_table(self.mapping, self.nbytes, self.managed, _LINE)}. Managed memory may be "
            f"{format_bytes(self.limit.nbytes)} in all, by {self.limit.source}, and {format_bytes(self.held)} was held before"
        )


old_words.attributes(MappingPlan)


def explain_table(mapping: str, nbytes: int, managed: int, row_bytes: int) -> str:
    """Where a table of host memory lies, and the rate that random rows of it are expected at."""
    if mapping == "pageable":
        return f"{format_bytes(nbytes)} of host memory that no GPU sees"
    if mapping == "split":
        mapping_said = f"the first {format_bytes(managed)} mapped in large pages, {format_bytes(nbytes - managed)} pinned"
    else:
        mapping_said = {"managed": "all mapped in large pages", "pinned": "all pinned", "system": _SYSTEM}[mapping]
    rate = row_rate(mapping, row_bytes, nbytes, managed)
    return (
        f"{format_bytes(nbytes)} of host memory, {mapping_said}; random rows of {row_bytes} B are expected at "
        f"{rate / 1e6:.0f} M/s, {rate * row_bytes / 1e9:.1f} GB/s"
    )


def plan_mapping(nbytes: int, held: int) -> MappingPlan:
    """As much managed memory as may be taken when ``held`` bytes of it are held; of what is small all or nothing, since
    pinned memory of that size is as fast."""
    limit = managed_limit()
    left = max(0, limit.nbytes - held)
    if nbytes <= left:
        return MappingPlan(nbytes, nbytes, limit, held)
    return MappingPlan(nbytes, left // GRAIN * GRAIN if nbytes > _SMALL else 0, limit, held)


REMEDY = (
    "Hot rows belong to its beginning (renumber by heat, reorder_rows, hl.reorder), large gathers are sorted by themselves, "
    "and tiered() or cached() keep rows in GPU memory. More may be mapped once GPU memory is freed, or by "
    f"hinterland.memory.set_managed_limit() or {_SETTING}, where the driver is known to bear it"
)
