"""Edge lists as SNAP, KONECT, GAP (.el, .wel) and CSV exports have them: ``source target [weight]`` a line, vertices from 0.

Columns stand between blanks, or between commas, semicolons or bars, the same on all lines; lines that begin with # or % are
comments; gzip is read as it is. Where vertices are called by names, tabs may be what stands between, and blanks within.

KONECT's first line, ``% sym|asym|bip WEIGHTS``, says what a list is: of ``bip`` the two sides are numbered apart, each from 1,
and what follows a weight is the time of the edge. Source: Kunegis, "Handbook of Network Analysis (The KONECT Project)" (2018).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import torch

from ... import _core
from ...runtime.errors import ConfigError, FormatError
from ...runtime.thresholds import HEAD_BYTES, HEAD_LINES
from ...runtime.warned import warn_once
from ..graph import Graph
from . import labels
from .content import EdgeList, EdgeRuns, LoadOptions, check_sparsity, plain_weights
from .text import TextReader, edge_text, parsed, passing, take, write_text

_COMMENTS, _SEPARATORS = b"#%", ("\t", ";", "|", ",", "")
_SHORT = 1000  # lines: far fewer than a text has that is too long to be looked at as a whole
_PASSED = passing(rb"[#%][^\n]*+")
_NODES = re.compile(rb"\bNodes:\s*([0-9]{1,15})\b")
_KONECT = re.compile(rb"%\s*(sym|asym|bip)\b")
_SIDES = re.compile(rb"%\s*[0-9]{1,15}\s+([0-9]{1,15})\s+[0-9]{1,15}\s*$", re.MULTILINE)  # edges, and vertices of each side
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_WHOLE = re.compile(r'"?-?[0-9]+"?')
_BLANKS = " \t\r\n"  # the parser's: what else Unicode calls blank is part of a name
_NO_WEIGHT = re.compile(r"inf|infinity|nan|na|n/a|null|none", re.IGNORECASE)  # written for a number, and no name of a column
# What headings call the ends of an edge, and what of these. An edge leads from tail to head, and in triples from head to tail.
_SOURCE = re.compile(r"(?:source|src|from|origin|start|tail|head)(.*)")
_TARGET = re.compile(r"(?:target|dst|destination|dest|to|end|head|tail)(.*)")
_KNOWN = re.compile(r"(?:node|vertex|entity|user|name|label|title|id|ip|addr|address|key|index|idx|num|number|[0-9])*")
_TIME = re.compile(r"(?:unix)?(?:times?|timestamps?|dates?|datetime|ts)")
_NO_END = re.compile(rf"weights?|{_TIME.pattern}")
_ARROW = re.compile(r"<?[-=]+>?|[←→↔]")


def read(path: str, options: LoadOptions) -> EdgeList | EdgeRuns:
    """The list's edges as they stand: directed, each line one edge.

    The number of vertices is the largest number in the list plus one, or what a comment "# Nodes: N" says if that is more.
    Names before the first edge are a CSV heading. With ``options.named`` vertices may be called anything, and are numbered in
    the order of what they are called.
    """
    with TextReader(path) as reader:
        head = _head(reader, options.named)
        if head.bipartite and options.named:
            raise ConfigError(f"{path}: the two sides of a bipartite list of KONECT are numbered apart; leave out ids='any'")
        rules = None if head.bipartite or options.named else options.rules
        parser = _core.EdgeParser(
            path,
            comments=_COMMENTS.decode(),
            separator=head.separator,
            weights="any" if head.columns - head.timed > 2 else "none",
            first_line=reader.line if head.first else reader.line + 1,
            rules=rules,
            timed=head.timed,
            named=options.named,
        )
        reader.parse(parser, head.first)
    if parser.edges == 0 and (head.nodes is None or options.named):
        unless = ", which reads like a heading" if options.named else ", a heading unless ids='any' is said"
        passed = f", only {head.heading!r}{unless}" if head.heading else ""
        raise FormatError(f"{path}: the file holds no edge and no comment '# Nodes: N'{passed}; there is no graph in it")
    if options.named:
        count, names = parser.rank_names()
        called = labels.of_integers(names) if isinstance(names, np.ndarray) else labels.of_texts(path, names, count)
        return EdgeList(*take(parser), count, labels=called)
    if head.bipartite:
        return _both_sides(path, *take(parser), head.left)
    _require_no_lists(path, head, parser)
    vertices = max(parser.largest + 1, head.nodes or 0)
    where = f" (the largest number is on line {parser.largest_line})" if parser.largest + 1 == vertices else ""
    check_sparsity(path, vertices, parser.edges, where, "renumber the vertices from 0 without gaps, as ids='any' does")
    return parsed(parser, vertices, rules)


@dataclass
class _Head:
    """What stands before the second edge. ``first``: the first one's line; ``timed``: the last column has times; ``left``:
    vertices of a bipartite list's first side, if it says how many."""

    first: bytes = b""
    separator: str = ""
    columns: int = 2
    timed: bool = False
    heading: str = ""
    nodes: int | None = None
    bipartite: bool = False
    left: int = 0


def _head(reader: TextReader, named: bool) -> _Head:
    head, comments, heading = _Head(), bytearray(), list[str]()

    def see(text: bytes) -> None:
        comments.extend(text[: max(HEAD_BYTES - len(comments), 0)])
        for found in _NODES.finditer(text):
            head.nodes = int(found[1])

    line = reader.readline_behind(_PASSED, see)
    ahead = _ahead(reader) if named else []
    fields = _split(line, _separator([line, *ahead]))
    if _is_heading(fields, ahead if named else None):
        head.heading, heading = _text(line)[:60], fields
        _check_order(reader, heading)
        line = reader.readline_behind(_PASSED, see)
        ahead = ahead[1:]
    head.first = line
    konect = _KONECT.match(comments.lstrip())
    if konect:
        head.bipartite = konect[1] == b"bip"
        sides = _SIDES.search(comments)
        head.left = int(sides[1]) if sides else 0
    if line:
        separator = _separator([line, *ahead])
        head.separator = separator if named else separator.strip()  # between numbers a tab is a blank
        fields = _split(line, head.separator)
        head.columns = len(fields)
        _check_fields(reader, line, fields)
        if _ends(heading) and len(fields) > len(heading):
            raise reader.fail(
                f"{len(fields)} columns, {_repr_of(fields)}, below a heading of {len(heading)}, {_repr_of(heading)}; cut off "
                f"what "
                "it does not name, as numbers of rows (in R: row.names = FALSE), or name all columns"
            )
        head.timed = _check_columns(reader, fields, heading if len(heading) == len(fields) else [], konect is not None)
    return head


def _ahead(reader: TextReader) -> list[bytes]:
    """The next lines that are whole and no comments, some of them."""
    lines = reader.peek().split(b"\n")
    whole = lines[:-1] if len(lines) > 1 else lines
    return [line for line in whole[:HEAD_LINES] if (text := _text(line)) and text[0] not in "#%"]


def _separator(lines: list[bytes]) -> str:
    """What stands between the columns, if it is not blanks: what gives all lines as many, or else what the first line has."""
    for mark in _SEPARATORS:
        counts = {len(_split(line, mark)) for line in lines}
        if len(lines) > 1 and len(counts) == 1 and 2 <= counts.pop() <= 4:
            return mark
    for mark in _SEPARATORS:
        fields = _split(lines[0], mark)
        if len(fields) > 1 and not (mark == "\t" and any(field.strip(",;|") != field for field in fields)):
            return mark
    return ""


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").strip(_BLANKS)


def _split(line: bytes, separator: str) -> list[str]:
    text = _text(line)
    hidden = _QUOTED.sub(lambda quoted: re.sub(r"[ \t\r,;|]", "\0", quoted[0]), text)
    ends = [0, *(at for found in re.finditer(re.escape(separator) or r"[ \t\r]+", hidden) for at in found.span()), len(text)]
    return [text[begin:end].strip(_BLANKS) for begin, end in zip(ends[::2], ends[1::2], strict=True)]


def _is_heading(fields: list[str], ahead: list[bytes] | None) -> bool:
    """Whether these are names of columns. ``ahead``: lines behind them, where vertices have names as well."""
    words = [field.strip('"') for field in fields]
    if len(words) < 2 or not all(word[:1].isalpha() or word[:1] == "_" for word in words):
        return False
    if ahead is None or len(words) > 2:  # a weight is no word
        return not any(_NO_WEIGHT.fullmatch(word) for word in words[2:])
    others = [_split(line, _separator(ahead)) for line in ahead]
    if others and all(_WHOLE.fullmatch(end) for end in others[0][:2]):
        return True
    taken = any(field in fields for other in others for field in other[:2]) or any(_ends(other) for other in others)
    return bool(_ends(fields)) and not taken


def _plain(word: str) -> str:
    return re.sub(r"[\W_]", "", word.lower())


def _ends(fields: list[str]) -> list[tuple[int, int]]:
    """Columns that words like source and target name together, in pairs: of the same, as in from_city and to_city, or of
    what is often in headings."""
    words = [_plain(field) for field in fields]
    found = [(_SOURCE.fullmatch(word), _TARGET.fullmatch(word)) for word in words]
    return [
        (i, j)
        for i, (source, _) in enumerate(found)
        for j, (_, target) in enumerate(found)
        if source and target and i != j
        if source[1] == target[1] or (_KNOWN.fullmatch(source[1]) and _KNOWN.fullmatch(target[1]))
    ]


def _check_order(reader: TextReader, heading: list[str]) -> None:
    """Refuses a heading that says that the first two columns are not those of sources and targets."""
    ends = _ends(heading)
    wrong = [*ends[0]] if ends and (0, 1) not in ends else []
    wrong = wrong or [i for i, field in enumerate(heading[:2]) if _NO_END.fullmatch(_plain(field))]
    if wrong:
        called = " and ".join(f"column {i + 1} {_repr_of(heading[i : i + 1])}" for i in wrong)
        raise reader.fail(
            f"the heading calls {called}, but the first column must be the source and the second the target: write them so"
        )


def _check_fields(reader: TextReader, line: bytes, fields: list[str]) -> None:
    """Refuses edges that are written with more than a separator between their ends."""
    if len(fields) < 2:
        return
    first, last = fields[0], fields[-1] or fields[-2]  # perhaps with a comma behind it
    opens, closes = (sum(map(text.count, "([")) - sum(map(text.count, ")]")) for text in (first, last))
    if first[:1] in ("(", "[") and last[-1:] in (")", "]") and opens > 0 > closes:
        what = f"{_repr_of([_text(line)])} is a tuple or a list in brackets"
    elif len(fields) > 2 and _ARROW.fullmatch(fields[1]):
        what = (
            f"{_repr_of(fields[1:2])} stands between the ends of an edge (or put it between quotation marks, if it is a name)"
        )
    else:
        return
    raise reader.fail(f"{what}; write the ends with a blank or a comma between them, and nothing else")


def _repr_of(fields: list[str]) -> str:
    return ", ".join(f'"{field[:20]}"' for field in fields[:6])


def _check_columns(reader: TextReader, fields: list[str], heading: list[str], konect: bool) -> bool:
    """Whether the last column has times, which a graph does not hold. Refuses a number of columns that no edge list has, and
    says what the list may be."""
    count, shown = len(fields), _repr_of(heading or fields)
    if "{" in "".join(fields[2:]):
        raise reader.fail(
            f"{count} columns: {shown}; networkx wrote what it keeps of an edge behind it: write the list with data=False or "
            "data=['weight']"
        )
    if count == 4 and konect:
        warn_once(
            f"times in {reader.path}",
            f"{reader.path}: of the four columns the third is read as weights, and the fourth, times, is left out",
        )
        return True
    if count in (3, 4) and heading and _TIME.fullmatch(_plain(heading[-1])):
        warn_once(
            f"times in {reader.path}",
            f"{reader.path}: the last column, {_repr_of(heading[-1:])}, has times, which a graph does not hold, and is left "
            f"out",
        )
        return True
    if count == 1:
        raise reader.fail(
            f"1 column, {shown}; an edge list has two or three: source, target, and a weight, with blanks, commas, semicolons "
            "or bars between them"
        )
    if count > 3:
        raise reader.fail(
            f"{count} columns; an edge list has two or three: source, target, and a weight. These are {shown}: cut off what is "
            "no weight (a time is known in lists of KONECT, which begin with % sym, % asym or % bip, and in a last column that "
            "is called so); a vertex with its neighbours on a line is read by networkx.read_adjlist and hl.from_networkx"
        )
    return False


def _require_no_lists(path: str, head: _Head, parser: _core.EdgeParser) -> None:
    """Refuses what is a METIS graph by its first line, which promises as many vertices as lines follow, all of one width. Short
    texts are told by their content (:mod:`.metis`)."""
    if parser.edges < _SHORT:
        return
    vertices, edges = (int(field.strip('"')) for field in _split(head.first, head.separator)[:2])
    as_promised = vertices + 1 == parser.edges and 2 * edges in (2 * vertices, head.columns * vertices)
    if as_promised and parser.largest == max(vertices, edges):
        raise FormatError(
            f"{path}: the first line, {vertices} vertices and {edges} edges, is that of a METIS graph, whose lines list the "
            "neighbours of a vertex; say format='metis'"
        )


def _both_sides(path: str, sources: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor | None, left: int) -> EdgeList:
    """Edges between two sides that are each numbered from 1: vertex v of the second side becomes ``left + v``."""
    if not sources.numel():
        raise FormatError(f"{path}: the file holds no edge; there is no graph in it")
    for side in (sources, targets):
        if not int(side.min()):
            raise FormatError(
                f"{path}: edge {int(side.argmin())} has the vertex 0, but KONECT numbers both sides of a bipartite list "
                "('% bip') from 1; remove that line if they are of one kind"
            )
    left = max(left, int(sources.max()))
    vertices = left + int(targets.max()) + 1
    check_sparsity(path, vertices, len(sources))
    if vertices > torch.iinfo(torch.int32).max:
        sources, targets = sources.long(), targets.long()
    return EdgeList(sources, targets + left, weights, vertices)


def write(graph: Graph, path: str) -> None:
    """Writes every stored edge; commas in a ``.csv``, tabs in a ``.tsv``, else spaces."""
    name = path.removesuffix(".gz")
    separator = "," if name.endswith(".csv") else "\t" if name.endswith(".tsv") else " "
    head = f"# Nodes: {graph.num_vertices} Edges: {graph.num_edges}\n"
    edges = edge_text(graph, separator=separator, weights=lambda part: plain_weights(path, part))
    write_text(path, head, edges)
