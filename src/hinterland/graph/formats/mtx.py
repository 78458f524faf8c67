"""Matrix Market, coordinate form: ``A[i, j]`` is an edge from vertex i - 1 to vertex j - 1.

Source: Boisvert, Pozo, Remington, "The Matrix Market Exchange Formats: Initial Design", NISTIR 5935 (1996).
"""

from __future__ import annotations

import torch

from ...runtime.errors import FormatError, GraphError
from ..graph import Graph
from .content import EdgeList, EdgeRuns, LoadOptions, check_counts, plain_weights, survey
from .text import TextReader, edge_text, integers, parsed, passing, write_text

_PASSED = passing(rb"%[^\n]*+")
_BANNER = b"%%MatrixMarket"
_FIELDS = {"pattern": "none", "integer": "integer", "unsigned-integer": "integer", "real": "real", "double": "real"}
_SYMMETRIES = ("general", "symmetric", "skew-symmetric")


def matches(head: bytes) -> bool:
    """Whether a file that begins with ``head`` is Matrix Market."""
    return head[: len(_BANNER)].lower() == _BANNER.lower()


def read(path: str, options: LoadOptions) -> EdgeList | EdgeRuns:
    """The edges of a square coordinate matrix; a symmetric one is undirected."""
    with TextReader(path) as reader:
        field, symmetry = _banner(reader)
        line = reader.readline_behind(_PASSED)
        if not line:
            raise FormatError(f"{path}: truncated: the file ends before its size line (rows, columns, entries)")
        sizes = integers(reader, line.split(), "the size line")
        if len(sizes) != 3:
            raise reader.fail(f"the size line holds {len(sizes)} numbers; a coordinate matrix has rows, columns, entries")
        rows, columns, entries = sizes
        if rows != columns:
            raise reader.fail(f"the matrix has {rows} rows and {columns} columns; only a square one is a graph")
        check_counts(path, rows, entries)
        rules = {"general": options.rules, "symmetric": options.mirrored}.get(symmetry)
        shortest = 4 if field == "none" else 6  # "1 1\n", "1 1 1\n"
        parser = reader.parse_promised(rows, entries, "entries", shortest, comments="%", weights=field, rules=rules)
    content = parsed(parser, rows, rules, symmetry == "symmetric")
    if symmetry == "skew-symmetric":
        assert isinstance(content, EdgeList)
        return _skew(path, content.sources, content.targets, content.weights, rows)
    return content


def _banner(reader: TextReader) -> tuple[str, str]:
    """How weights are stored, and the symmetry, from the first line."""
    words = reader.readline().decode("ascii", "replace").lower().split()
    if len(words) != 5 or words[:2] != [_BANNER.decode().lower(), "matrix"]:
        raise reader.fail(
            "the banner must read: %%MatrixMarket matrix coordinate FIELD SYMMETRY; restore it, or say format='edges' for an "
            "edge list"
        )
    layout, field, symmetry = words[2:]
    if layout == "array":
        raise reader.fail("a dense matrix (array) is no graph; store it in coordinate form")
    if field == "complex" or symmetry == "hermitian":
        raise reader.fail(f"a {field} {symmetry} matrix has complex entries, which no weight can be; store real ones")
    if layout != "coordinate" or field not in _FIELDS or symmetry not in _SYMMETRIES:
        raise reader.fail(
            f"the banner says {layout} {field} {symmetry}; known are coordinate, "
            f"{', '.join(_FIELDS)}, and {', '.join(_SYMMETRIES)}"
        )
    if field == "pattern" and symmetry == "skew-symmetric":
        raise reader.fail("a pattern matrix cannot be skew-symmetric: it has no values to negate")
    return _FIELDS[field], symmetry


def _skew(path: str, sources: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor | None, n: int) -> EdgeList:
    """Both halves of a skew-symmetric matrix, A[j, i] = -A[i, j]: directed, since the two weights differ."""
    assert weights is not None
    loops = sources == targets
    if bool(loops.any()):
        row = int(sources[loops][0]) + 1
        raise FormatError(
            f"{path}: entry ({row}, {row}) lies on the diagonal, which is zero in a skew-symmetric matrix; remove it"
        )
    if not weights.is_floating_point() and bool((weights == torch.iinfo(weights.dtype).min).any()):
        if weights.dtype == torch.int64:  # the least integer has no opposite
            at = int(weights.argmin())
            row, column = int(sources[at]) + 1, int(targets[at]) + 1
            raise FormatError(
                f"{path}: entry ({row}, {column}) is {int(weights[at])}, but its mirror would be 2^63, which is no 64-bit "
                "integer; declare the field real"
            )
        weights = weights.long()
    return EdgeList(torch.cat([sources, targets]), torch.cat([targets, sources]), torch.cat([weights, -weights]), n)


def write(graph: Graph, path: str) -> None:
    """Writes the adjacency matrix; of an undirected graph the lower triangle, as a symmetric matrix."""
    weights = graph.array("weights", "cpu")
    field = "pattern" if weights is None else "real" if weights.is_floating_point() else "integer"
    entries = graph.num_edges
    if not graph.directed:
        loops, lower, _ = survey(graph)
        if 2 * lower - loops != entries:
            raise GraphError(
                f"{path}: the graph says undirected, but {lower - loops} edges lead down and {entries - lower} up; "
                "symmetrize it first"
            )
        entries = lower
    head = (
        f"%%MatrixMarket matrix coordinate {field} {'general' if graph.directed else 'symmetric'}\n"
        f"{graph.num_vertices} {graph.num_vertices} {entries}\n"
    )
    edges = edge_text(graph, base=1, lower_only=not graph.directed, weights=lambda part: plain_weights(path, part))
    write_text(path, head, edges)
