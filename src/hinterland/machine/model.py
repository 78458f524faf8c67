"""What is known about a machine: the result of a probe, as plain data that planners read and JSON keeps.

Bandwidths are bytes a second, times are seconds, sizes are bytes.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from dataclasses import dataclass, field
from typing import Any

from ..runtime.errors import FormatError
from ..runtime.repr import Repr

VERSION = 4  # of the JSON; a file of another version is measured again


@dataclass(frozen=True)
class Gpu:
    """One GPU."""

    name: str
    uuid: str
    arch: str
    memory_bytes: int
    sms: int


@dataclass(frozen=True)
class SequentialPoint:
    """One rate at which a kernel reads host memory in sequence.

    ``access_bytes`` is what a thread loads at once, ``shift_bytes`` how far the start lies past a 128-byte line,
    ``blocks`` the number of blocks of 1024 threads.
    """

    mapping: str
    access_bytes: int
    shift_bytes: int
    blocks: int
    bandwidth: float


@dataclass(frozen=True)
class Link:
    """The link between the first GPU and host memory.

    ``h2d`` and ``d2h`` are the copy engine's rates with pinned memory: the ceilings that other rates are compared
    with. ``zero_copy`` is the best rate of a kernel that reads host memory in sequence, ``latency`` the time of one read
    that waits for the one before. ``threads_to_saturate`` maps the bytes of one load to the blocks of 1024 threads
    that reach 95% of what any number of blocks reaches.
    """

    h2d: float
    d2h: float
    zero_copy: float
    latency: float
    threads_to_saturate: dict[int, int]
    sequential: tuple[SequentialPoint, ...] = ()


@dataclass(frozen=True)
class Peer:
    """GPU number ``reader`` reads the memory of GPU number ``owner``: in sequence, and random rows of 64 bytes."""

    reader: int
    owner: int
    bandwidth: float
    random64: float


@dataclass(frozen=True)
class RowPoint:
    """Rows of ``row_bytes`` gathered from a table of ``table_bytes``: rates at random and at sorted row numbers."""

    mapping: str
    table_bytes: int
    row_bytes: int
    random: float
    sorted: float


@dataclass(frozen=True)
class HelpPoint:
    """Random rows of ``row_bytes`` gathered from a pinned table of ``table_bytes``: rates by the GPU alone, by all cores with
    the copy engine behind them, and by both at once."""

    table_bytes: int
    row_bytes: int
    gpu: float
    cpu: float
    both: float


@dataclass(frozen=True)
class Disk:
    """The disk under ``path``, read past the page cache where ``direct``.

    ``random4k`` maps how many reads are under way at a time to 4-KiB reads a second.
    """

    path: str
    direct: bool
    sequential: float
    write: float
    random4k: dict[int, float]


@dataclass(frozen=True)
class Cpu:
    """The CPU and its memory; ``read``, ``copy`` and ``random_rows`` with all ``cores``.

    ``copy`` counts each byte copied once. ``random_rows`` is rows of 64 bytes gathered a second. ``rows`` are the
    curves of the gather on the CPU.
    """

    model: str
    cores: int
    memory_bytes: int
    read: float
    copy: float
    latency: float
    random_rows: float
    rows: tuple[RowPoint, ...] = ()


@dataclass(frozen=True)
class MachineKind:
    """Whether a machine counts as a virtual one, and the evidence, as words behind a colon (kind.py)."""

    is_virtual: bool
    evidence: str

    def __str__(self) -> str:
        return f"{'virtual' if self.is_virtual else 'physical'}: {self.evidence}"


@dataclass(frozen=True, repr=False)
class Machine(Repr):
    """Everything that a probe measured; ``left_out`` says in sentences what it could not, ``doubts`` what is not to be trusted.

    ``managed_limit`` is what somebody who knows the machine has said: the most bytes of managed memory (memory/mapping.py).
    ``kind`` says whether the machine is virtual, on which the limit depends where nobody has said one.
    """

    date: str
    fingerprint: str
    full: bool
    cpu: Cpu
    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None
    link: Link | None = None
    rows: tuple[RowPoint, ...] = ()
    sort: dict[int, float] = field(default_factory=dict)
    peers: tuple[Peer, ...] = ()
    disk: Disk | None = None
    left_out: tuple[str, ...] = ()
    managed_limit: int | None = None
    doubts: tuple[str, ...] = ()
    kind: MachineKind | None = None
    helped: tuple[HelpPoint, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As JSON types; the inverse of :meth:`from_json`. Keys that are numbers become text, as JSON demands."""
        return {"version": VERSION, **json.loads(json.dumps(dataclasses.asdict(self)))}

    @classmethod
    def from_json(cls, data: Any) -> Machine:
        """The machine that :meth:`to_json` wrote.

        Raises:
            FormatError: a field is missing, unknown or of the wrong type, or the version is another.
        """
        if not isinstance(data, dict) or data.get("version") != VERSION:
            found = data.get("version") if isinstance(data, dict) else type(data).__name__
            raise FormatError(f"not a machine of version {VERSION}: found {found!r}; run hinterland probe --refresh")
        rest = {key: value for key, value in data.items() if key != "version"}
        return typing.cast(Machine, _decode(cls, rest, "machine"))


def _decode(kind: Any, value: Any, where: str) -> Any:
    """``value`` as the annotated type ``kind``; ``where`` names it in an error."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        some = next(arg for arg in args if arg is not types.NoneType)
        return None if value is None else _decode(some, value, where)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and isinstance(value, dict):
        hints = typing.get_type_hints(kind)
        names = {f.name for f in dataclasses.fields(kind)}
        if names != set(value):
            odd = ", ".join(sorted(names ^ set(value)))
            raise FormatError(f"{where}: fields missing or unknown: {odd}; run hinterland probe --refresh")
        return kind(**{name: _decode(hints[name], value[name], f"{where}.{name}") for name in names})
    if origin is tuple and isinstance(value, list):
        return tuple(_decode(args[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if origin is dict and isinstance(value, dict) and all(key.isdecimal() for key in value):
        return {int(key): _decode(args[1], item, f"{where}[{key}]") for key, item in value.items()}
    if kind is float and type(value) in (int, float):
        return float(value)
    if kind in (str, int, bool) and type(value) is kind:
        return value
    raise FormatError(f"{where}: {value!r} is not {getattr(kind, '__name__', kind)}; run hinterland probe --refresh")
