"""Kernels in CUDA C++ of functions that were traced, for :func:`hinterland.kernel`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from .traced import FLOATS, FOLDS, TYPES, Constant, Value

TILE = 4096  # values that are put together by 32 lanes
_EACH = 4096  # elements of a block: include/hinterland/kernels/lanes.hpp
_BLOCK = 256  # threads: include/hinterland/kernels/lanes.hpp
_MOST_LANES = 32
_OF_THREAD = 4  # lanes
_LONG = 128  # elements of a row by which a warp is busy
_UNDER_WAY = 16  # elements that a thread reads before it needs the first, of short rows
# g++ has no such pragma, and is asked by a flag for what it says (on_cpu.py). A GPU's intrinsics need none.
OPENING = """#if !defined(__CUDACC__)
#pragma STDC FP_CONTRACT OFF
#endif
#include <hinterland/kernels/lanes.hpp>
namespace h = hinterland::kernels;
"""
_KERNEL = """__global__ void {name}({parameters}) {{
{body}
}}
"""


@dataclass(frozen=True)
class Written:
    """A kernel that was written.

    Attributes:
        text: that has it, for what begins with :data:`OPENING`.
        constants: the numbers that it is called with at the end.
        each: elements or rows that threads take together.
        threads: how many do so, on a GPU; on a CPU it is one.
    """

    text: str
    constants: tuple[bool | int | float, ...]
    each: int
    threads: int

    def launch(self, count: int, device: torch.device) -> tuple[int, int]:
        """Blocks, and threads of each, for so many elements or rows."""
        teams = -(-count // self.each)
        if device.type == "cpu":
            block = _BLOCK if self.each == 1 else 1
            return -(-teams // block), block
        return -(-teams * self.threads // _BLOCK), _BLOCK


@dataclass
class _Scope:
    """Statements of a block of C++, and the names of the values that it has found.

    Attributes:
        place: where the element of a row lies, from the array's begin; empty where there is no element but a row.
        together: it is one of a few neighbours, number ``k``, which are read at once from arrays whose rows have this shape;
            None: it is one by itself.
        some: the numbers of these arrays.
    """

    place: str = ""
    together: tuple[int, ...] | None = None
    lines: list[str] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    some: list[int] = field(default_factory=list)

    def read(self, place: str, count: str, *at_most: str) -> str:
        """Has these read, from a place on."""
        given = ", ".join([place, *at_most])
        return " ".join(f"const auto some_{i} = h::some<{count}>(array_{i}, {given});" for i in dict.fromkeys(self.some))

    def lambda_of(self, argument: str, place: str, kind: str, result: str) -> str:
        """A function of the first of some neighbours and of their :class:`Count`, which are read from ``place`` on."""
        each = f"for (int k = 0; k < n; ++k) {{ {' '.join(self.lines)} got[k] = {result}; }}"
        return f"[=](int64_t {argument}, auto n) {{ {self.read(place, 'n')} h::Some<{kind}, n> got; {each} return got; }}"


class _Writer:
    """Writes a value's statements: of the row once, and of its elements where they are asked for."""

    def __init__(self) -> None:
        self.row = _Scope()
        self.constants: list[Constant] = []
        self._count = 0

    def write(self, value: Value | Constant, element: _Scope | None) -> str:
        """The name of a value, in the row's scope or in an element's."""
        if isinstance(value, Constant):
            self.constants.append(value)
            return f"c{len(self.constants) - 1}"
        scope = element if value.shape and element is not None else self.row
        if id(value) not in scope.names:
            made = self._made(value, scope)
            self._count += 1
            scope.names[id(value)] = f"v{self._count}"
            scope.lines.append(f"const {TYPES[value.dtype]} v{self._count} = {made};")
        return scope.names[id(value)]

    def _made(self, value: Value, scope: _Scope) -> str:
        if value.op == "array" and value.shape == scope.together:
            scope.some.append(value.args[0])
            return f"some_{value.args[0]}[k]"
        if value.op == "array":
            return f"array_{value.args[0]}[{scope.place if value.shape else 'row'}]"
        if value.op == "item":
            row, element = value.args
            picked = _Scope(f"row * {math.prod(row.shape)} + {element}")
            name = self.write(row, picked)
            self.row.lines += picked.lines
            return name
        if value.op in FOLDS:
            width = math.prod(value.args[0].shape)
            inner = _Scope(together=value.args[0].shape)
            name = self.write(value.args[0], inner)
            each = inner.lambda_of("column", f"row * {width} + column", TYPES[value.args[0].dtype], name)
            return f"lanes.{value.op}<{TYPES[value.dtype]}>({width}, {each})"
        names = [self.write(one, scope) for one in value.args]
        if value.op == "to":
            return f"h::to<{TYPES[value.dtype]}>({names[0]})"
        return f"h::{'rint' if value.op == 'round' else value.op}({', '.join(names)})"


def _lanes_for(width: int) -> tuple[int, int]:
    """Lanes that take a row of so many elements, the most that all have one, up to a warp's; and how many of them a thread of a
    GPU plays: of short rows a few, since putting lanes together is most of the work."""
    lanes = min(_MOST_LANES, 1 << (width.bit_length() - 1))
    return lanes, min(_OF_THREAD, lanes) if width < _LONG else 1


def map_text(value: Value, dtypes: Sequence[torch.dtype], width: int) -> Written:
    """The kernel that writes a value of each element, or of each row.

    Its parameters: the arrays, ``out``, the first element or row, how many, and the constants. ``width``: elements of a row,
    where there are any, of the array with the most.
    """
    outs = [f"array<{TYPES[value.dtype]}> out"]
    if "fold" not in value.passes:
        writer = _Writer()
        return _written("map", writer, dtypes, outs, _elements(writer, value), (_EACH, _BLOCK))
    writer, (lanes, own) = _Writer(), _lanes_for(width)
    if value.shape:
        return _written("map", writer, dtypes, outs, _rows(writer, value, lanes), (1, lanes))
    step = lanes // own  # threads of a row
    rows = _BLOCK // step * (max(1, _UNDER_WAY // -(-width // step)) if width < _LONG else 1)
    body = _values_of_rows(writer, value, f"h::Lanes<{lanes}, {own}>", rows)
    return _written("map", writer, dtypes, outs, body, (rows, _BLOCK))


def sum_text(value: Value, dtypes: Sequence[torch.dtype]) -> Written:
    """The kernel that adds up the values of each tile: in float64, or, of whole numbers, in 128 bits as two halves."""
    writer = _Writer()
    inner, name = _flat(writer, value, "first + place + k")
    if value.dtype in FLOATS:
        outs, write = ["array<double> out"], "out[tile] = sum;"
        values = inner.lambda_of("place", "first + place", "double", name)
        fold = f"const double sum = lanes.sum<double>(size, {values});"
    else:
        outs, write = ["array<int64_t> high", "array<int64_t> low"], "high[tile] = sum.high; low[tile] = sum.low;"
        values = inner.lambda_of("place", "first + place", "int64_t", name)
        # 4096 narrower ones do not overflow 64 bits.
        sums = "lanes.exact_sum(size, {})" if value.dtype == torch.int64 else "h::halves(lanes.sum<int64_t>(size, {}))"
        fold = f"const h::Halves sum = {sums.format(values)};"
    body = _tile(fold, write)
    return _written("reduce", writer, dtypes, outs, body, (TILE, _MOST_LANES))


def bound_text(how: str, value: Value, dtypes: Sequence[torch.dtype]) -> Written:
    """The kernel that finds the least or the greatest value of each tile: ``how`` is amin or amax."""
    writer = _Writer()
    inner, name = _flat(writer, value, "first + place + k")
    kind = TYPES[value.dtype]
    fold = f"const {kind} bound = lanes.{how}<{kind}>(size, {inner.lambda_of('place', 'first + place', kind, name)});"
    return _written("reduce", writer, dtypes, [f"array<{kind}> out"], _tile(fold, "out[tile] = bound;"), (TILE, _MOST_LANES))


def _flat(writer: _Writer, value: Value, number: str) -> tuple[_Scope, str]:
    """Statements for the value of this number, of elements or of rows, which are read together with their neighbours."""
    element = _Scope("at", value.shape)
    if not value.shape:
        writer.row.together = ()
    name = writer.write(value, element)
    at = f"const int64_t at = {number};"
    row = f"const int64_t row = at / {math.prod(value.shape)};"  # which costs nothing where nothing needs it
    return _Scope(lines=[at, row, *writer.row.lines, *element.lines], some=writer.row.some + element.some), name


def _elements(writer: _Writer, value: Value) -> str:
    inner, name = _flat(writer, value, "begin + first + hinterland::min_of(k, n - 1)")
    return f"""  h::each(count, [=](int64_t first, int n) {{
    {inner.read("begin + first", "h::kSome", "n")}
    h::Some<{TYPES[value.dtype]}, h::kSome> got;
    HINTERLAND_UNROLLED
    for (int k = 0; k < h::kSome; ++k) {{ {" ".join([*inner.lines, f"got[k] = {name};"])} }}
    h::put(out, first, got, n);
  }});"""


def _tile(fold: str, write: str) -> str:
    return f"""  const h::Lanes<{_MOST_LANES}> lanes;
  const int64_t tiles = (count + {TILE - 1}) / {TILE};
  const bool there = lanes.row() < tiles;
  const int64_t tile = there ? lanes.row() : tiles - 1;
  const int64_t first = begin + tile * {TILE};
  const int64_t size = hinterland::min_of<int64_t>({TILE}, begin + count - first);
  {fold}
  if (there && lanes.first() == 0) {{ {write} }}"""


def _values_of_rows(writer: _Writer, value: Value, team: str, rows: int) -> str:
    """What is made of a fold alone is made when all rows have been read, and by one lane."""
    leaves = _leaves(value)
    folded = leaves[0] if len(leaves) == 1 and leaves[0].op in FOLDS else value
    name = writer.write(folded, None)
    inner = _Scope(lines=["const int64_t row = begin + number;", *writer.row.lines])
    writer.row = _Scope(names={id(folded): name})
    result = writer.write(value, None)
    kind = TYPES[folded.dtype]
    return f"""  using Team = {team};
  const Team lanes;
  h::rows<{kind}, Team, {rows}>(
      count, [=](int64_t number) {{ {" ".join([*inner.lines, f"return {name};"])} }},
      [=](int64_t number, {kind} {name}) {{ {" ".join([*writer.row.lines, f"out[number] = {result};"])} }});"""


def _leaves(value: Value | Constant) -> list[Value]:
    """What a value is made of, of its row: folds, and elements that none of them has taken in."""
    if isinstance(value, Constant):
        return []
    if value.op in FOLDS or value.op in ("array", "item"):
        return [value]
    found = {id(leaf): leaf for one in value.args for leaf in _leaves(one)}
    return list(found.values())


def _rows(writer: _Writer, value: Value, lanes: int) -> str:
    width = math.prod(value.shape)
    element = _Scope(f"row * {width} + column")
    name = writer.write(value, element)
    lines = "\n  ".join(writer.row.lines)
    each = _Scope(lines=[*element.lines, f"if (there) out[number * {width} + column] = {name};"])
    return f"""  const h::Lanes<{lanes}> lanes;
  const bool there = lanes.row() < count;  // lanes of a warp without a row work with the others on the last
  const int64_t number = there ? lanes.row() : count - 1;
  const int64_t row = begin + number;
  {lines}
  lanes.each({width}, [=](int64_t column) {{ {" ".join(each.lines)} }});"""


def _written(
    name: str, writer: _Writer, dtypes: Sequence[torch.dtype], outs: list[str], body: str, teams: tuple[int, int]
) -> Written:
    arrays = [f"array<const {TYPES[dtype]}> array_{i}" for i, dtype in enumerate(dtypes)]
    numbers = [f"{_constant(one)} c{i}" for i, one in enumerate(writer.constants)]
    parameters = [*arrays, *outs, "int64_t begin", "int64_t count", *numbers]
    text = _KERNEL.format(name=name, parameters=", ".join(parameters), body=body)
    return Written(text, tuple(one.value for one in writer.constants), *teams)


def _constant(one: Constant) -> str:
    return "bool" if isinstance(one.value, bool) else "int64_t" if isinstance(one.value, int) else "double"
