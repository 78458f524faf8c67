"""Work that threads of a test do at once."""

from __future__ import annotations

import threading

THREADS = 8


def by_threads(work, threads=THREADS):
    """What ``work(i)`` gave in each thread, all begun at once; raises what one of them raised."""
    begin, results, errors = threading.Barrier(threads), [None] * threads, []

    def run(i):
        begin.wait()
        try:
            results[i] = work(i)
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=run, args=(i,)) for i in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if errors:
        raise errors[0]
    return results
