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
# What no operator here begins with, or is: each with what is meant by it, if that is known.
_FOREIGN = re.compile(r"\s*(&&?|\|\|?|!(?!=)|~=?|===|=[<>]|\*\*|//|[%^:;@?#])")
_MEANT = {"&": "and", "&&": "and", "|": "or", "||": "or", "!": "not", "~": "not", "===": "==", "=>": ">=", "=<": "<="}
_OPERATORS = "== != < <= > >= + - * / and, or, not, in, between, like, is null"
_SQL = {
    "select": "write agg() instead", "from": "write hl.query() instead", "where": "write filter() instead",
    "group": "write group_by() instead", "limit": "write limit() instead", "order": "answers are sorted by their groups",
}  # fmt: skip
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
    """A column of the file, or one that is calculated from others row by row: ``term``, an Arithmetic.

    ``doubled``: it stands between double quotes, as texts do elsewhere.
    """

    name: str
    term: Any = None
    doubled: bool = False

    @property
    def sources(self) -> list[Name]:
        """The columns of the file that it takes."""
        return [self] if self.term is None else _names(self.term)


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
    columns: tuple[Name, ...]


@dataclass(frozen=True)
class Arithmetic:
    """Aggregates, or columns, and numbers by ``+ - * /``."""

    sign: str
    left: Any
    right: Any


def _names(what: Any) -> list[Name]:
    if isinstance(what, Arithmetic):
        return [*_names(what.left), *_names(what.right)]
    return [what] if isinstance(what, Name) else []


class _Words:
    """The words of a text, one after the other."""

    def __init__(self, what: str, text: Any) -> None:
        if not isinstance(text, str):
            raise ConfigError(f'{what} {arguments.repr_of(text)} is no text; write it as one, as "distance >= 10"')
        self.what, self.text, self.depth = what, text, 0
        self.words: list[tuple[str, str, int]] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            if foreign := _FOREIGN.match(text, at):
                raise self.unknown(foreign[1], foreign.start(1))
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

    def unknown(self, sign: str, place: int) -> ConfigError:
        """Over what is taken for an operator, and is none."""
        remedy = f"write {_MEANT[sign]!r}" if sign in _MEANT else f"there are {_OPERATORS}"
        return self.wrong(place, f"unknown operator {arguments.repr_of(sign)}; {remedy}")

    def refuse_sql(self) -> None:
        """Refuses what begins as SQL does, which says more than one text does here.

        Raises:
            ConfigError: it does.
        """
        (kind, word, place), second, third = (*self.words, ("end", "", 0), ("end", "", 0))[:3]
        goes_on = second[0] not in ("sign", "word", "end") or second[1] == "(" or third[1].lower() == "from"
        if kind == "name" and word.lower() in ("select", "with", "from", "where") and goes_on:
            why = "give what follows WHERE to filter(), aggregates to agg(), groups to group_by()"
            raise self.wrong(place, f"this is SQL, and {self.what} is less: {why}")

    def next_is(self, *words: str) -> bool:
        kind, word, _ = self.words[self.at]
        return kind in ("word", "sign") and word in words

    def take(self, *words: str) -> str | None:
        if not self.next_is(*words):
            return None
        self.at += 1
        return self.words[self.at - 1][1]

    def take_like(self) -> bool:
        """``like`` between a column and a text; elsewhere a column may be called so."""
        kind, word, _ = self.words[self.at]
        found = kind == "name" and word.lower() == "like"
        self.at += found
        return found

    def require(self, word: str) -> None:
        if self.take(word) is None:
            raise self.unexpected(f"{word!r} is missing here")

    def unexpected(self, why: str) -> ConfigError:
        kind, word, place = self.words[self.at]
        if kind == "name" and self.at and word.lower() in _SQL:
            return self.wrong(place, f"{word!r} is of SQL; {_SQL[word.lower()]}")
        return self.wrong(place, f"{why}, where the text ends" if kind == "end" else f"{why}, before {arguments.repr_of(word)}")

    def deeper(self, by: int) -> None:
        self.depth += by
        if self.depth > _DEEPEST:
            raise self.wrong(self.words[self.at][2], f"more than {_DEEPEST} levels deep; write it with fewer parentheses")

    def opens_term(self) -> bool:
        """Whether the parenthesis that is next holds what is calculated, and no predicate: by what follows its end."""
        depth = 0
        for at in range(self.at, len(self.words)):
            kind, word, _ = self.words[at]
            depth += (kind == "sign") * ((word == "(") - (word == ")"))
            if not depth:
                kind, word, _ = self.words[at + 1]
                if kind == "sign":
                    return word not in ("(", ")", ",")
                return word.lower() in ("is", "in", "not", "between", "like")
        return False

    def since(self, at: int) -> str:
        """The words from one on that were taken."""
        return " ".join(word for _, word, _ in self.words[at : self.at])

    def name(self) -> Name | None:
        kind, word, _ = self.words[self.at]
        if kind not in ("name", "quoted"):
            return None
        self.at += 1
        return Name(word if kind == "name" else word[1:-1], doubled=word[0] == '"')

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
    words.refuse_sql()
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
    if words.next_is("(") and not words.opens_term():
        words.require("(")
        words.deeper(1)
        found = _junction(words, "or")
        words.require(")")
        words.deeper(-1)
        return found
    return _comparison(words)


def _comparison(words: _Words) -> Any:
    column = _side(words)
    if isinstance(column, Literal):
        order, other = _order(words), _side(words)
        if isinstance(other, Literal):
            words.at -= 1
            raise words.unexpected("a column's name is missing: one side of a comparison is a column")
        return Compare(other, _MIRRORED[order], column)
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
        least = _side(words)
        words.require("and")
        found = Junction("and", (Compare(column, ">=", least), Compare(column, "<=", _side(words))))
    elif words.take_like():
        found = Compare(column, "like", _literal(words))
    elif negated:
        raise words.unexpected("'in', 'between' or 'like' is missing after 'not'")
    elif words.next_is(*_COMPARISONS):
        found = Compare(column, _order(words), _side(words))
    else:
        kind, word, place = words.words[words.at]
        if kind == "name" and word.lower() not in _SQL:
            raise words.unknown(word, place)
        if column.term is not None:
            raise words.unexpected("a comparison is missing, as >= is one")
        return Compare(column, "==", Literal(True))  # a column of truth values by itself
    return Junction("not", (found,)) if negated else found


def _side(words: _Words) -> Name | Literal:
    """A side of a comparison, or what an aggregate is of: a column, a literal, or what is calculated of columns and numbers."""
    if words.next_is("null"):
        raise words.unexpected("nothing compares with null; write 'is null'")
    if words.next_is("true", "false") or words.words[words.at][0] == "string":
        return _literal(words)
    at, depth = words.at, words.depth
    found = _row_terms(words)
    words.depth = depth
    return Name(words.since(at), found) if isinstance(found, Arithmetic) else found


def _row_terms(words: _Words) -> Any:
    return _chain(words, ("+", "-"), _row_factors, _calculated)


def _row_factors(words: _Words) -> Any:
    return _chain(words, ("*", "/"), _row_operand, _calculated)


def _row_operand(words: _Words) -> Any:
    """A column, a number, or what is between parentheses."""
    if words.take("("):
        return _up_to_the_closing(words, _row_terms)
    found = words.literal() or words.name()
    if found is None and words.take("-"):
        words.deeper(1)
        return _calculated("*", Literal(Fraction(-1), True), _row_operand(words))
    if found is None or (isinstance(found, Literal) and not isinstance(found.value, Fraction)):
        raise words.unexpected("a column (odd names between backquotes), a number, or a text between single quotes is missing")
    return found


def _calculated(sign: str, left: Any, right: Any) -> Any:
    """Of columns row by row; of numbers at once, exactly."""
    if not (isinstance(left, Literal) and isinstance(right, Literal)):
        return Arithmetic(sign, left, right)
    a, b = Fraction(left.value), Fraction(right.value)
    if sign == "/" and not b:
        raise ConfigError("a literal is divided by 0, which is no number; divide by another")
    found = a / b if sign == "/" else a * b if sign == "*" else a - b if sign == "-" else a + b
    return Literal(found, left.whole and right.whole and sign != "/")


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


FUNCTIONS = ("sum", "mean", "avg", "count", "min", "max", "mean_ratio")


def aggregates(text: Any) -> list[tuple[str, Any]]:
    """The aggregates that a text lists, each with its own text.

    Raises:
        ConfigError: it cannot be read; says where and why.
    """
    words = _Words("the aggregate", text)
    words.refuse_sql()
    found = []
    while True:
        begin = words.words[words.at][2]
        words.depth = 0  # levels are counted anew
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


def _chain(
    words: _Words, signs: tuple[str, str], part: Callable[[_Words], Any], join: Callable[[str, Any, Any], Any] = Arithmetic
) -> Any:
    """Parts with signs between them, from the left."""
    found = part(words)
    while sign := words.take(*signs):
        words.deeper(1)
        found = join(sign, found, part(words))
    return found


def _up_to_the_closing(words: _Words, part: Callable[[_Words], Any]) -> Any:
    """What ``part`` reads behind an opening parenthesis, and the closing one."""
    words.deeper(1)
    found = part(words)
    words.require(")")
    words.deeper(-1)
    return found


def _operand(words: _Words) -> Any:
    if words.take("("):
        return _up_to_the_closing(words, _terms)
    literal = words.literal()
    if literal is not None and isinstance(literal.value, Fraction):
        return literal
    place = words.words[words.at][2]
    name = words.name()
    if name is None or name.name.lower() not in FUNCTIONS:
        raise words.wrong(place, f"an aggregate is missing; use one of {', '.join(FUNCTIONS)}, as mean(total)")
    function = name.name.lower()
    words.require("(")
    columns: list[Name] = []
    every = function == "count" and words.take("*") is not None
    while not (every or words.next_is(")")):
        column = _side(words)
        if isinstance(column, Literal):
            words.at -= 1
            raise words.unexpected("a column's name is missing")
        columns.append(column)
        if words.take(",") is None:
            break
    words.require(")")
    wanted = (0, 1) if function == "count" else (2,) if function == "mean_ratio" else (1,)
    if len(columns) not in wanted:
        raise words.wrong(place, f"{function} takes {' or '.join(map(str, wanted))} columns, not {len(columns)}")
    return Aggregate("mean" if function == "avg" else function, tuple(columns))
