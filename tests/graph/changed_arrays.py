"""Every operation on graphs whose arrays were changed in place after they were checked: none may crash, hang or ask for memory
that its output does not need. What the arrays then give is not specified: a result, or an error of ours.

A program of its own, which the test beside it starts: a crash ends this process and no other. ``python changed_arrays.py cpu 7
reordered`` runs every seventh combination of one form, and prints each; without a form, of all. On the CPU arrays end at pages
that no one may touch.
"""

from __future__ import annotations

import ctypes
import inspect
import mmap
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch

import hinterland as hl
from hinterland import _core, hotness
from hinterland.graph import arrays
from hinterland.graph.algorithms import Algorithm, known
from hinterland.graph.lists import NeighborLists
from hinterland.graph.order import Order
from hinterland.graph.plan import GraphPlan
from hinterland.graph.scan import Scan
from hinterland.memory import allocator
from hinterland.runtime.errors import HinterlandError, OutOfMemory
from hinterland.sampling import (
    Adjacency,
    HeteroSampler,
    NeighborSampler,
    PinSAGESampler,
    negative_edges,
    pinsage_neighbors,
    random_walks,
)
from hinterland.table import UnifiedTensor
from hinterland.training.cache import plan_cache

SECONDS = {"cpu": 30, "cuda": 200}  # for one combination; on a GPU its kernels may have to be compiled
VERTICES = 511  # offsets, and of a directed graph neighbours and weights, fill whole pages
EDGES = 3072
HUB = 7  # its list is cut into several tasks


# --- memory: pages without access before and behind each array --------------------------------------------------------------

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def guarded(nbytes: int, touch: bool = True) -> allocator.Buffer:
    """Memory that ends where a page does, in place of that of the library."""
    inside = -(-max(nbytes, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    base = _libc.mmap(None, inside + 2 * mmap.PAGESIZE, 0, flags, -1, 0)
    if base is None or base == ctypes.c_void_p(-1).value:
        raise OutOfMemory(f"{nbytes} bytes asked for")
    release = ExitStack()
    release.callback(_libc.munmap, base, inside + 2 * mmap.PAGESIZE)
    if _libc.mprotect(base + mmap.PAGESIZE, inside, mmap.PROT_READ | mmap.PROT_WRITE) != 0:
        release.close()
        raise OutOfMemory(f"{nbytes} bytes asked for")
    end = base + mmap.PAGESIZE + inside
    return allocator.Buffer(end - -(-nbytes // 8) * 8, nbytes, "pageable", release)


# --- graphs -----------------------------------------------------------------------------------------------------------------


def drawn(symmetrize: bool) -> hl.Graph:
    generator = torch.Generator().manual_seed(5)
    src, dst = torch.randint(0, VERTICES, (2, EDGES), generator=generator)
    src[:2100] = HUB
    weights = torch.randint(1, 100, (EDGES,), generator=generator, dtype=torch.int32)
    return hl.from_edges(src, dst, weights, num_vertices=VERTICES, symmetrize=symmetrize)


FORMS: dict[str, Callable[[], hl.Graph]] = {
    "directed": lambda: drawn(False),
    "undirected": lambda: drawn(True),
    "floats": lambda: drawn(False).with_weights(UnifiedTensor.from_tensor(drawn(False).weights / 4)),
    "compressed": lambda: hl.compress(drawn(True)),
    "compressed, directed": lambda: hl.compress(drawn(False)),
    "reordered": lambda: hl.reorder(drawn(True), "degree"),
    "compressed, reordered": lambda: hl.compress(drawn(False), reorder="rcm"),
}


def held_by(graph: hl.Graph, name: str) -> torch.Tensor:
    """The array itself, which a user may write to."""
    order = graph.order
    return order if name == "order" and order is not None else arrays.tensor_of(graph.neighbor_lists.arrays[name])


class Form:
    """A graph of one form, as often as it is needed, over the same arrays."""

    def __init__(self, name: str, device: str, placement: str) -> None:
        self.device = device
        self._made = made = FORMS[name]()
        if placement == "gpu":
            held = {array: made.array(array, device) for array in made.placement}
            self._made = hl.Graph.of(NeighborLists(held), made.directed, made.numbering)
        self._before = {array: held_by(self._made, array).clone() for array in made.placement}
        self._order = None if made.order is None else made.order.clone()

    def graph(self) -> hl.Graph:
        """As it was made: arrays as they were, and nothing known of them."""
        for name, array in self._before.items():
            held_by(self._made, name).copy_(array)
        order = None if self._order is None else Order(self._order.clone())
        return hl.Graph.of(NeighborLists(self._made.neighbor_lists.arrays), self._made.directed, order)


# --- damage -----------------------------------------------------------------------------------------------------------------


def noise(like: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(9)
    size = like.numel() * like.element_size()
    return torch.randint(0, 256, (size,), dtype=torch.uint8, generator=generator).view(like.dtype).to(like.device)


def put(array: torch.Tensor, where: object, value: object) -> None:
    array[where] = value


def _offsets() -> dict[str, Callable[[torch.Tensor], object]]:
    def overlap(at: torch.Tensor) -> None:
        last = int(at[-1])
        at[1:-1:2], at[2:-1:2] = last, 0

    return {
        "one negative": lambda at: put(at, 5, -5),
        "far negative": lambda at: put(at, slice(0, None, 3), -(2**62)),
        "first negative": lambda at: put(at, 0, -3),
        "first not 0": lambda at: put(at, 0, 9),
        "one huge": lambda at: put(at, HUB + 1, 2**62),
        "all huge": lambda at: put(at, slice(1, None), 2**62),
        "all 2^40": lambda at: put(at, slice(1, None), 2**40),
        "falling": lambda at: at.copy_(at.flip(0)),
        "overlap": overlap,
        "beyond": lambda at: at[9:].add_(7),
        "last too large": lambda at: put(at, -1, int(at[-1]) + 5),
        "last far too large": lambda at: put(at, -1, int(at[-1]) + 2**33),
        "last too small": lambda at: put(at, -1, 3),
        "noise": lambda at: at.copy_(noise(at)),
    }


DAMAGE: dict[str, dict[str, Callable[[torch.Tensor], object]]] = {
    "indptr": _offsets(),
    "indices": {
        "one negative": lambda to: put(to, 11, -1),
        "all -2^31": lambda to: to.fill_(-(2**31)),
        "one too large": lambda to: put(to, -1, VERTICES),
        "one in ten 2^31 - 1": lambda to: put(to, slice(0, None, 10), 2**31 - 1),
        "noise": lambda to: to.copy_(noise(to)),
    },
    "weights": {
        "negative": lambda w: put(w, slice(None), -(2**31) if w.dtype == torch.int32 else -1.0),
        "one negative": lambda w: put(w, 40, -1),
        "zero": lambda w: w.zero_(),
        "NaN or noise": lambda w: put(w, slice(None), float("nan")) if w.is_floating_point() else w.copy_(noise(w)),
        "infinite or largest": lambda w: put(w, slice(None), float("inf") if w.is_floating_point() else 2**31 - 1),
    },
    "packed_offsets": _offsets(),
    "packed": {
        "ones": lambda bits: bits.fill_(255),
        "zeros": lambda bits: bits.zero_(),
        "noise": lambda bits: bits.copy_(noise(bits)),
        "ones at the front": lambda bits: put(bits, slice(0, 64), 255),
    },
    "order": {
        "negative": lambda order: put(order, slice(0, None, 4), -(2**40)),
        "too large": lambda order: put(order, 3, VERTICES),
        "huge": lambda order: put(order, slice(None), 2**62),
        "repeated": lambda order: order.fill_(1),
    },
}


# --- operations: what is done before the damage, which returns what is done after it ----------------------------------------


Operation = Callable[[hl.Graph, str], Callable[[], object]]


def after(call: Callable[..., object]) -> Operation:
    """An operation that does everything after the damage."""
    return lambda graph, device: partial(call, graph, device)


def prepared(call: Callable[..., object], algorithms: str, **options: object) -> Operation:
    """One on a graph that was prepared before the damage."""

    def before(graph: hl.Graph, device: str) -> Callable[[], object]:
        if device == "cpu":
            graph.transpose()
        held = hl.prepare(graph, device=device, algorithms=algorithms, **options)
        return partial(call, held, None)

    return before


def with_in_neighbours(call: Callable[..., object]) -> Operation:
    """One on a graph whose lists of in-neighbours were made before the damage."""

    def before(graph: hl.Graph, device: str) -> Callable[[], object]:
        graph.transpose()
        return partial(call, graph, device)

    return before


def verified(run: Callable[..., object], verify: Callable[..., object]) -> Operation:
    def before(graph: hl.Graph, device: str) -> Callable[[], object]:
        return partial(verify, graph, run(graph, "cpu"))

    return before


def saved(ending: str, without_weights: bool = False) -> Operation:
    def run(graph: hl.Graph, device: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            hl.save_graph(graph.without_weights() if without_weights else graph, Path(folder) / f"g{ending}")

    return after(run)


def budgeted(graph: hl.Graph, device: str) -> None:
    """As a GPU keeps things, whatever the budget."""
    for budget in ("64KiB", "1MiB", None):
        with hl.prepare(graph, budget, device=device, algorithms=("bfs", "cc", "sssp"), weighted=True) as held:
            for view in {held.out, held.incoming} - {None}:
                for keep, room in (("prefix", 1 << 20), ("offsets", 1 << 20), ("edges", 24 << 10)):
                    plan = GraphPlan(room, weighted=True)
                    getattr(plan, f"keep_{keep}")(view)
                    plan.apply()
            hl.bfs(held, 3)
            hl.connected_components(held)
            hl.sssp(held, 3)
            held.explain()


def sampled(fanouts: tuple[int, ...] = (5, 3), **options: object) -> Operation:
    def before(graph: hl.Graph, device: str) -> Callable[[], object]:
        sampler = NeighborSampler(graph, fanouts, device=device, **options)
        return lambda: [sampler.sample(torch.arange(64), batch) for batch in range(2)]

    return before


def sampled_hetero(graph: hl.Graph, device: str) -> Callable[[], object]:
    lists = graph if graph.order is None else Adjacency(graph.indptr, graph.indices, VERTICES)
    sampler = HeteroSampler({("a", "to", "a"): lists, ("a", "too", "a"): lists}, [4, -1], device=device)
    return lambda: sampler.sample({"a": torch.arange(20)})


def sampled_pinsage(graph: hl.Graph, device: str) -> Callable[[], object]:
    sampler = PinSAGESampler(graph, [4, 2], walks=3, length=4, device=device)
    return lambda: sampler.sample(torch.arange(20))


def planned(graph: hl.Graph, device: str) -> None:
    features = UnifiedTensor.from_tensor(torch.zeros(VERTICES, 4))
    plan_cache(graph, features, NeighborSampler(graph, [4], device=device), torch.arange(64), 16, budget="64KiB", device=device)


def scanned(graph: hl.Graph, device: str) -> None:
    if device != "cpu":
        scan = Scan(hl.prepare(graph, device=device))
        scan()
        scan.result()


def described(graph: hl.Graph, device: str) -> None:
    repr(graph), graph.num_isolated, graph.nbytes, graph.weight_range, graph.degrees(), graph.num_edges
    graph.without_weights().num_edges  # noqa: B018
    graph.to_original(torch.arange(VERTICES), vertices=True), graph.to_internal(torch.arange(VERTICES)), graph.has_sorted_lists


def restored_labels(graph: hl.Graph, device: str) -> None:
    graph.labels = [f"v{i}" for i in range(VERTICES)]
    graph.to_networkx()


SOURCES = [3, HUB, 100]


def algorithm(record: Algorithm) -> dict[str, Operation]:
    """What can be done with an algorithm, by its record."""
    takes = inspect.signature(record.run).parameters
    start = {name: value for name, value in {"source": 3, "sources": SOURCES}.items() if name in takes}
    verify = getattr(hl.graph, record.verify)
    checked = {name: value for name, value in start.items() if name in inspect.signature(verify).parameters}

    def run(graph: hl.Graph, device: str | None, **options: object) -> object:
        return record.run(graph, **start, **options, device=device)

    return {
        record.name: after(run),
        f"{record.name}, in-neighbours": with_in_neighbours(run),
        f"{record.name}, prepared": prepared(run, record.name, weighted=record.weights == "needed"),
        f"verify {record.name}": verified(run, lambda graph, result: verify(graph, result=result, **checked)),
        **{f"{record.name}, {mode}": after(partial(run, mode=mode)) for mode in record.modes[1:]},
    }


def personal(graph: hl.Graph, device: str | None) -> object:
    return hl.pagerank(graph, max_iterations=5, personalization={3: 1.0, 9: 2.0}, device=device)


OPERATIONS: dict[str, Operation] = {
    **{f"reorder by {by}": after(lambda g, d, by=by: hl.reorder(g, by)) for by in ("degree", "bfs", "rcm")},
    "reorder by an order": after(lambda g, d: hl.reorder(g, order=torch.arange(VERTICES).flip(0))),
    "compress": after(lambda g, d: hl.compress(g)),
    "compress, reordered": after(lambda g, d: hl.compress(g, reorder="degree")),
    "decompress": after(lambda g, d: hl.decompress(g)),
    "first neighbours": after(
        lambda g, d: (g if g.is_compressed else hl.compress(g)).neighbor_lists.packed_lists().first_neighbors(40)
    ),
    "transpose": after(lambda g, d: g.transpose()),
    "simplify": after(lambda g, d: hl.graph.simplify(g)),
    "simplify, all": after(lambda g, d: hl.graph.simplify(g, remove_self_loops=True, remove_duplicates=True)),
    "simplify, unsorted": after(lambda g, d: hl.graph.simplify(g, sort_neighbors=False)),
    "symmetrize": after(lambda g, d: hl.graph.simplify(g, symmetrize=True)),
    "renumber": after(lambda g, d: hotness.renumber(g, scores=torch.rand(VERTICES))),
    "describe": after(described),
    "random weights": after(lambda g, d: hl.random_weights(g)),
    "to networkx": after(lambda g, d: g.to_networkx()),
    "to networkx, labelled": after(restored_labels),
    "to scipy": after(lambda g, d: g.to_scipy()),
    "survey": after(lambda g, d: hl.graph.formats.survey(g)),
    "mirrored": after(lambda g, d: arrays.check_mirrored(g.indptr, g.indices, g.weights)),
    **{f"save {e}": saved(e) for e in (".hl", ".mtx", ".wel", ".gr", ".wsg", ".bel", ".npz")},
    **{f"save {e}, without weights": saved(e, True) for e in (".hl", ".mtx", ".el", ".gr", ".sg", ".bel", ".npz", ".npy")},
    **{name: call for record in known() for name, call in algorithm(record).items()},
    "pagerank, personal": after(personal),
    "weighted pagerank": after(lambda g, d: hl.graph.weighted_pagerank(g, device=d)),
    "hits": after(lambda g, d: hl.graph.hits(g, device=d)),
    "strong components": after(lambda g, _: hl.graph.strongly_connected_components(g)),
    "cores": after(lambda g, _: hl.graph.core_numbers(g)),
    "communities": after(lambda g, _: hl.graph.louvain(g)),
    "connected communities": after(lambda g, _: hl.graph.leiden(g)),
    "jaccard": after(lambda g, _: hl.graph.jaccard(g, torch.tensor([[0, 1], [2, 3]]))),
    "verify weighted pagerank": verified(
        lambda g, d: hl.graph.weighted_pagerank(g, device=d), lambda g, r: hl.graph.verify_weighted_pagerank(g, r)
    ),
    "prepare within budgets": after(budgeted),
    "prepare by scores": after(lambda g, d: hl.prepare(g, "64KiB", device=d, scores=torch.rand(VERTICES)).close()),
    "scan": after(scanned),
    "sample": sampled(),
    "sample whole lists": sampled((-1, -1)),
    "sample with replacement": sampled(replace=True),
    "sample by weight": sampled(weighted=True),
    "sample by weight, whole lists": sampled((-1, 2), weighted=True),
    "sample by weight with replacement": sampled(weighted=True, replace=True),
    "sample by time": sampled(times=torch.arange(VERTICES)),
    "sample a window": sampled(times=torch.arange(VERTICES), time_window=VERTICES // 2),
    "sample the newest": sampled(times=torch.arange(VERTICES), temporal_strategy="last"),
    "sample disjoint": sampled(disjoint=True),
    "sampler after": after(lambda g, d: NeighborSampler(g, [4, 2], weighted=True, device=d).sample(torch.arange(9))),
    "sample types": sampled_hetero,
    "walks": after(lambda g, d: random_walks(g, torch.arange(99), 8, device=d)),
    "walks, prepared": prepared(lambda g, d: random_walks(g, torch.arange(99), 8), "sampling"),
    "walks by weight": after(lambda g, d: random_walks(g, torch.arange(99), 8, weighted=True, restart=0.1, device=d)),
    "pinsage": sampled_pinsage,
    "pinsage neighbours": after(lambda g, d: pinsage_neighbors(g, torch.arange(9), walks=3, neighbors=4, device=d)),
    "negatives": after(lambda g, d: negative_edges(g, 200, device=d)),
    "negatives, exact for sources": after(
        lambda g, d: negative_edges(g, 70, positives=torch.tensor([[HUB, 3], [1, 2]]), device=d)
    ),
    "negatives, prepared": prepared(lambda g, d: negative_edges(g, 200), "sampling"),
    "hotness degree": after(lambda g, d: hotness.degree(g, device=d)),
    "reverse pagerank": after(lambda g, d: hotness.reverse_pagerank(g, device=d)),
    "weighted reverse pagerank": after(lambda g, d: hotness.weighted_reverse_pagerank(g, [1, HUB], device=d)),
    "inclusion": after(lambda g, d: hotness.inclusion_probability(g, [1, HUB], [4, -1], 2, device=d)),
    "plan a cache": after(planned),
}


def combinations(form: str, operations: Iterable[str]) -> list[tuple[str, str, str]]:
    """(Operation, array, damage) for the arrays that graphs of a form have."""
    graph = FORMS[form]()
    names = [*graph.placement, *(["order"] if graph.order is not None else [])]
    return [(operation, name, kind) for operation in operations for name in names for kind in DAMAGE[name]]


def run(form: Form, operation: Operation, name: str, kind: str) -> str:
    """How a combination ended: a result, a sentence, or what no user should see."""
    graph = form.graph()
    try:
        call = operation(graph, form.device)
    except HinterlandError:
        return "does not apply"
    DAMAGE[name][kind](held_by(graph, name))
    signal.alarm(SECONDS[form.device.partition(":")[0]])  # its default action ends the process
    try:
        call()
        if form.device != "cpu":
            torch.cuda.synchronize()
    except OutOfMemory as error:
        return f"asks for memory: {error}"
    except HinterlandError:
        return "sentence"
    except Exception as error:
        return f"raises {type(error).__name__}: {error}".partition("\n")[0]
    finally:
        signal.alarm(0)
    return "result"


def main(operations: dict[str, Operation], device: str, every: int, only: str | None = None, first: int = 0) -> int:
    """Runs every ``every``-th combination, from the ``first`` on; prints each before it runs, and how it ended."""
    if device == "cpu":
        allocator._pageable = guarded
    _core.set_num_threads(2)
    wrong = 0
    for form in FORMS if only is None else [only]:
        for placement in ("host",) if device == "cpu" else ("host", "gpu"):
            made = Form(form, device, placement)
            for number, (operation, *damage) in enumerate(combinations(form, operations)):
                if number < first or number % every:
                    continue
                print(number, f"{form} ({placement})", operation, *damage, sep=" | ", end=" | ", flush=True)
                ended = run(made, operations[operation], *damage)
                print(ended, flush=True)
                wrong += ended not in ("result", "sentence", "does not apply")
    return 1 if wrong else 0


if __name__ == "__main__":
    device, every, *form = sys.argv[1:]
    sys.exit(main(OPERATIONS, device, int(every), *form[:1], *map(int, form[1:])))
