"""PageRank over a graph whose edges may lie in host memory, by pulling along in-edges."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from .. import _core
from ..runtime import arguments
from ..runtime.annotations import IfRequested
from ..runtime.errors import ConfigError, VerificationError
from ..runtime.params import Params, address, struct
from ..runtime.repr import Repr
from ..table import UnifiedTensor
from . import passes
from .algorithms import Algorithm, register
from .checks import require_close, require_each, require_result
from .device_graph import allocated, checked_view, edge_at
from .graph import Graph
from .prepare import ResidentGraph, graph_of, prepared_for
from .reorder import restored
from .traversal import FORMS, ScratchLayout, Stopwatch, finish, kernel_file, original_bytes, runner, scratch_for, to_original
from .traversal_stats import TraversalRun, with_stats

MODES = ("auto", "power-iteration")
# The least tolerance that scores of a type resolve: rounding alone changes their sum by about a tenth of it.
LEAST_TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-14}
MOST_ITERATIONS = 2**31 - 1
# What runs with scores of a type are called where memory is planned for them.
_NAMES = {torch.float32: "pagerank", torch.float64: "pagerank-float64"}

Personalization = torch.Tensor | Mapping[int, float]

_REALS = {torch.float32: "float", torch.float64: "double"}
KERNELS = kernel_file("graph/pagerank", (f"{form}, {real}" for form in FORMS for real in _REALS.values()))
_PARAMS, _OPTIONS, _CONTROL = (struct(f"graph::Pagerank{name}") for name in ("Params", "Options", "Control"))


@dataclass(frozen=True, repr=False)
class PagerankResult(Repr):
    """Scores of a graph's vertices.

    Attributes:
        scores: ``[num_vertices]`` of the type asked for; they sum to 1; on the device that ran it.
        iterations: how often all edges were read.
        error: the change that the last iteration made, summed over all vertices; in mode ``"auto"`` of an undirected graph what
            one more step of the walk would change, at most.
        converged: whether ``error`` came below the tolerance.
        stats: what the run did (see :func:`pagerank`), or None unless asked for.
    """

    scores: torch.Tensor
    iterations: int
    error: float
    converged: bool
    stats: IfRequested[dict[str, Any]] = None


def pagerank(
    graph: Graph | ResidentGraph,
    damping: float = 0.85,
    tolerance: float = 1e-4,
    max_iterations: int = 100,
    personalization: Personalization | None = None,
    dtype: torch.dtype | None = None,
    mode: str = "auto",
    gpu_budget: int | str | None = None,
    device: torch.device | str | int | None = None,
    stats: bool = False,
) -> PagerankResult:
    """The chance to be at each vertex, for a walk that follows a random out-edge with probability ``damping``.

    Otherwise, and from a vertex without out-edges, the walk goes on at a vertex drawn by ``personalization``. Parallel edges
    count as often as they are there, weights not at all. Scores are the same on every device and for any number of threads up
    to rounding.

    Args:
        graph: the graph, or what :func:`prepare` made of it for many runs. The lists of in-neighbours are read: of a
            directed graph, ``transpose()`` is made.
        damping: in [0, 1).
        tolerance: the last iteration is the one that finds scores to change by less in a step of the walk, summed over all
            vertices.
        max_iterations: from 1 to 2**31 - 1. Where they do not suffice, the result says ``converged=False`` and the error
            reached.
        personalization: for each vertex its share, not negative: a floating tensor ``[V]``, or a mapping from vertices to
            shares, 0 for those left out. Normalised to sum 1. It stays in host memory. None means the same for all.
        dtype: of scores and of the run's state, float32 or float64; None is float32 if the tolerance is at least 1e-6, which
            is what that resolves.
        mode: in undirected graphs ``"auto"`` starts from scores by degree and relaxes by Chebyshev's semi-iteration, which
            saves iterations; ``"power-iteration"``, and ``"auto"`` in directed graphs, starts from ``personalization`` and
            takes plain steps.
        gpu_budget: most bytes of GPU memory that the call may take, result included (``"1GiB"`` or a number); None is what
            is free. Where it has no room for scores and state, the CPU does the work. (To :func:`prepare`, runs with float64
            are ``"pagerank-float64"``.)
        device: where to run; None is the current GPU, or the CPU on a machine without one.
        stats: also report seconds, edges, bytes read from the edge array, and the same for each iteration.

    Raises:
        ConfigError: a number out of its range, a personalisation that is no distribution, a budget that is no size.
        GraphError: an offset or neighbour met on the way is out of range.
        OutOfMemory: scores and state exceed the free GPU memory.
    """
    arguments.one_of("mode", mode, MODES)
    damping, tolerance = arguments.number("damping", damping), arguments.number("tolerance", tolerance)
    if dtype is None:
        dtype = torch.float32 if tolerance >= LEAST_TOLERANCE[torch.float32] else torch.float64
    limit = _check_numbers(damping, tolerance, max_iterations, dtype)
    of = graph_of(graph)
    personal = None if personalization is None else distribution(personalization, of.num_vertices)
    prepared = prepared_for(graph, _NAMES[dtype], gpu_budget, device)
    if prepared.incoming is None:
        raise ConfigError("the graph was prepared without its in-neighbours; prepare it with algorithms='pagerank'")
    options = _OPTIONS(damping=damping, tolerance=tolerance)
    run = functools.partial(_run, prepared, options, limit, personal, dtype, mode)
    (scores, iterations, error), report = with_stats(run, stats, prepared, mode)
    return PagerankResult(scores, iterations, error, error < tolerance, report)


def _check_numbers(damping: float, tolerance: float, max_iterations: int, dtype: torch.dtype) -> int:
    if not 0 <= damping < 1:
        raise ConfigError(f"damping {damping} is not in [0, 1)")
    if not isinstance(dtype, torch.dtype) or dtype not in LEAST_TOLERANCE:
        raise ConfigError(f"scores are float32 or float64, not {arguments.repr_of(dtype)}")
    if not tolerance >= LEAST_TOLERANCE[dtype]:
        wide = dtype == torch.float32 and tolerance >= LEAST_TOLERANCE[torch.float64]
        remedy = "; ask for dtype=torch.float64" if wide else ""
        raise ConfigError(f"tolerance {tolerance} is below {LEAST_TOLERANCE[dtype]}, the least that {dtype} resolves{remedy}")
    return arguments.whole_number("max_iterations", max_iterations, 1, MOST_ITERATIONS)


def distribution(given: Personalization, num_vertices: int, name: str = "personalization") -> torch.Tensor:
    """What an argument called ``name`` gives as shares that sum to 1: float64 ``[num_vertices]`` on the CPU."""
    if isinstance(given, Mapping):
        shares = torch.zeros(num_vertices, dtype=torch.float64)
        for key, value in given.items():
            vertex = arguments.whole_number(f"a vertex of {name}", key)
            share = arguments.number(f"the share of vertex {vertex}", value)
            if not 0 <= vertex < num_vertices:
                raise ConfigError(f"{name} names vertex {vertex}, but vertices are numbered 0 to {num_vertices - 1}")
            shares[vertex] = share
    else:
        if arguments.dense(name, given).shape != (num_vertices,) or given.is_complex():
            shape = tuple(given.shape)
            raise ConfigError(f"{name} is a real tensor of shape ({num_vertices},) or a mapping; got shape {shape}")
        shares = given.detach().to("cpu", torch.float64)
    wrong = torch.nonzero(~(shares >= 0) | shares.isinf())
    if len(wrong):
        at = int(wrong[0])
        raise ConfigError(f"{name} of vertex {at} is {float(shares[at])}, but shares are finite and not negative")
    total = float(shares.sum())
    if not 0 < total < math.inf:
        raise ConfigError(f"{name} sums to {total}; at least one vertex needs a share above 0")
    return shares / total


def _state_bytes(graph: Graph, dtype: torch.dtype) -> int:
    """GPU memory of one run: scores, and besides them scratch and contributions, in undirected graphs of two iterations,
    or what it takes to renumber the scores."""
    real = allocated(dtype.itemsize * graph.num_vertices)
    scratch = ScratchLayout.of(_core.pagerank_layout, graph).bytes
    return real + max((1 if graph.directed else 2) * real + allocated(scratch), original_bytes(graph, dtype.itemsize))


ALGORITHM = register(
    Algorithm(
        "pagerank",
        functools.partial(_state_bytes, dtype=torch.float32),
        incoming_only=True,
        run=pagerank,
        kernels=KERNELS,
        modes=MODES,
        weights="unused",
        verify="verify_pagerank",
        help="""Rank vertices by how often a random walk comes by, and say how fast that went.

        The walk follows every out-edge as often as any other: weights in the file are not used, and a line says so.
        The array of --output is the scores, which add up to 1.
        """,
        options={
            "damping": "The share of walks that follow an edge instead of jumping.",
            "tolerance": "Stop when the scores change by less than this altogether.",
            "max_iterations": "Stop after so many iterations at the latest.",
        },
        array="scores",
        columns={"score": "scores"},
        found=lambda run: (
            f"{run['iterations']} iterations, error {run['error']:.2e}" + ", did not converge" * (not run["converged"])
        ),
        fields=lambda result: {"iterations": result.iterations, "error": result.error, "converged": result.converged},
    )
)
register(Algorithm(_NAMES[torch.float64], functools.partial(_state_bytes, dtype=torch.float64), incoming_only=True))


def _run(
    prepared: ResidentGraph,
    options: Params,
    max_iterations: int,
    personal: torch.Tensor | None,
    dtype: torch.dtype,
    mode: str,
    counts: bool,
) -> tuple[tuple[torch.Tensor, int, float], TraversalRun]:
    graph, device = prepared.graph, prepared.device
    assert prepared.incoming is not None
    layout = ScratchLayout.of(_core.pagerank_layout, graph)
    on_cpu = functools.partial(_core.pagerank, real_bytes=dtype.itemsize)
    run = runner(prepared, on_cpu, KERNELS, _REALS[dtype], counts=counts)
    relaxed = mode == "auto" and prepared.incoming is prepared.out
    shares: torch.Tensor | None = None
    if personal is not None:
        personal = personal if graph.original_ids is None else personal[graph.original_ids]
        held = UnifiedTensor.from_tensor(personal.to(dtype))
        shares = held.cuda(device) if device.type == "cuda" else held.cpu()
    clock = Stopwatch(device)
    with clock:
        contributions = passes.empty(graph.num_vertices, dtype, device)
        # A GPU that does not relax overwrites contributions in place.
        others = passes.empty(graph.num_vertices, dtype, device) if relaxed or device.type == "cpu" else contributions
        scores = passes.empty(graph.num_vertices, dtype, device)
        scratch = scratch_for(layout, device)
        run(
            _PARAMS(
                graph=prepared.out.words_for(counts),
                incoming=prepared.incoming.words_for(counts),
                options=options,
                max_iterations=max_iterations,
                undirected=relaxed,
                personal=address(shares),
                contributions=contributions.data_ptr(),
                others=others.data_ptr(),
                sums=scores.data_ptr(),
                scratch=scratch.data_ptr(),
            )
        )
    finished = finish(prepared, scratch, layout)
    control = _CONTROL.read(scratch, layout.left)
    iterations, error = control.iterations, control.final_error
    del scratch, contributions, others
    with clock:
        scores = to_original(prepared.order_on(device), scores)
    return (scores, iterations, error), TraversalRun(finished, clock)


def verify_pagerank(
    graph: Graph,
    result: PagerankResult,
    damping: float = 0.85,
    tolerance: float = 1e-4,
    personalization: Personalization | None = None,
) -> None:
    """Checks scores against the equation that defines them, in float64 on the CPU, in one parallel pass over the out-edges.

    1. Scores are finite and not negative.
    2. They sum to 1, within ``tolerance``.
    3. Following the walk by one more step changes them by less than ``tolerance``, summed over all vertices, and twice the
       ``eps`` of their type, for what rounding to it does.

    Raises:
        VerificationError: names the rule, the vertex and the values.
    """
    require_result(graph, result, PagerankResult)
    damping, tolerance = arguments.number("damping", damping), arguments.number("tolerance", tolerance)
    graph, vertices = restored(graph), graph.num_vertices
    view = checked_view(graph.neighbor_lists)
    scores = result.scores.cpu().to(torch.float64)
    require_each("scores", scores, graph)
    if vertices == 0:
        return
    wrong = torch.nonzero(~(scores >= 0) | scores.isinf())
    if len(wrong):
        raise VerificationError(f"rule 1: vertex {int(wrong[0])} has score {float(scores[wrong[0]])}")
    total = float(scores.sum())
    if abs(total - 1) >= tolerance:
        raise VerificationError(f"rule 2: scores sum to {total}, which is not within {tolerance} of 1")
    equal = torch.full((vertices,), 1 / vertices, dtype=torch.float64)
    p = equal if personalization is None else distribution(personalization, vertices)
    degrees = graph.degrees().cpu()
    shares = torch.where(degrees > 0, damping * scores / degrees.clamp(min=1), 0.0)
    after = ((1 - damping) + damping * float(scores[degrees == 0].sum())) * p
    with view.reading():
        broken, at = _core.follow_walk(view.words, shares.data_ptr(), after.data_ptr())
    if broken:
        raise VerificationError(f"the graph is broken: {edge_at(view, at)[2]} leads to no vertex")
    rounding = 2 * torch.finfo(result.scores.dtype).eps
    require_close("rule 3: a further step changes scores", scores, after, tolerance, rounding)
