"""``hl.query(path).filter(...).group_by(...).agg(...)``: what is asked, checked against the file's columns, then run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import torch

from ..runtime import arguments, devices
from ..runtime.errors import ConfigError
from ..runtime.repr import Repr
from ..runtime.warned import warn_once
from . import expression
from .bounds import ColumnKind, kind_of, real, scaled
from .by_engine import ByEngine
from .calculated import calculated
from .files import named_type, sentences
from .matching_rows import arrow_rows, taken_columns, tensors_of
from .on_gpu import OnGpu
from .pinned_columns import PinnedTable
from .program import Program
from .result import QueryResult, frame_of
from .run import ColumnMeasure, GroupMeasure, QueryRun
from .streamed_on_gpu import StreamedOnGpu
from .table import FileTable

_EXACT = Context(prec=120)
_MOST_KEYS = 32


@dataclasses.dataclass(frozen=True, repr=False)
class Query(Repr):
    """A query that is being put together. No column is read before :meth:`agg`, :meth:`rows`, or what else answers."""

    held: PinnedTable
    predicates: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    most: int | None = None

    @property
    def path(self) -> str:
        """Of the file, or of all."""
        return self.held.path

    @property
    def schema(self) -> Any:
        """The columns and their types, a ``pyarrow.Schema``; those that folders' names say are the last."""
        with self.held.one_at_a_time:
            return self.held.table().schema

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)

    def _facts(self) -> dict[str, Any]:
        facts = {"path": self.path, "device": self.held.device, "filter": self.predicates, "group_by": self.keys}
        return {name: fact for name, fact in (facts | {"limit": self.most}).items() if fact not in ((), None)}

    def filter(self, predicate: str) -> Query:
        """Only rows for which ``predicate`` is true, and all earlier ones are.

        Args:
            predicate: comparisons (``== != < <= > >=``, ``in (...)``, ``between a and b``, ``like '%a_'``, ``is null``, and
                ``not`` before each of the words) of columns with numbers, ``'texts'``, dates as ``'2019-03-01'``, ``true`` and
                ``false``, or of two columns, joined by ``and``, ``or``, ``not`` and parentheses. ``fare + tip > 10`` calculates
                with ``+ - * /``: whole numbers in 64 bits, beyond which they are refused; quotients are float64. Nulls are
                neither true nor false (Kleene's logic), NaN compares as IEEE 754 has it.

        Raises:
            ConfigError: it cannot be read.
        """
        expression.predicate(predicate)
        return dataclasses.replace(self, predicates=(*self.predicates, predicate))

    def group_by(self, *columns: str) -> Query:
        """A row of the answer for each value of these columns, null being one: texts, whole numbers, truth values, dates.

        Raises:
            ConfigError: one is no text, or comes twice, or there are more than 32.
        """
        for column in columns:
            arguments.instance("a group's column", column, str, "name it")
        keys = (*self.keys, *columns)
        if len(set(keys)) < len(keys) or len(keys) > _MOST_KEYS:
            raise ConfigError(f"group_by names {arguments.repr_of(keys)}; name each column once, and at most {_MOST_KEYS}")
        return dataclasses.replace(self, keys=keys)

    def limit(self, most: int) -> Query:
        """The first ``most`` rows that match, in their order; of groups the first in the order of their keys.

        Raises:
            ConfigError: it is no number from 0 on.
        """
        return dataclasses.replace(self, most=arguments.whole_number("limit", most, 0))

    def rows(self) -> torch.Tensor:
        """The numbers of the rows that match, ascending, int64, [matches], on the query's device; of several
        files one after another.

        A CPU finds them; a GPU that was asked for does not, which is said once.

        Raises:
            ConfigError: the filter's columns are not there or of another type than it needs, or rows are grouped.
            FormatError: the file is damaged.
            StorageError: it cannot be read.
        """
        with self._open() as table:
            return torch.from_numpy(_row_numbers(self, table)).to(self.held.device)

    def to_arrow(self, *columns: str) -> Any:
        """The rows that match, a ``pyarrow.Table`` of some columns, in types as the file has them; or of all, but for
        those that pyarrow does not read, and lists and structs.

        Raises:
            ConfigError: as for :meth:`rows`, or a column cannot be read.
            FormatError: the file is damaged.
            StorageError: it cannot be read.
        """
        with self._open() as table:
            return arrow_rows(table, taken_columns(table, columns), _row_numbers(self, table))

    def to_pandas(self, *columns: str) -> Any:
        """The same as a ``pandas.DataFrame``.

        Raises:
            ConfigError: as for :meth:`to_arrow`, or pandas is missing.
        """
        return frame_of(self.to_arrow(*columns))

    def to_tensors(self, *columns: str) -> dict[str, torch.Tensor]:
        """The same as tensors, each [matches], of the columns' own types, on the query's device.

        Raises:
            ConfigError: as for :meth:`to_arrow`, or a column has nulls, or holds neither numbers nor truth values.
        """
        return tensors_of(self.to_arrow(*columns), self.held.device)

    def agg(self, *aggregates: str) -> QueryResult:
        """Reads the file and answers.

        Args:
            aggregates: ``sum``, ``mean`` or ``avg``, ``min``, ``max`` or ``count`` of a column, or of what is calculated as
                in filters, ``count()`` or ``count(*)`` of rows, ``mean_ratio(a, b)`` (the mean of the rows' ratios), and
                arithmetic of these, as ``sum(total) / sum(distance)`` (the ratio of sums).

        Returns:
            What was found. Whole numbers and decimals are summed exactly; means are float64. Nulls are left out. Of no value
            counts and sums are 0, everything else is None. Dates and times are ``date`` and ``datetime``; of nanoseconds, or
            where Python does not know a year or the zone, all of a column's are ``numpy.datetime64``, of UTC.

        Raises:
            ConfigError: an aggregate cannot be read, a column is not there or of another type than it needs, pyarrow
                does not read its encoding, a key is called as an aggregate is, or there are more than 65,536 groups.
            FormatError: the file is damaged.
            StorageError: it cannot be read.
        """
        asked = [one for text in aggregates for one in expression.aggregates(text)]
        if not asked:
            raise ConfigError("agg() asks for nothing; name aggregates, as 'count()'")
        with self._open() as table:
            return _answer(self, table, asked)

    @contextmanager
    def _open(self) -> Iterator[FileTable]:
        """The table, while nobody else asks it."""
        with self.held.one_at_a_time:
            table = self.held.table()
            with sentences(self.path):
                yield table


def query(path: Any, device: torch.device | str | int | None = None, host_budget: int | str | None = None) -> Query:
    """A query to the table in a file: Arrow IPC (Feather 2), Parquet, ORC or CSV, also compressed (``.csv.gz``); or in several.
    They are opened when they are first asked, and again when they have changed.

    Args:
        path: of the file; a pattern (``trips/*.parquet``), a folder, or a list of these, of files whose rows follow each other.
            Folders that are called as ``year=2024`` are columns (Hive's partitions).
        device: where it is answered. None is the CPU, which reads the file where it lies: the quickest way to one answer. A GPU
            reads copies of the columns in page-locked host memory, which are made when a column is first asked for, and live as
            long as this query and those made from it: the quickest way to the answers that follow. Of numbers of which at
            most 65,536 differ the copy is codes of one or two bytes. Both give the same answers, but for the last digits of
            sums of floats.
        host_budget: bytes of host memory for a GPU's copies, as in ``"4GiB"``; None is what can be had. Columns that do not fit
            are read from the file by each question, through rooms within it; threads that decompress have theirs besides.

    Raises:
        ConfigError: ``path`` names no file, or a budget is no size, or given for a CPU.
        DeviceError: there is no such device.
    """
    paths = tuple(arguments.path("the table", one) for one in (path if isinstance(path, list | tuple) else [path]))
    if not paths:
        raise ConfigError("the table is a list of no files; name some")
    held = PinnedTable(paths, devices.as_device("cpu" if device is None else device), host_budget)
    if host_budget is not None and not held.on_gpu:
        raise ConfigError(f"host_budget={arguments.repr_of(host_budget)} bounds copies for a GPU; name one, as device='cuda'")
    return Query(held)


def _answer(asked: Query, table: FileTable, aggregates: list[tuple[str, Any]]) -> QueryResult:
    predicate = _predicate(asked)
    if twice := {*asked.keys} & {text for text, _ in aggregates}:
        raise ConfigError(f"a key and an aggregate are both called {min(twice)!r}; write the aggregate with a space more")
    leaves = [leaf for _, what in aggregates for leaf in _leaves(what)]
    taken = [*_compared(predicate), *map(expression.Name, asked.keys), *(name for leaf in leaves for name in leaf.columns)]
    kinds, terms = _kinds(table, taken)
    for name in asked.keys:
        if kinds[name].family == "float":
            raise ConfigError(
                f"the column {name!r} is {kinds[name].arrow}, by which nothing is grouped; use one of whole numbers"
            )
    for leaf in leaves:
        _check(leaf, kinds)
    for _, what in aggregates:
        _check_arithmetic(what, kinds)
    measures = list(dict.fromkeys(_measured(leaf, kinds) for leaf in leaves)) or [ColumnMeasure(None)]
    run = _run(asked, table, kinds, terms, Program(predicate, kinds) if predicate is not None else None, measures)
    answer = run.answer()
    by_measure = dict(zip(measures, answer.found, strict=True))
    names = [*asked.keys, *(text for text, _ in aggregates)]
    columns = [*answer.keys, *(_column(what, by_measure, kinds) for _, what in aggregates)]
    rows: list[dict[str, Any]] = [{} for _ in columns[0][: asked.most]]
    for name, values in zip(names, columns, strict=True):  # for many groups quicker than row by row
        for row, value in zip(rows, values, strict=False):
            row[name] = value
    read, least = (_added(getattr(plan, name) for plan in answer.plans) for name in ("bytes", "least_bytes"))
    return QueryResult(rows, answer.matched, read, least, answer.plans)


def _predicate(asked: Query) -> Any:
    """All filters together; None where there is none."""
    found = tuple(map(expression.predicate, asked.predicates))
    return expression.Junction("and", found) if len(found) > 1 else found[0] if found else None


def _row_numbers(asked: Query, table: FileTable) -> np.ndarray[Any, Any]:
    """Those of rows that match, ascending, int64."""
    if asked.keys:
        raise ConfigError(
            f"rows that are grouped by {', '.join(asked.keys)} have no numbers; leave group_by() out, or use agg()"
        )
    if asked.held.on_gpu:
        warn_once("query rows", f"{asked.path}: the CPU finds the rows: a GPU adds up, and lists none")
    predicate = _predicate(asked)
    kinds, terms = _kinds(table, _compared(predicate))
    program = Program(predicate, kinds) if predicate is not None else None
    return ByEngine(table, kinds, program, (), [], terms=terms).row_numbers(asked.most)


def _run(
    asked: Query,
    table: FileTable,
    kinds: dict[str, ColumnKind],
    terms: dict[str, Any],
    program: Program | None,
    measures: list[ColumnMeasure],
) -> QueryRun:
    """On the GPU that was asked for, where it can be."""

    def on_gpu(kind: type[OnGpu]) -> OnGpu:
        return kind(table, kinds, program, asked.keys, measures, asked.held, terms=terms)

    refusal = ""
    if asked.held.on_gpu:
        found = _on_gpu(asked, kinds, terms, on_gpu)
        if isinstance(found, OnGpu):
            return found
        refusal = found
        warn_once(f"query {refusal}", f"{asked.path}: answered by the CPU: {refusal}")
    return ByEngine(table, kinds, program, asked.keys, measures, terms=terms, refusal=refusal)


def _on_gpu(
    asked: Query, kinds: dict[str, ColumnKind], terms: dict[str, Any], run_of: Callable[[type[OnGpu]], OnGpu]
) -> OnGpu | str:
    """What a GPU runs, or why it does not."""
    held = asked.held
    if not held.holds({name: kinds[name] for name in asked.keys}):
        return "host memory does not hold the groups' keys"
    run = run_of(OnGpu)
    if refusal := run.refusal():
        return refusal
    try:
        if held.holds(kinds, terms):
            return run
    except ConfigError as error:  # the CPU calculates in rows that match alone
        if terms:
            return f"over all rows {min(terms)!r} cannot be calculated: {error}"
        raise
    if terms:
        return f"host memory does not hold the columns, and {min(terms)!r} is calculated row by row"
    if not held.holds({name: kind for name, kind in kinds.items() if kind.family == "text"}):
        return "host memory does not hold the texts' codes"
    run = run_of(StreamedOnGpu)
    return run.refusal() or run


def _added(sizes: Iterable[int | None]) -> int | None:
    """None where one is not known."""
    sizes = list(sizes)
    return None if not sizes or None in sizes else sum(size for size in sizes if size is not None)


def _kinds(table: FileTable, names: Iterable[expression.Name]) -> tuple[dict[str, ColumnKind], dict[str, Any]]:
    """The kinds of columns, also of those that others are calculated from, and the terms of the calculated ones."""
    kinds: dict[str, ColumnKind] = {}
    terms = {}
    for name in names:
        for source in name.sources:
            if source.name not in kinds:
                kinds[source.name] = _kind(table, source)
        if name.term is not None:
            if name.name in table.schema.names:
                raise ConfigError(f"{table.path} has a column {name.name!r}, and it is calculated as well; write it otherwise")
            terms[name.name] = name.term
    names_there = dict.fromkeys(kinds, "")
    return kinds | {name: calculated(term, kinds, names_there).kind for name, term in terms.items()}, terms


def _kind(table: FileTable, name: expression.Name) -> ColumnKind:
    try:
        arrow = named_type(table, name.name)
    except ConfigError as error:
        if not name.doubled or name.name in table.schema.names:
            raise
        raise ConfigError(f"{error}; or write the text between single quotes: {arguments.repr_of(name.name)}") from None
    found = kind_of(arrow)
    if found is None:
        raise ConfigError(
            f"the column {name.name!r} is {arrow}, which queries do not take; use numbers, decimals of at most 18 digits "
            "(decimal128, of a scale from 0 on), truth values, dates, timestamps or texts"
        )
    return found


def _compared(what: Any) -> list[expression.Name]:
    if isinstance(what, expression.Junction):
        return [name for part in what.parts for name in _compared(part)]
    if isinstance(what, expression.IsNull):
        return [what.column]
    if isinstance(what, expression.Compare):
        return [what.column, *([what.other] if isinstance(what.other, expression.Name) else [])]
    return []


def _leaves(what: Any) -> list[expression.Aggregate]:
    if isinstance(what, expression.Arithmetic):
        return [*_leaves(what.left), *_leaves(what.right)]
    return [what] if isinstance(what, expression.Aggregate) else []


def _check(leaf: expression.Aggregate, kinds: dict[str, ColumnKind]) -> None:
    """Refuses aggregates of what has none."""
    for name in (one.name for one in leaf.columns):
        kind = kinds[name]
        numbers = kind.is_number or (kind.family == "bool" and leaf.function != "mean_ratio")
        ordered = numbers or kind.family == "time"
        if leaf.function != "count" and not (ordered if leaf.function in ("min", "max") else numbers):
            raise ConfigError(
                f"{leaf.function}({name}): the column {name!r} is {kind.arrow}, which has none; use count({name})"
            )


def _check_arithmetic(what: Any, kinds: dict[str, ColumnKind]) -> None:
    if isinstance(what, expression.Arithmetic):
        for leaf in _leaves(what):
            if leaf.function in ("min", "max") and not kinds[leaf.columns[0].name].is_number:
                raise ConfigError(
                    f"{leaf.function}({leaf.columns[0].name}) is no number to calculate with; ask for it by itself"
                )


def _measured(leaf: expression.Aggregate, kinds: dict[str, ColumnKind]) -> ColumnMeasure:
    if not leaf.columns:
        return ColumnMeasure(None)
    if leaf.function == "mean_ratio":
        return ColumnMeasure(leaf.columns[0].name, leaf.columns[1].name, adds=True)
    return ColumnMeasure(leaf.columns[0].name, adds=leaf.function in ("sum", "mean"), bounds=leaf.function in ("min", "max"))


def _column(what: Any, found: dict[ColumnMeasure, GroupMeasure], kinds: dict[str, ColumnKind]) -> list[Any]:
    """An aggregate of each group, as it is answered."""
    values = _values(what, found, kinds)
    return list(map(_number, values)) if isinstance(what, expression.Literal) else values


def _values(what: Any, found: dict[ColumnMeasure, GroupMeasure], kinds: dict[str, ColumnKind]) -> list[Any]:
    """An aggregate of each group; of a literal exactly, for what it is calculated with."""
    if isinstance(what, expression.Literal):
        assert isinstance(what.value, Fraction)
        return [what.value] * len(next(iter(found.values())))
    if isinstance(what, expression.Arithmetic):
        left, right = (_values(side, found, kinds) for side in (what.left, what.right))
        return [_joined(what.sign, *sides) for sides in zip(left, right, strict=True)]
    total = found[_measured(what, kinds)]
    if what.function == "count":
        return total.count
    kind = None if what.function == "mean_ratio" else kinds[what.columns[0].name]
    if what.function in ("min", "max"):
        assert kind is not None
        # No bounds: all of the group is null. Unknown ones: all of it is NaN.
        counted = [both if count else () for count, both in zip(total.count, total.bounds, strict=True)]
        # Both bounds of all groups together: Python has one type for the values of a column.
        values = iter(kind.values([bits for both in counted if both for bits in both]))
        pairs = [(next(values), next(values)) if both else both for both in counted]
        which, nan = int(what.function == "max"), float("nan")
        return [nan if pair is None else pair[which] if pair else None for pair in pairs]
    if kind is None or kind.family == "float":
        if what.function == "sum":
            return total.real
        return [real / count if count else None for real, count in zip(total.real, total.count, strict=True)]
    if what.function == "mean":
        sums = zip(total.whole, total.count, strict=True)
        return [float(Fraction(whole, kind.units * count)) if count else None for whole, count in sums]
    return [scaled(whole, kind.units) for whole in total.whole] if kind.family == "decimal" else total.whole


def _number(exact: Fraction) -> int | float:
    """An exact number as Python's users know it."""
    return exact.numerator if exact.denominator == 1 else real(exact)


def _decimal(exact: Any) -> Decimal:
    """A whole number, a decimal, or a literal, which ends after some digits."""
    return (
        _EXACT.divide(Decimal(exact.numerator), Decimal(exact.denominator)) if isinstance(exact, Fraction) else Decimal(exact)
    )


def _joined(sign: str, left: Any, right: Any) -> Any:
    """``left sign right``: exact where both sides are, but for quotients; None where a side is, or the divisor is zero."""
    if left is None or right is None or (sign == "/" and right == 0):
        return None
    if isinstance(left, float) or isinstance(right, float):
        a, b = real(left), real(right)
        if sign == "/":
            return a / b if b else None
        return a + b if sign == "+" else a - b if sign == "-" else a * b
    if sign == "/":
        return real(Fraction(left) / Fraction(right))
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        by = {"+": _EXACT.add, "-": _EXACT.subtract, "*": _EXACT.multiply}
        return by[sign](*(_decimal(side) for side in (left, right)))
    if isinstance(left, Fraction) or isinstance(right, Fraction):
        a_exact, b_exact = Fraction(left), Fraction(right)
        exact = a_exact + b_exact if sign == "+" else a_exact - b_exact if sign == "-" else a_exact * b_exact
        return _number(exact)
    return left + right if sign == "+" else left - right if sign == "-" else left * right
