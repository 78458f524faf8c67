"""What a cache does with a sequence of pages, by the book: CLOCK and Belady's optimum, in sets or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

M64 = 2**64 - 1


def set_of(page: int, sets: int) -> int:
    """The set that a page may lie in, as include/hinterland/storage/cache.hpp deals them."""
    mixed = (page ^ page >> 31) * 0x9E3779B97F4A7C15 & M64
    mixed = (mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9 & M64
    return (mixed >> 32) * sets >> 32


def in_sets(trace: Sequence[int], sets: int, ways: int, hits_of_set: Callable[[list[int], int], int]) -> int:
    """Hits of all sets, each of which sees its own pages alone."""
    parts: list[list[int]] = [[] for _ in range(sets)]
    for page in trace:
        parts[set_of(page, sets) if sets > 1 else 0].append(page)
    return sum(hits_of_set(part, ways) for part in parts)


def clock(trace: Sequence[int], ways: int) -> int:
    """Slots in a ring; what was used since the hand last came by stays. Pages come as used."""
    slots: list[int | None] = [None] * ways
    used = [False] * ways
    hand = hits = 0
    for page in trace:
        if page in slots:
            hits += 1
            used[slots.index(page)] = True
            continue
        while used[hand]:
            used[hand] = False
            hand = (hand + 1) % ways
        slots[hand], used[hand] = page, True
        hand = (hand + 1) % ways
    return hits


def belady(trace: Sequence[int], ways: int) -> int:
    """What is used last gives way: no other choice has more hits."""
    there: set[int] = set()
    hits = 0
    for at, page in enumerate(trace):
        if page in there:
            hits += 1
            continue
        if len(there) == ways:
            later = trace[at:]
            there.remove(max(there, key=lambda held: later.index(held) if held in later else len(trace)))
        there.add(page)
    return hits


POLICIES = {"clock": clock, "belady": belady}
