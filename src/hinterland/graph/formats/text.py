"""Text graphs, streamed: one block is read (and decompressed) while the one before it is parsed by all threads."""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any

import numpy as np
import torch

from ... import _core
from ...memory import report
from ...memory.limits import require_host_memory
from ...runtime.errors import FormatError
from ...runtime.files import opening, replacing
from ...runtime.progress import progress
from ...runtime.thresholds import LEAST_TEXT, LONG_CHUNK, TEXT_BYTES, TEXT_SHARE
from ..arrays import rows_of
from ..graph import Graph
from .content import EdgeList, EdgeRuns, check_sparsity, csr
from .files import GZIP_MAGIC, open_text, read_head, size_of

LONGEST_LINE = 1 << 20
_SHORTEST_LINE = len(b"1 1\n")


def passing(comment: bytes) -> re.Pattern[bytes]:
    """Whole lines, as many as follow each other, that are blank or of the expression ``comment``."""
    return re.compile(rb"(?:\s*+" + comment + rb"\n)*+(?:\s*\n)?")


class TextReader:
    """A text file, plain or gzip: header lines one by one, then the edges in blocks.

    Memory: two blocks, which are small beside the text, the parsed edges (see ``native/graph/text_reader.hpp``), and nothing
    that grows with what a header claims.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.line = 0
        self.compressed = read_head(path, 2) == GZIP_MAGIC
        self.bytes = size_of(path)
        self._block = min(TEXT_BYTES, max(self.bytes // TEXT_SHARE, LEAST_TEXT))
        self._text, self._done = open_text(path)

    def __enter__(self) -> TextReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._text.close()

    def fail(self, message: str) -> FormatError:
        """An error about the line that ``readline`` returned last."""
        return FormatError(f"{self.path}: line {self.line}: {message}")

    def readline(self) -> bytes:
        """The next line with its line end; empty at the end of the file."""
        with opening(self.path, "read"):
            line = self._text.readline(LONGEST_LINE)
        self.line += bool(line)
        if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            raise self.fail(f"longer than {LONGEST_LINE} bytes; this is no list of edges")
        return line.removeprefix(b"\xef\xbb\xbf") if self.line == 1 else line

    def peek(self) -> bytes:
        """Some of what comes next, which stays there."""
        with opening(self.path, "read"):
            return self._text.peek()

    def readlines(self, nbytes: int) -> list[bytes]:
        """The next whole lines with their ends, about ``nbytes`` of them; none at the end of the file."""
        with opening(self.path, "read"):
            return self._text.readlines(nbytes)

    def readline_behind(self, passed: re.Pattern[bytes], see: Callable[[bytes], object] = len) -> bytes:
        """The next line that ``passed``, made by ``passing``, does not match; ``see`` gets the text of those before it."""
        while True:
            with opening(self.path, "read"):
                while (matched := passed.match(self._text.peek())) and matched[0]:
                    self.line += matched[0].count(b"\n")
                    see(self._text.read(matched.end()))
            line = self.readline()  # perhaps behind a byte order mark, across two buffers, or without an end
            if not line or not passed.fullmatch(line if line.endswith(b"\n") else line + b"\n"):
                return line
            see(line)

    def parse_promised(self, vertices: int, count: int, what: str, shortest: int, **options: Any) -> _core.EdgeParser:
        """The edges that follow a header which promises so many, each on a line of at least ``shortest`` bytes."""
        least = count * shortest - 1  # the last line may lack its end
        if not self.compressed and least > self.bytes:
            raise self.fail(
                f"the header promises {count} {what}, at least {least} bytes, but the file holds {self.bytes}; it is truncated "
                "or the header is wrong"
            )
        parser = _core.EdgeParser(self.path, base=1, vertices=vertices, edges=count, first_line=self.line + 1, **options)
        self.parse(parser)
        if parser.edges < count:
            raise FormatError(
                f"{self.path}: truncated: the header promises {count} {what}, but the file ends after {parser.edges}, at line "
                f"{parser.line}"
            )
        check_sparsity(self.path, vertices, count, " in the header")
        return parser

    def parse(self, parser: Any, first: bytes = b"") -> None:
        """Feeds ``first`` (a line already read, or nothing) and the rest of the file to a ``_core.EdgeParser``."""
        buffers = [np.empty(LONGEST_LINE + self._block, np.uint8) for _ in range(2)]
        rest = np.frombuffer(first, np.uint8)
        with progress(f"reading {self.path}", self.bytes) as step, ThreadPoolExecutor(1) as pool:
            coming = pool.submit(self._fill, buffers[0])
            turn, seen, at_end = 0, 0, False
            while not at_end:
                count = coming.result()
                at_end = count < self._block
                now = self._done()
                step(now - seen)
                seen = now
                buffer = buffers[turn]
                turn = 1 - turn
                # What the last block left over (no more than a line) goes in front of the new one.
                start = LONGEST_LINE - len(rest)
                buffer[start:LONGEST_LINE] = rest
                if not at_end:
                    coming = pool.submit(self._fill, buffers[turn])
                stop = LONGEST_LINE + count
                held = report().nbytes + parser.nbytes
                require_host_memory(count // _SHORTEST_LINE * parser.bytes_per_edge, held)
                start += parser.feed(buffer[start:].ctypes.data, stop - start, at_end)
                if stop - start > LONGEST_LINE:
                    raise FormatError(
                        f"{self.path}: line {parser.line}: longer than {LONGEST_LINE} bytes; this is no list of edges"
                    )
                rest = buffer[start:stop].copy()

    def _fill(self, buffer: np.ndarray) -> int:
        view = memoryview(buffer.data)[LONGEST_LINE:]
        done = 0
        with opening(self.path, "read"):
            while done < self._block and (got := self._text.readinto(view[done:])):
                done += got
        return done


def take(parser: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """The edges of a parser without rules as tensors: sources, targets, weights."""
    sources, targets, weights = parser.take()
    return torch.from_numpy(sources), torch.from_numpy(targets), None if weights is None else torch.from_numpy(weights)


def parsed(parser: Any, vertices: int, rules: _core.EdgeRules | None, symmetric: bool = False) -> EdgeList | EdgeRuns:
    """What a parser made by ``rules`` has read; ``symmetric``: each edge stands for both directions."""
    if rules is not None:
        return EdgeRuns(parser, vertices, not symmetric)
    return EdgeList(*take(parser), vertices, symmetric, not symmetric)


def integers(reader: TextReader, fields: list[bytes], what: str) -> list[int]:
    """Header fields as counts."""
    try:
        numbers = [int(field) for field in fields if field.isdigit() and len(field) <= 18]
    except ValueError:
        numbers = []
    if len(numbers) != len(fields):
        text = b" ".join(fields)[:60].decode("ascii", "replace")
        raise reader.fail(f"{what} is {text!r}; it must hold whole numbers below 10^18")
    return numbers


def edge_text(
    graph: Graph,
    *,
    start: str = "",
    separator: str = " ",
    base: int = 0,
    lower_only: bool = False,
    weights: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> Iterator[bytes]:
    """The graph's edges as text, one a line, in pieces. ``weights`` converts a run of weights before it is written."""
    indptr, indices = csr(graph)
    held = graph.array("weights", "cpu")
    convert = weights or (lambda part: part)
    with progress("writing edges", graph.num_edges, "edges") as step:
        for begin in range(0, graph.num_edges, LONG_CHUNK):
            end = min(begin + LONG_CHUNK, graph.num_edges)
            integers = reals = 0
            if held is not None:
                part = convert(held[begin:end])
                part = part.to(torch.float64 if part.is_floating_point() else torch.int64).contiguous()
                integers, reals = (0, part.data_ptr()) if part.is_floating_point() else (part.data_ptr(), 0)
            part_of = (*rows_of(indptr, indices), integers, reals, begin, end)
            yield from _core.format_edges(*part_of, start=start, separator=separator, base=base, lower_only=lower_only)
            step(end - begin)


def write_text(path: str, head: str, pieces: Iterable[bytes]) -> None:
    """Writes a text file, whole or not at all; gzip if the name ends in ``.gz``."""
    deflate = zlib.compressobj(3, zlib.DEFLATED, 31) if path.endswith(".gz") else None
    with replacing(path) as output:
        for piece in itertools.chain([head.encode()], pieces):
            output.write(deflate.compress(piece) if deflate else piece)
        if deflate:
            output.write(deflate.flush())
