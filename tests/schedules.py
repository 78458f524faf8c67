"""Runs threads of Python in every order of their steps, up to so many preemptions (Musuvathi and Qadeer, "Iterative context
bounding for systematic testing of multithreaded programs", PLDI 2007): a model checker for code as it is.

A step ends where a lock of the code under test is taken or given back, or its condition is waited for. One thread runs at a
time, all else is real, and an order is tried by running everything anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

Work = Callable[[], None]
_running: Schedule | None = None


class Deadlock(AssertionError):
    """Threads wait for each other."""


class Schedule:
    """One order: ``chosen`` says which of the threads that could go on does so, choice by choice; 0, and behind its end, is the
    one that ran before, or else the first."""

    def __init__(self, works: Sequence[Work], chosen: Sequence[int]) -> None:
        self.chosen = list(chosen)
        self.choices: list[tuple[int, bool]] = []  # how many threads could go on, and whether the one before was among them
        self.errors: list[BaseException] = []
        self._back = threading.Semaphore(0)
        self._go = [threading.Semaphore(0) for _ in works]
        self._ready: list[Callable[[], bool] | None] = [lambda: True for _ in works]  # None: it has ended
        self._threads = [threading.Thread(target=self._main, args=(i, work), daemon=True) for i, work in enumerate(works)]
        self._numbers: dict[int, int] = {}

    def run(self) -> None:
        """Until all have ended.

        Raises:
            Deadlock: some never do.
        """
        global _running
        assert _running is None
        _running = self
        try:
            for thread in self._threads:
                thread.start()
            before = -1
            while any(self._ready):
                able = [i for i, ready in enumerate(self._ready) if ready is not None and ready()]
                if not able:
                    raise Deadlock([i for i, ready in enumerate(self._ready) if ready])
                able.sort(key=lambda i: i != before)
                if len(self.choices) == len(self.chosen):
                    self.chosen.append(0)
                before, preempts = able[self.chosen[len(self.choices)]], able[0] == before
                self.choices.append((len(able), preempts))
                self._go[before].release()
                self._back.acquire()
        finally:
            _running = None
        if self.errors:
            raise self.errors[0]

    def step(self, ready: Callable[[], bool] = lambda: True) -> None:
        """Others may go on before what follows, which waits until it is ``ready``. A thread that is none of them goes on."""
        number = self._numbers.get(threading.get_ident())
        if number is None:
            assert ready(), "who is no thread of a schedule would wait for one"
            return
        self._ready[number] = ready
        self._back.release()
        self._go[number].acquire()

    def _main(self, number: int, work: Work) -> None:
        self._numbers[threading.get_ident()] = number
        self._go[number].acquire()
        try:
            work()
        except BaseException as error:
            self.errors.append(error)
        self._ready[number] = None
        self._back.release()


def _step(ready: Callable[[], bool] = lambda: True) -> None:
    if _running is None:
        assert ready(), "nobody is there to wait for"
    else:
        _running.step(ready)


class Lock:
    """In the place of ``threading.Lock``."""

    def __init__(self) -> None:
        self._owner, self._count = 0, 0

    def acquire(self) -> bool:
        _step(lambda: self._count == 0)
        self._owner, self._count = threading.get_ident(), self._count + 1
        return True

    def release(self) -> None:
        assert self._owner == threading.get_ident()
        self._count -= 1
        if self._count == 0:
            self._owner = 0
            _step()

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class RLock(Lock):
    """In the place of ``threading.RLock``."""

    def acquire(self) -> bool:
        if self._owner != threading.get_ident():
            return super().acquire()
        self._count += 1
        return True


class Condition(Lock):
    """In the place of ``threading.Condition``."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[object] = []

    def wait_for(self, predicate: Callable[[], bool]) -> bool:
        while not predicate():
            me: object = object()
            self._waiting.append(me)
            self._owner, self._count = 0, 0
            _step(lambda: self._count == 0 and me not in self._waiting)  # noqa: B023
            self._owner, self._count = threading.get_ident(), 1
        return True

    def notify_all(self) -> None:
        assert self._owner == threading.get_ident()
        self._waiting.clear()


# What code under test gets as ``threading``.
THREADING: Any = SimpleNamespace(Lock=Lock, RLock=RLock, Condition=Condition)


def explore(begin: Callable[[], tuple[Sequence[Work], Work]], preemptions: int) -> int:
    """Runs ``begin()``'s threads in every order with at most so many preemptions, and after each what it gave beside them;
    how many orders there were."""
    tried, open_orders = 0, [[]]
    while open_orders:
        first = open_orders.pop()
        works, check = begin()
        schedule = Schedule(works, first)
        try:
            schedule.run()
            check()
        except BaseException as error:
            error.add_note(f"order {schedule.chosen}")
            raise
        tried += 1
        used = 0
        for at, (count, preempts) in enumerate(schedule.choices):
            if at >= len(first) and used + preempts <= preemptions:
                open_orders += [[*schedule.chosen[:at], other] for other in range(1, count)]
            used += preempts and schedule.chosen[at] != 0
    return tried
