"""Predicates and aggregates as text: words, and what they form."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from ..runtime import arguments
from ..runtime.errors import ConfigError

_DEEPEST = 100  # parentheses and nots within each other: far below what Python's stack takes
_WORD = re.compile(
    r"""\s*(?:
    (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?) |
    (?P<string>'[^']*(?:''[^']*)*') |
    (?P<quoted>`[^`]*`|"[^"]*") |
    (?P<name>[^\W\d]\w*) |
    (?P<sign>==|!=|<>|<=|>=|[=<>(),+\-*/])
    )""",
    re.VERBOSE,
)
_LISTED = re.compile(r"""\s*(?:(?P<quoted>`[^`]*`|"[^"]*")|(?P<plain>[^,`"\s][^,]*?|))\s*(?P<end>,|\Z)""")
_RESERVED = {"and", "or", "not", "in", "between", "is", "null", "true", "false"}
_COMPARISONS = {"==": "==", "=": "==", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_LONGEST_NUMBER = 400  # digits: more than any type of column holds


class Literal(NamedTuple):
    """A number (exact), a text, or a truth value; ``whole``: a number that is written without a point or an exponent."""

    value: Fraction | str | bool
    whole: bool = False


class Name(NamedTuple):
    """A column."""

    name: str


@dataclass(frozen=True)
class Compare:
    """A column beside a literal or another column."""

    column: Name
    order: str
    other: Name | Literal


@dataclass(frozen=True)
class IsNull:
    column: Name


@dataclass(frozen=True)
class Junction:
    """``and`` or ``or`` of several, ``not`` of one."""

    kind: str
    parts: tuple[Any, ...]


@dataclass(frozen=True)
class Aggregate:
    """``sum`` and others of a column, ``count`` of rows where there is none, ``mean_ratio`` of two."""

    function: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Arithmetic:
    """Aggregates and numbers by ``+ - * /``."""

    sign: str
    left: Any
    right: Any


class _Words:
    """The words of a text, one after the other."""

    def __init__(self, what: str, text: Any) -> None:
        if not isinstance(text, str):
            raise ConfigError(f'{what} {arguments.repr_of(text)} is no text; write it as one, as "distance >= 10"')
        self.what, self.text, self._depth = what, text, 0
        self.words: list[tuple[str, str, int]] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            found = _WORD.match(text, at)
            if found is None:
                place = at + len(text[at:]) - len(text[at:].lstrip())
                raise self.wrong(place, f"{arguments.repr_of(text[place : place + 12])} cannot be read; check quotes and signs")
            kind = str(found.lastgroup)
            word, place = found[kind], found.start(kind)
            if kind == "name" and word.lower() in _RESERVED:
                kind, word = "word", word.lower()
            self.words.append((kind, word, place))
            at = found.end()
        self.words.append(("end", "", end))
        self.at = 0

    def wrong(self, place: int, why: str) -> ConfigError:
        return ConfigError(f"{self.what} {arguments.repr_of(self.text)}, at character {place + 1}: {why}")

    def next_is(self, *words: str) -> bool:
        kind, word, _ = self.words[self.at]
        return kind in ("word", "sign") and word in words

    def take(self, *words: str) -> str | None:
        if not self.next_is(*words):
            return None
        self.at += 1
        return self.words[self.at - 1][1]

    def require(self, word: str) -> None:
        if self.take(word) is None:
            raise self.unexpected(f"{word!r} is missing here")

    def unexpected(self, why: str) -> ConfigError:
        kind, word, place = self.words[self.at]
        return self.wrong(place, f"{why}, where the text ends" if kind == "end" else f"{why}, before {arguments.repr_of(word)}")

    def deeper(self, by: int) -> None:
        self._depth += by
        if self._depth > _DEEPEST:
            raise self.wrong(self.words[self.at][2], f"more than {_DEEPEST} levels deep; write it with fewer parentheses")

    def start_levels(self) -> None:
        """Begins to count levels anew."""
        self._depth = 0

    def name(self) -> Name | None:
        kind, word, _ = self.words[self.at]
        if kind not in ("name", "quoted"):
            return None
        self.at += 1
        return Name(word if kind == "name" else word[1:-1])

    def literal(self) -> Literal | None:
        at, sign = self.at, self.take("-", "+")
        kind, word, place = self.words[self.at]
        self.at += 1
        if kind == "number":
            number = self._number(word, place)
            return Literal(-number if sign == "-" else number, word.isdecimal())
        if sign is None and kind == "string":
            return Literal(word[1:-1].replace("''", "'"))
        if sign is None and kind == "word" and word in ("true", "false"):
            return Literal(word == "true")
        self.at = at
        return None

    def _number(self, word: str, place: int) -> Fraction:
        exponent = re.search(r"[eE]([+-]?\d+)$", word)
        if len(word) > _LONGEST_NUMBER or (exponent and abs(int(exponent[1])) > _LONGEST_NUMBER):
            raise self.wrong(place, f"a number of more than {_LONGEST_NUMBER} digits; no column holds such")
        return Fraction(word)


def predicate(text: Any) -> Any:
    """What a predicate says.

    Raises:
        ConfigError: it cannot be read; says where and why.
    """
    words = _Words("the filter", text)
    found = _junction(words, "or")
    if words.words[words.at][0] != "end":
        raise words.unexpected("'and' or 'or' is missing")
    return found


def _junction(words: _Words, kind: str) -> Any:
    parts = [_junction(words, "and") if kind == "or" else _negation(words)]
    while words.take(kind):
        parts.append(_junction(words, "and") if kind == "or" else _negation(words))
    return parts[0] if len(parts) == 1 else Junction(kind, tuple(parts))


def _negation(words: _Words) -> Any:
    if words.take("not"):
        words.deeper(1)
        found = _negation(words)
        words.deeper(-1)
        return Junction("not", (found,))
    if words.take("("):
        words.deeper(1)
        found = _junction(words, "or")
        words.require(")")
        words.deeper(-1)
        return found
    return _comparison(words)


def _comparison(words: _Words) -> Any:
    column = words.name()
    if column is None:
        literal = words.literal()
        if literal is None:
            raise words.unexpected("a column's name is missing (odd names go between backquotes)")
        order = _order(words)
        column = words.name()
        if column is None:
            raise words.unexpected("a column's name is missing: one side of a comparison is a column")
        return Compare(column, _MIRRORED[order], literal)
    if words.take("is"):
        negated = words.take("not")
        words.require("null")
        return Junction("not", (IsNull(column),)) if negated else IsNull(column)
    negated = words.take("not")
    found: Any
    if words.take("in"):
        words.require("(")
        parts = [Compare(column, "==", _literal(words))]
        while words.take(","):
            parts.append(Compare(column, "==", _literal(words)))
        words.require(")")
        found = parts[0] if len(parts) == 1 else Junction("or", tuple(parts))
    elif words.take("between"):
        least = _literal(words)
        words.require("and")
        found = Junction("and", (Compare(column, ">=", least), Compare(column, "<=", _literal(words))))
    elif negated:
        raise words.unexpected("'in' or 'between' is missing after 'not'")
    elif not words.next_is(*_COMPARISONS):
        return Compare(column, "==", Literal(True))  # a column of truth values by itself
    else:
        order = _order(words)
        found = Compare(column, order, words.name() or _literal(words))
    return Junction("not", (found,)) if negated else found


def _order(words: _Words) -> str:
    sign = words.take(*_COMPARISONS)
    if sign is None:
        raise words.unexpected("a comparison is missing, as >= is one")
    return _COMPARISONS[sign]


def _literal(words: _Words) -> Literal:
    if words.next_is("null"):
        raise words.unexpected("nothing compares with null; write 'is null'")
    found = words.literal()
    if found is None:
        raise words.unexpected("a number, or a text between single quotes, is missing")
    return found


FUNCTIONS = ("sum", "mean", "count", "min", "max", "mean_ratio")


def aggregates(text: Any) -> list[tuple[str, Any]]:
    """The aggregates that a text lists, each with its own text.

    Raises:
        ConfigError: it cannot be read; says where and why.
    """
    words = _Words("the aggregate", text)
    found = []
    while True:
        begin = words.words[words.at][2]
        words.start_levels()
        what = _terms(words)
        found.append((words.text[begin : words.words[words.at][2]].rstrip(), what))
        if words.take(",") is None:
            break
    if words.words[words.at][0] != "end":
        raise words.unexpected("a comma or a sign is missing")
    return found


def columns(text: str) -> list[str]:
    """The columns that a text lists between commas: each name as it stands, or between backquotes.

    Raises:
        ConfigError: a quote has no end, or something follows it.
    """
    found, at = [], 0
    while at <= len(text):
        one = _LISTED.match(text, at)
        if one is None:
            why = "a name between quotes has no end, or no comma after it"
            raise ConfigError(f"the columns {arguments.repr_of(text)}, from character {at + 1} on: {why}")
        found.append(one["quoted"][1:-1] if one["quoted"] else one["plain"])
        at = one.end() + (one["end"] == "")
    return found


def _terms(words: _Words) -> Any:
    return _chain(words, ("+", "-"), _factors)


def _factors(words: _Words) -> Any:
    return _chain(words, ("*", "/"), _operand)


def _chain(words: _Words, signs: tuple[str, str], part: Callable[[_Words], Any]) -> Any:
    """Parts with signs between them, from the left."""
    found = part(words)
    while sign := words.take(*signs):
        words.deeper(1)
        found = Arithmetic(sign, found, part(words))
    return found


def _operand(words: _Words) -> Any:
    if words.take("("):
        words.deeper(1)
        found = _terms(words)
        words.require(")")
        words.deeper(-1)
        return found
    literal = words.literal()
    if literal is not None and isinstance(literal.value, Fraction):
        return literal
    place = words.words[words.at][2]
    name = words.name()
    if name is None or name.name.lower() not in FUNCTIONS:
        raise words.wrong(place, f"an aggregate is missing; use one of {', '.join(FUNCTIONS)}, as mean(total)")
    function = name.name.lower()
    words.require("(")
    columns: list[str] = []
    while not words.next_is(")"):
        column = words.name()
        if column is None:
            raise words.unexpected("a column's name is missing")
        columns.append(column.name)
        if words.take(",") is None:
            break
    words.require(")")
    wanted = (0, 1) if function == "count" else (2,) if function == "mean_ratio" else (1,)
    if len(columns) not in wanted:
        raise words.wrong(place, f"{function} takes {' or '.join(map(str, wanted))} columns, not {len(columns)}")
    return Aggregate(function, tuple(columns))
