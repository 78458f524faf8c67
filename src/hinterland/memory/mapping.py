"""How much host memory is mapped for GPUs in large pages, and what is done with the rest.

A GPU reads random rows of managed memory ten times as fast as those of pinned memory (docs/memory.md). But no more of it is
taken than a limit allows. On virtual machines that is the GPU's free memory, beyond which a driver may begin to move pages, or
stop. On others it is what the host can give, as others map it (FBGEMM, EMOGI): what exceeds the GPU's free memory is tried, and
given back where the GPU reads it slowly (rate.py). What is larger than the limit has two mappings: as much as is allowed from
its beginning on is mapped, so that is where hot rows belong, and the rest is pinned.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import overload

from ..machine import load, machine_kind
from ..runtime.errors import ConfigError
from ..runtime.repr import Repr
from ..runtime.units import format_bytes, parse_bytes
from . import cuda
from .limits import host_memory
from .plan import row_rate
from .registry import host_bytes, lock, managed_bytes

GRAIN = 32 << 20  # the boundary between two mappings is at a multiple of it: where CUDA's driver places managed memory
UNLIMITED = 1 << 62
_SETTING = "HINTERLAND_MANAGED_LIMIT"
_LINE = 128  # bytes of the rows that a plan predicts the rate of: the shortest that fill the link from managed memory
_NOTABLY = 0.8
_SYSTEM = "all plain, read by page tables that GPUs share with the CPU (not tried by us: where no probe says, as if managed)"
_SMALL = 1 << 30  # a GPU translates so much of pinned memory without misses (docs/memory.md)

_chosen: int | None = None
_refused = ""  # why memory that was more than the GPU had free was given back; then no more is tried


@dataclass(frozen=True)
class Limit:
    """Most bytes of managed memory, who says so, and why. What exceeds ``sure`` bytes stays only if its GPU reads it fast."""

    nbytes: int
    source: str
    why: str = ""
    sure: int = UNLIMITED

    def explain(self) -> str:
        """The limit as the end of a sentence."""
        return f"{format_bytes(self.nbytes)}, by {self.source}{self.why and f' ({self.why})'}"


def set_managed_limit(limit: int | str | None) -> None:
    """Sets the most bytes of managed memory that this process holds.

    Args:
        limit: a size as in ``"64GiB"``, which lowers the default. ``"unlimited"`` lifts both, for those who know their
            driver, and not on machines that are shared. None is ``HINTERLAND_MANAGED_LIMIT``, else what ``hinterland probe
            --managed-limit`` has kept for this machine, else the default: on virtual machines the GPU's free memory, on
            others what the host can give.

    Raises:
        ConfigError: no size.
    """
    global _chosen, _refused
    _chosen, _refused = parse_limit(limit), ""


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


def managed_limit(checked: bool = True) -> Limit:
    """What holds now (:func:`set_managed_limit`), of memory whose rate is checked as it is taken, or of other."""
    said = _said()
    if said is not None and said.nbytes == UNLIMITED:
        return said
    most = _default(checked)
    return replace(said, sure=min(said.nbytes, most.sure)) if said is not None and said.nbytes < most.nbytes else most


def _default(checked: bool) -> Limit:
    kind = machine_kind()
    counted = f"this machine counts as {kind}"
    free = max(0, cuda.free_bytes() - 1)
    if kind.is_virtual or _refused or not checked:
        why = counted if kind.is_virtual else _refused or "of memory that is filled later nothing can be measured now"
        return Limit(free, "the GPU's free memory", why, free)
    with lock:
        more, source = host_memory(host_bytes())
        most = more + managed_bytes()
    return Limit(most, source, f"{counted}; more than the GPU has free is not measured by us", free)


def refuse(why: str) -> None:
    """From now on no more than the GPU's free memory is tried, until a limit is said."""
    global _refused
    _refused = why


def _said() -> Limit | None:
    if _chosen is not None:
        return Limit(_chosen, "set_managed_limit()")
    if setting := os.environ.get(_SETTING):
        try:
            return Limit(parse_limit(setting), _SETTING)
        except ConfigError as error:
            raise ConfigError(f"{_SETTING}={setting}: {error}") from None
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
    def is_trial(self) -> bool:
        """Whether it is more than the GPU has free, so that what is mapped stays only if the GPU reads it fast."""
        return self.managed > 0 and self.held + self.managed > self.limit.sure

    @property
    def is_slow(self) -> bool:
        """Whether random rows are expected to come notably slower than if all of it were mapped in large pages."""
        best = row_rate("managed", _LINE, self.nbytes)
        return row_rate(self.mapping, _LINE, self.nbytes, self.managed) < _NOTABLY * best

    def explain(self) -> str:
        """What is mapped how, at what rate random rows are expected, and why, in two sentences."""
        return f"{explain_table(self.mapping, self.nbytes, self.managed, _LINE)}. {self.explain_limit()}"

    def explain_limit(self) -> str:
        """How much might be mapped, who says so, and why."""
        return f"All managed memory may be {self.limit.explain()}, and {format_bytes(self.held)} was held before"


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


def plan_mapping(nbytes: int, held: int, checked: bool = True) -> MappingPlan:
    """As much managed memory as may be taken when ``held`` bytes of it are held; of what is small all or nothing, since
    pinned memory of that size is as fast. ``checked``: its rate will be, once it is there."""
    limit = managed_limit(checked)
    left = max(0, limit.nbytes - held)
    if nbytes <= left:
        return MappingPlan(nbytes, nbytes, limit, held)
    return MappingPlan(nbytes, left // GRAIN * GRAIN if nbytes > _SMALL else 0, limit, held)


REMEDY = (
    "Hot rows belong to its beginning (renumber by heat, reorder_rows, hl.reorder), large gathers are sorted by themselves, "
    "and tiered() or cached() keep rows in GPU memory. More may be mapped once GPU memory is freed, or by "
    f"hinterland.memory.set_managed_limit() or {_SETTING}, where the driver is known to bear it"
)
