"""Work of several threads whose results are taken in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from .. import _core

Task = Callable[[], Any]


def ahead(tasks: Iterable[Task]) -> Iterator[Any]:
    """What each task returns, in their order; as many as there are threads are at work or wait to be taken."""
    threads = int(_core.num_threads())
    with ThreadPoolExecutor(threads) as pool:
        coming: deque[Future[Any]] = deque()
        try:
            for task in tasks:
                coming.append(pool.submit(task))
                if len(coming) > threads:
                    yield coming.popleft().result()
            while coming:
                yield coming.popleft().result()
        finally:
            for left in coming:
                left.cancel()
