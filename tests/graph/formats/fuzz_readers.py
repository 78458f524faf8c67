"""Fuzzes every reader: ``python tests/graph/formats/fuzz_readers.py -max_total_time=60`` (any libFuzzer option).

Only the library's own exceptions may come out, in bounded time and memory. Half of the inputs are bytes that libFuzzer evolves
by the Python code they reach; the other half seed the makers of ``mutations.py``, which know the formats: the native
readers are not instrumented, and no byte flip gets past a checksum.
"""

from __future__ import annotations

import os
import random
import resource
import sys
import tempfile
from pathlib import Path

import atheris

os.environ["HINTERLAND_HOST_MEMORY"] = "256MiB"

with atheris.instrument_imports(include=["hinterland.graph", "hinterland.memory", "hinterland.storage"]):
    import hinterland.graph.formats  # noqa: F401

sys.path.insert(0, str(Path(__file__).parent))
import mutations

_SPARE = 2 << 30  # address space beyond what the imports took: thread stacks, buffers, the 256 MiB


def main() -> None:
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as name:
        folder, corpus = Path(name) / "graph", Path(name) / "corpus"
        folder.mkdir()
        corpus.mkdir()
        for seed in range(200):
            rng = random.Random(seed)
            (corpus / str(seed)).write_bytes(b"\0" + mutations.MAKERS[seed % len(mutations.MAKERS)](rng))

        def once(data: bytes) -> None:
            mutations.empty(folder)
            rng = random.Random(data)
            if data[:1] == b"\0":
                path = folder / rng.choice(("g", "g.mtx", "g.sg", "g.npz", "g.hl"))
                path.write_bytes(data[1:])
            else:
                path = mutations.write(folder, rng)
            mutations.load(path, rng)

        for size in (b"\0", b"\1"):
            once(size)  # starts the thread pools before the limit is set
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + _SPARE, used + _SPARE))
        arguments = [sys.argv[0], "-timeout=20", "-max_len=16384", "-rss_limit_mb=4096", *sys.argv[1:], str(corpus)]
        atheris.Setup(arguments, once)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
