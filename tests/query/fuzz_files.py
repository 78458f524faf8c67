"""Fuzzes queries to damaged files: ``python tests/query/fuzz_files.py -max_total_time=60`` (any libFuzzer option).

Each ends in an answer, or in an exception of the library's, in bounded time and memory. Half of the inputs are bytes that
libFuzzer evolves, by the Python code they reach, out of small Arrow and Parquet files; the other half seed changes of such
files where their metadata lie, and of parts of them that are put in other places.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import resource
import sys
import tempfile
from pathlib import Path

import atheris

os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # mimalloc keeps what a file claims to hold: see the limit in main

with atheris.instrument_imports(include=["hinterland.query"]):
    import hinterland.query

import hinterland as hl
from hinterland.runtime.errors import HinterlandError

sys.path.insert(0, str(Path(__file__).parent))
import tables

_SPARE = 2 << 30  # address space beyond what the imports took: thread stacks, buffers
_WAYS = [
    {},
    {"compression": "none"},
    {"compression": "none", "use_dictionary": False},
    {"compression": "none", "data_page_version": "2.0", "write_page_index": True},
    {"compression": "none", "data_page_version": "2.0", "use_dictionary": False, "store_decimal_as_integer": True},
    {"compression": "zstd", "write_page_index": True},
    {"compression": "gzip", "data_page_version": "2.0"},
    {"compression": "lz4", "write_page_index": True, "use_dictionary": False},
]
_FILTERS = ["text == 'cash' and int64 > 1", "plain >= 'card' or half < 1", "money > 0.5", "day >= '2019-01-15'", "flag is null"]
_FILTERS += ["uint8 in (1, 5)", "moment < '2019-01-01 12:00' and not flag", "float32 <= float64", "int32 is not null"]
_ASKED = ["sum(float64), sum(money), min(day)", "count(), max(uint32), mean(int16)", "sum(half), count(plain), max(moment)"]
_KEYS = ["text", "plain", "flag", "int8", "money"]


def files(folder: Path) -> list[bytes]:
    """Small files of all kinds."""
    table, made = tables.made(150), []
    for number, way in enumerate(_WAYS):
        path = folder / str(number)
        tables.pyarrow.parquet.write_table(table, path, row_group_size=90, max_rows_per_page=40, write_batch_size=10, **way)
        made.append(path.read_bytes())
    for kind, rows in (("arrow", 70), ("lz4", 150)):
        made.append(tables.write(table, folder / kind, kind, rows).read_bytes())
    return made


def changed(data: bytes, rng: random.Random) -> bytes:
    """A file with a few bytes, numbers or parts that are others."""
    found, footer = bytearray(data), min(len(data), 6000)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.choice(
            (
                rng.randrange(len(found)),
                len(found) - rng.randrange(1, min(footer, len(found))),
                rng.randrange(min(len(found), 400)),
            )
        )
        what = rng.randrange(7)
        if what == 0:
            found[at] = rng.randrange(256)
        elif what == 1:
            found[at] ^= 1 << rng.randrange(8)
        elif what == 2:  # a varint, as Thrift's, or the lengths of runs
            found[at : at + rng.choice((1, 5))] = rng.choice(
                (b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\x00", b"\x80\x80\x04")
            )
        elif what == 3:  # of a fixed width
            found[at : at + 4] = rng.choice((2**31 - 1, 2**32 - 1, 0, 2**30, len(found))).to_bytes(4, "little")
        elif what == 4:
            begin = rng.randrange(len(found))
            found[at : at + rng.randrange(64)] = found[begin : begin + rng.randrange(64)]
        elif what == 5 and len(found) > 100:
            del found[at : at + rng.randrange(1, 9)]
        elif what == 6 and rng.random() < 0.2 and len(found) > 100:
            del found[max(at, 100) :]
    return bytes(found)


def ask(path: Path, rng: random.Random) -> None:
    """A query of some kind."""
    asked = hl.query(path)
    if rng.random() < 0.8:
        asked = asked.filter(rng.choice(_FILTERS))
    if rng.random() < 0.3:
        asked = asked.group_by(rng.choice(_KEYS))
    with contextlib.suppress(HinterlandError):
        asked.agg(rng.choice(_ASKED))


def main() -> None:
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as name:
        folder, corpus = Path(name), Path(name) / "corpus"
        corpus.mkdir()
        os.environ["HINTERLAND_CACHE_DIR"] = str(folder / "cache")
        made = files(folder)
        for number, data in enumerate(made):
            (corpus / str(number)).write_bytes(b"\0" + data)
        path = folder / "table"

        def once(data: bytes) -> None:
            rng = random.Random(data)
            path.write_bytes(data[1:] if data[:1] == b"\0" else changed(rng.choice(made), rng))
            ask(path, rng)

        # Addresses that are reserved and not given back come out of the limit, until a thread finds no memory for itself and
        # the process is aborted: hence Arrow's pool above, and arenas of malloc, 64 MiB each.
        ctypes.CDLL(None).mallopt(-8, 2)  # M_ARENA_MAX
        for number in range(20):
            once(bytes([number]))  # starts the thread pools before the limit is set
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + _SPARE, used + _SPARE))
        arguments = [sys.argv[0], "-timeout=20", "-max_len=65536", "-rss_limit_mb=4096", *sys.argv[1:], str(corpus)]
        atheris.Setup(arguments, once)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
