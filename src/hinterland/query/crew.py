"""Threads that share out what is to be decoded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait

from .. import _core

Task = Callable[[], None]


class Crew:
    """Threads, which begin when they are first needed and end with this object."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    def do(self, tasks: Iterable[Task]) -> None:
        """All tasks, by this thread and others, each of which takes the next one that is left."""
        tasks = list(tasks)
        left = iter(tasks)

        def work() -> None:
            for task in left:
                task()

        threads = min(_core.num_threads(), len(tasks))
        if threads > 1 and self._threads is None:
            self._threads = ThreadPoolExecutor(_core.num_threads() - 1)
        others = [self._threads.submit(work) for _ in range(threads - 1)] if self._threads is not None else []
        try:
            work()
        finally:
            deque(left, 0)  # after an error nothing is left to do
            wait(others)
        for other in others:
            other.result()
