"""Which rows lie in which tier, within what each GPU may give: a plan that can explain itself (Min 2022, section 4.3)."""

from __future__ import annotations

from dataclasses import dataclass

from ..memory.allocator import PART_BYTES, padded
from ..memory.plan import fetch_rate
from ..runtime import arguments
from ..runtime.budget import BudgetItem, Explained, share
from ..runtime.repr import Repr
from ..runtime.units import format_bytes, format_rate

_POINTERS = 512  # bytes: where the other GPUs' tiers are, kept in each of several GPUs


@dataclass(frozen=True, repr=False)
class TierPlan(Explained, Repr):
    """Rows by tier, and what that takes of each GPU. The last tier is host memory, which has all rows, or a file.

    Attributes:
        rows, row_bytes: of the table.
        gpus: how many hold tiers.
        local, peers: bytes asked for, in each GPU and in all together.
        host: bytes asked for of host memory, for rows of a file; None where host memory is the last tier.
        local_rows: rows that each GPU holds.
        peer_rows: rows dealt out over the GPUs.
        host_rows: rows that are read from host memory.
        slot_bytes: of an entry of the id map in GPUs, 0 where there is none.
        number_bytes: of a row number in host memory, which finds rows of a file; 0 where the first rows are the hot ones.
        unlinked: which GPU cannot read which, as in "cuda:0 cannot read the memory of cuda:1"; empty where all can.
        line_bytes: of a page of the file; 0 without one.
    """

    rows: int
    row_bytes: int
    gpus: int
    local: int
    peers: int
    host: int | None
    local_rows: int
    peer_rows: int
    host_rows: int
    slot_bytes: int
    number_bytes: int
    unlinked: str
    line_bytes: int

    @property
    def resident(self) -> int:
        """Rows that GPUs hold, each counted once."""
        return self.local_rows + self.peer_rows

    @property
    def held(self) -> int:
        """Rows that memory holds, of GPUs and of the host, each counted once."""
        return self.resident + self.host_rows

    @property
    def tiers(self) -> dict[str, int]:
        """Rows by the tier that they are read from."""
        rows = {"local": self.local_rows, "peers": self.peer_rows, "host": self.host_rows}
        return rows if self.host is None else {**rows, "storage": self.rows - self.held}

    @property
    def shard_rows(self) -> int:
        """Rows of the ``peers`` tier in one GPU, at most."""
        return -(-self.peer_rows // self.gpus) if self.gpus else 0

    @property
    def shard_offset(self) -> int:
        """Bytes before a GPU's share of the ``peers`` tier; its ``local`` tier comes first."""
        return padded(self.local_rows * self.row_bytes)

    @property
    def slots_offset(self) -> int:
        """Bytes before a GPU's id map, which comes last."""
        return self.shard_offset + padded(self.shard_rows * self.row_bytes)

    @property
    def block_bytes(self) -> int:
        """Bytes of both tiers and the id map in one GPU."""
        return self.slots_offset + padded(self.rows * self.slot_bytes)

    @property
    def held_bytes(self) -> int:
        """All bytes that one GPU holds."""
        return self.block_bytes + (_POINTERS if self.resident and self.gpus > 1 else 0)

    @property
    def budget(self) -> int:
        """Bytes that one GPU may hold."""
        return self.local + self.peers // self.gpus if self.gpus else 0

    def about(self) -> str:
        """The table."""
        whole = format_bytes(self.rows * self.row_bytes)
        each = ", and bytes of each of them" if self.gpus > 1 else ""
        return f"{self.rows:,} rows of {self.row_bytes} B, {whole} in all; GPUs with tiers: {self.gpus}{each}"

    def parts(self) -> list[BudgetItem]:
        """The id map, and rows by tier."""
        in_each = {"local": self.local_rows, "peers": self.shard_rows}
        parts = [BudgetItem("id map", f"{self.slot_bytes} B a row", self.rows * self.slot_bytes)] if self.slot_bytes else []
        return parts + [
            BudgetItem(tier, f"{rows:,} rows {share(rows, self.rows)}", in_each.get(tier, 0) * self.row_bytes)
            for tier, rows in self.tiers.items()
        ]

    def notes(self) -> list[str]:
        """Where rows could not go; of a file what host memory takes, and the rate of rows that are read from it."""
        found = [f"{self.unlinked}: rows meant for peers stay on the host"] if self.unlinked else []
        if self.host is None:
            return found
        if self.held:
            rows = f"{format_bytes(self.host_rows * self.row_bytes)} of {format_bytes(self.host)}"
            numbers = self.number_bytes * (self.rows + self.held) + self.held
            found.append(f"host memory: {rows} for rows, and {format_bytes(numbers)} for what finds them")
        rate, source = fetch_rate(self.row_bytes, self.line_bytes)
        speed = f"{rate / 1e3:,.0f} K/s, {format_rate(rate * self.row_bytes)}, {source}"
        return [*found, f"random rows on storage are expected at {speed}"]


def plan_tiers(
    rows: int,
    row_bytes: int,
    gpus: int,
    local: int = 0,
    peers: int = 0,
    host: int | None = None,
    *,
    ordered: bool = False,
    unlinked: str = "",
    line_bytes: int = 4096,
) -> TierPlan:
    """As many rows as the budgets hold, the hottest in GPUs and the next in host memory.

    The id map and the pointers come out of ``local`` and, where that is too little, out of ``peers``.

    Args:
        rows, row_bytes: of the table.
        gpus: how many hold tiers; the share of ``peers`` of a single one is ``local``.
        local, peers: bytes in each GPU, and bytes in all GPUs together.
        host: bytes of host memory for rows of a file; None where host memory has all rows. What finds rows there is not part
            of it, and ``explain()`` says it.
        ordered: whether the hottest rows are others than the first, so that a map is needed.
        unlinked: as in TierPlan; no row goes to ``peers`` then.
        line_bytes: of a page of the file.
    """
    rows, row_bytes = arguments.whole_number("rows", rows, 0), arguments.whole_number("row_bytes", row_bytes, 0)
    gpus, local = arguments.whole_number("gpus", gpus, 0), arguments.whole_number("local", local, 0)
    peers, ordered = arguments.whole_number("peers", peers, 0), arguments.switch("ordered", ordered)
    in_each, dealt = (local + peers, 0) if gpus == 1 else (local, peers // gpus if gpus and not unlinked else 0)
    number = 4 if rows < 1 << 31 else 8  # bytes

    def fit(slot_bytes: int) -> tuple[int, int]:
        if gpus == 0 or rows == 0 or row_bytes == 0:
            return 0, 0
        left = in_each - padded(rows * slot_bytes) - (_POINTERS if gpus > 1 else 0)
        local_rows = min(rows, max(left, 0) // PART_BYTES * PART_BYTES // row_bytes)
        in_shard = max(dealt + min(left, 0), 0) // PART_BYTES * PART_BYTES // row_bytes
        return local_rows, min(rows - local_rows, in_shard * gpus)

    slot_bytes = 0
    fitting = fit(0)
    if ordered and rows not in fitting:  # where one tier takes all rows, any order will do
        slot_bytes = number
        fitting = fit(slot_bytes)
    if fitting == (0, 0):
        slot_bytes = 0
    left, host = rows - sum(fitting), None if host is None else arguments.whole_number("host", host, 0)
    host_rows = left if host is None else min(left, host // row_bytes) if row_bytes else 0
    held = sum(fitting) + host_rows
    any_order = host is None or not ordered or held == 0 or (held == rows and not slot_bytes)  # or one tier takes all rows
    number, line_bytes = 0 if any_order else number, 0 if host is None else line_bytes
    return TierPlan(rows, row_bytes, gpus, local, peers, host, *fitting, host_rows, slot_bytes, number, unlinked, line_bytes)
