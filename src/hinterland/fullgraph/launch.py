"""Starts one process for each GPU, or several on the CPU, which torch.distributed connects."""

from __future__ import annotations

import atexit
import datetime
import multiprocessing
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.multiprocessing import get_context

from ..memory.ranks import naming_lost_ranks
from ..runtime import arguments, devices
from ..runtime.errors import ConfigError, HinterlandError, RankLost

_TIMEOUT = 30.0  # seconds: who does not answer for so long is lost
_GRACE = 5.0  # seconds: for who died to be found, once others have missed it; and for processes to end
# Nothing here reads through NVLink multicast, which fails or hangs where the fabric is not the user's to set up.
_QUIET = {"TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NCCL_NVLS_ENABLE": "0"}


def launch(fn: Callable[..., Any], *args: Any, gpus: int | None = None, cpus: int | None = None) -> None:
    """Calls ``fn(rank, *args)`` in processes of its own, connected by torch.distributed, and waits for all of them.

    On GPUs NCCL connects them, and process ``rank`` has GPU ``rank`` as its current one; on the CPU gloo does. ``RANK``,
    ``LOCAL_RANK``, ``WORLD_SIZE`` and ``LOCAL_WORLD_SIZE`` are set as by torchrun, which may be used instead. A rank that dies,
    or gives no answer for 30 s, ends the others; Ctrl-C ends all.

    Args:
        fn: a function of a module, which the processes import: with ``if __name__ == "__main__":`` around the call of launch.
        args: what can be pickled. CPU tensors and pinned tables are shared, not copied.
        gpus: how many; without ``cpus`` by default all that there are.
        cpus: instead of GPUs, so many processes on the CPU.

    Raises:
        ConfigError: more GPUs than there are, or none and no ``cpus``; a function that cannot be sent.
        RankLost: a process died, or ``fn`` raised what is no error of this library: with its traceback.
        HinterlandError: what ``fn`` raised, with its rank.
    """
    count, is_gpu = _count(gpus, cpus)
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise ConfigError('launch is called when a process is started; put the call under if __name__ == "__main__":')
    store = dist.TCPStore("127.0.0.1", 0, count, True, wait_for_workers=False)
    ranks: list[_Rank] = []
    try:
        for rank in range(count):
            with _environment(_variables(rank, count, store.port, is_gpu)):
                ranks.append(_started(fn, args, rank, count, store.port, is_gpu))
        _wait(ranks)
    finally:
        _end(ranks)


class _Rank(NamedTuple):
    process: Any
    reports: Connection  # what it died of


class _Report(NamedTuple):
    """What ended a rank: an error of ours, or what to say of any other."""

    rank: int
    error: HinterlandError | None
    text: str

    def raised(self) -> HinterlandError:
        if self.error is None:
            return RankLost(f"rank {self.rank} {self.text}")
        return type(self.error)(f"rank {self.rank}: {self.error}")


def _count(gpus: int | None, cpus: int | None) -> tuple[int, bool]:
    """How many processes, and whether each has a GPU."""
    if gpus is not None and cpus is not None:
        raise ConfigError(f"gpus={arguments.repr_of(gpus)} and cpus={arguments.repr_of(cpus)}: processes have one or the other")
    if cpus is not None:
        return arguments.at_least_one("cpus", cpus, "starts nothing; use 1 or more"), False
    there = len(devices.gpus())
    if gpus is None:
        if not there:
            raise ConfigError("there is no GPU to start a process for; launch(fn, cpus=4) starts four on the CPU")
        return there, True
    gpus = arguments.at_least_one("gpus", gpus, "starts nothing; use 1 or more")
    devices.require_cuda(f"launch with gpus={gpus}")
    if gpus > there:
        raise ConfigError(f"gpus={gpus}, but this machine has {there}; leave it out to use all")
    return gpus, True


def _variables(rank: int, count: int, port: int, is_gpu: bool) -> dict[str, str]:
    """What a process finds in its environment from the start: OpenMP looks when it is loaded."""
    own = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_PORT": port}
    threads = {"OMP_NUM_THREADS": str(max(1, len(os.sched_getaffinity(0)) // count))}
    return {**threads, **os.environ, **_QUIET, "MASTER_ADDR": "127.0.0.1", **{name: str(value) for name, value in own.items()}}


@contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """What processes started now inherit."""
    before = dict(os.environ)
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name in wanted.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def _started(fn: Callable[..., Any], args: tuple[Any, ...], rank: int, count: int, port: int, is_gpu: bool) -> _Rank:
    context = get_context("spawn")
    reports, to = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(fn, args, rank, count, port, is_gpu, to), name=f"rank {rank}")
    try:
        process.start()
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ConfigError(f"fn and its arguments are sent to other processes, which cannot be done: {error}") from error
    finally:
        to.close()
    return _Rank(process, reports)


def _run(
    fn: Callable[..., Any], args: tuple[Any, ...], rank: int, count: int, port: int, is_gpu: bool, reports: Connection
) -> None:
    """The process of a rank."""
    # Should the one that started it be killed. torch's stubs do not know it.
    torch.multiprocessing._prctl_pr_set_pdeathsig(signal.SIGTERM)  # type: ignore[attr-defined]
    try:
        with naming_lost_ranks(_TIMEOUT):
            timeout = datetime.timedelta(seconds=_TIMEOUT)
            if is_gpu:
                torch.cuda.set_device(rank)
            store = dist.TCPStore("127.0.0.1", port, count, False, timeout)
            dist.init_process_group("nccl" if is_gpu else "gloo", store=store, rank=rank, world_size=count, timeout=timeout)
            fn(rank, *args)
            dist.destroy_process_group()
        _leave()
    except KeyboardInterrupt:
        sys.exit(1)  # nothing to say: all are interrupted
    except Exception as error:
        text = f"raised {type(error).__name__}: {error}\n\n{traceback.format_exc()}"
        reports.send((error if isinstance(error, HinterlandError) else None, text))
        sys.exit(1)  # the group stays: to take it apart takes the others


def _leave() -> None:
    """Ends the process of a rank that is through, as forked ones end: without Python's own end. Once torch._dynamo is there,
    gloo's threads outlive their group (torch 2.13); one that lets go of a collective's tensor while Python ends aborts the
    process."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _wait(ranks: list[_Rank]) -> None:
    """Until all have ended.

    Raises:
        HinterlandError: that of the first that failed; of one that only missed another, if no other is found to have failed.
    """
    left = dict(enumerate(ranks))
    missed: _Report | None = None
    until = float("inf")
    while left and time.monotonic() < until:
        heard: dict[Any, int] = {of: rank for rank, one in left.items() for of in (one.reports, one.process.sentinel)}
        for rank in sorted({heard[of] for of in wait(list(heard), None if missed is None else until - time.monotonic())}):
            report = _report(rank, left.pop(rank))
            if report is not None and not isinstance(report.error, RankLost):
                raise report.raised()
            if report is not None and missed is None:
                missed, until = report, time.monotonic() + _GRACE
    if missed is not None:
        raise missed.raised()


def _report(rank: int, one: _Rank) -> _Report | None:
    """Why a process has failed; None if it did what it should."""
    if one.reports.poll():  # before it ends: what it says may be more than a pipe holds
        try:
            return _Report(rank, *one.reports.recv())
        except (EOFError, OSError):
            pass  # there is nothing but its end, or it was killed as it spoke
    one.process.join()
    code = one.process.exitcode
    if code == 0:
        return None
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"
    return _Report(rank, None, f"{how}; what it printed may say why")


def _end(ranks: list[_Rank]) -> None:
    """Ends those that run yet."""
    for one in ranks:
        if one.process.is_alive():
            one.process.terminate()
    until = time.monotonic() + _GRACE
    for one in ranks:
        one.process.join(max(0.0, until - time.monotonic()))
        if one.process.is_alive():
            one.process.kill()
            one.process.join()
        one.reports.close()
