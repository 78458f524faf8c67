// PageRank by pulling (Page, Brin, Motwani and Winograd 1999; the pull form is that of Beamer, Asanovic and Patterson, "The GAP
// benchmark suite", 2015): every vertex sums the contributions of its in-neighbours, so that no two vertices write one place.
//
//   score(v) = (1 - d) p(v) + d (sum over u -> v of score(u) / out-degree(u) + dangling p(v)),
//
// with damping d, personalisation p (1 / V unless given) and the scores of vertices without out-edges, together, as `dangling`.
// An iteration reads all lists of in-neighbours once; on a GPU, over the link. So what counts most is to need few: in
// undirected graphs they start from scores that come near the last ones (first_guess), and each goes further than to the
// right-hand side (Relaxation).
//
// Sums over a list are made in double precision. A warp of one lane takes a list of up to kTaskEdges neighbours whole and finds
// the vertex's new score at once; elsewhere sums are made lane by lane and added to the vertex's place once for each task, in
// an order that differs from run to run where a list is shared by tasks: scores agree up to rounding, not bit by bit.
#pragma once

#include "hinterland/graph/sum_over_lists.hpp"

namespace hinterland::graph {

struct PagerankOptions {
  double damping, tolerance;
};

// What a run is given. Graphs lie in memory that the processor addresses; numbers are as wide as the instance's.
struct PagerankParams {
  const GraphWords* graph;
  const GraphWords* incoming;  // lists of in-neighbours, `graph` itself for an undirected graph
  PagerankOptions options;
  int64_t max_iterations;
  int64_t undirected;    // begin with the guess by degree, and relax
  const void* personal;  // Real [vertices], or null
  void* contributions;   // Real [vertices]
  void* others;          // those of the iteration before; `contributions` itself where a warp has many lanes and does not relax
  void* sums;            // Real [vertices]; the scores end up here
  char* scratch;         // that of a PagerankState
};

// How far an iteration goes: with G(x) for the right-hand side of the equation above,
//
//   next = weight (G(now) - before) + before.
//
// With weight 1 that is G(now), and errors shrink by d. An undirected graph's matrix is similar to a symmetric one, so that its
// eigenvalues are real; if all that count lie within [-reach, reach], Chebyshev's semi-iteration (Golub and Varga 1961),
//
//   weight = 2 / (2 - reach^2), then 1 / (1 - reach^2 weight / 4) of the weight before,
//
// has errors shrink by s = reach / (1 + sqrt(1 - reach^2)): 0.56 for reach = d = 0.85. Most graphs mix well, and a reach of d
// would double their iterations. So it begins small, and grows as residuals show larger eigenvalues: where these shrink by q >
// s, the eigenvalue that does it is reach / 2 (q / s + s / q) (Hageman and Young, "Applied iterative methods", 1981, chapter
// 5). In the norm in which the matrix is symmetric, sum of x(v)^2 / degree(v), q never says too much; in the sum of absolute
// values it does.
struct Relaxation {
  static constexpr double kFirst = 0.3, kSlow = 0.6;  // of d; from kSlow on it is d: docs/notes/pagerank.md

  double reach;   // 0: do not relax
  double weight;  // of the iteration to come
  double square;  // of the residual's norm, 0 before the first iteration

  HINTERLAND_APART void next(double now, double damping) {
    double last = weight;
    if (square == 0) {
      last = 2;
    } else if (reach > 0) {
      const double root = stdlib::sqrt(1 - reach * reach), shrinks = reach / (1 + root), rate = stdlib::sqrt(now / square);
      const double seen = reach / 2 * (rate / shrinks + shrinks / rate);
      if (rate > shrinks) reach = seen > kSlow * damping ? damping : max_of(seen, reach);
      if (rate > 1) reach = 0;  // eigenvalues are not real: someone called a directed graph undirected
    }
    weight = 1 / (1 - reach * reach * last / 4);
    square = now;
  }
};

// Sums over all vertices that an iteration makes.
struct PagerankTotals {
  double error;     // of the scores' changes
  double square;    // of a change's square over the degree
  double dangling;  // of new scores of vertices without out-edges
  int64_t padding[13];
};

struct PagerankControl {
  int64_t iterations;
  double final_error;
  double dangling_share;  // of p
  Relaxation relaxation;
  int64_t padding[10];
  PagerankTotals totals[2];  // they alternate between iterations: one is cleared while the other is in use
};
static_assert(sizeof(PagerankControl) == 3 * kLineBytes);

// p, as a loop reads it: made before the loop, so that it divides once.
template <class Real>
struct Personal {
  const Real* given;  // or null
  double equal;

  HINTERLAND_FN double operator()(int64_t vertex) const {
    return given == nullptr ? equal : static_cast<double>(given[vertex]);
  }
};

template <class Real>
struct PagerankState {
  Scratch scratch;
  // What a vertex gives along each out-edge: its score over its out-degree, or over 1 where it has none: nobody reads it then.
  Real *contributions, *others;
  Real* sums;            // of the contributions that a vertex gets from lists that are not taken whole; at the end, the scores
  const Real* personal;  // p, or null for 1 / V
  PagerankOptions options;
  PagerankControl* control;
  Frontier frontier;

  HINTERLAND_FN PagerankState(const PagerankParams& p, int64_t num_vertices, int64_t num_edges)
      : scratch{p.scratch},
        contributions(static_cast<Real*>(p.contributions)),
        others(static_cast<Real*>(p.others)),
        sums(static_cast<Real*>(p.sums)),
        personal(static_cast<const Real*>(p.personal)),
        options(p.options),
        control(scratch.take<PagerankControl>(1)),
        frontier(scratch, num_vertices, num_edges) {}

  HINTERLAND_FN Personal<Real> p() const { return {personal, 1.0 / static_cast<double>(frontier.num_vertices)}; }
  // The contributions that an iteration reads, and those of the iteration before. A warp of one lane reads lists while it
  // writes, so there arrays change places; a GPU writes when all lists have been read, and moves what it had.
  HINTERLAND_FN Real* of(int64_t iteration) const { return Warp::kWidth > 1 || iteration % 2 == 0 ? contributions : others; }
  HINTERLAND_FN Real* before(int64_t iteration) const { return Warp::kWidth > 1 ? others : of(iteration + 1); }
  HINTERLAND_FN PagerankTotals& totals(int64_t iteration) const { return control->totals[iteration % 2]; }
};

// Adds a warp's parts of some sums over all vertices to the sums.
template <int kTotals>
HINTERLAND_FN void add_parts(const double (&parts)[kTotals], double* const (&totals)[kTotals]) {
  for (int i = 0; i < kTotals; ++i) {
    const double sum = Warp::sum(parts[i]);
    if (Warp::lane() == 0) atomic_add(*totals[i], sum);
  }
}

template <class Graph>
HINTERLAND_FN double degree_or_one(const Graph& graph, int64_t vertex) {
  return static_cast<double>(max_of<int64_t>(graph.degree(vertex), 1));
}

// Scores to begin with: p, or, by degree, those that an undirected graph would have if each edge led from a vertex drawn at
// random: in proportion to degrees, D being what vertices without edges hold together,
//   score(v) = (1 - d) p(v) + d (D p(v) + (1 - D) degree(v) / E);
// summed over those vertices this is an equation for D. With d = 0 it is p. docs/pagerank.md has iterations from both.
template <class Team, class Graph, class Real>
HINTERLAND_FN void first_guess(Team& team, const Graph& graph, const PagerankState<Real>& state, bool by_degree) {
  PagerankControl& control = *state.control;
  const Personal<Real> p = state.p();
  team.static_for(state.frontier.num_groups, [&](const auto& ranges) {
    double parts[1] = {};
    for_each_vertex_of(ranges, state.frontier, [&](int64_t vertex, bool there) {
      if (there && graph.degree(vertex) == 0) parts[0] += p(vertex);
    });
    add_parts(parts, {&control.dangling_share});
  });
  const double damping = by_degree ? state.options.damping : 0, share = min_of(atomic_load(control.dangling_share), 1.0);
  const double dangling = (1 - damping) * share / (1 - damping * share);
  const double edges = static_cast<double>(max_of<int64_t>(graph.num_edges, 1));
  team.single([&] { control.totals[1].dangling = dangling; });
  for_each_vertex(team, state.frontier, [&](int64_t vertex, bool there) {
    if (!there) return;
    const double score = (1 - damping + damping * dangling) * p(vertex) +
                         damping * (1 - dangling) * static_cast<double>(graph.degree(vertex)) / edges;
    state.contributions[vertex] = state.others[vertex] = static_cast<Real>(score / degree_or_one(graph, vertex));
    state.sums[vertex] = 0;
  });
}

// Whether a list is cut into tasks, which sum it up before update_scores(). A warp of many lanes does so with all lists.
HINTERLAND_FN bool is_cut(int64_t length) { return Warp::kWidth > 1 || length > kTaskEdges; }

// The sums of the contributions to some vertices, as update_scores() asks for them: to all lanes' vertices, from what tasks
// have added up; or, where a warp is one lane, to those of a group, whose lists it goes through at once before any score is
// made of a sum.
template <class Graph, class Real>
class Received {
 public:
  HINTERLAND_FN Received(const Graph& incoming, const PagerankState<Real>& state, const Real* values, int64_t begin,
                         int64_t end, CountsOf<Graph>& counts)
      : state_(state), begin_(begin) {
    if constexpr (Warp::kWidth == 1) sum_up(incoming, values, end, counts);
  }

  HINTERLAND_FN double operator()(int64_t vertex) const {
    if constexpr (Warp::kWidth == 1) return held_[vertex - begin_];
    return take(vertex);
  }

 private:
  HINTERLAND_APART void sum_up(const Graph& incoming, const Real* values, int64_t end, CountsOf<Graph>& counts) {
    for (int64_t vertex = begin_; vertex < end; ++vertex) {
      const ListBounds list(incoming, vertex, true, counts);
      held_[vertex - begin_] =
          is_cut(list.end - list.begin) ? take(vertex) : sum_over_list(incoming, vertex, list, values, counts);
    }
  }
  HINTERLAND_FN double take(int64_t vertex) const {
    const double sum = static_cast<double>(state_.sums[vertex]);
    state_.sums[vertex] = 0;
    return sum;
  }

  const PagerankState<Real>& state_;
  int64_t begin_;
  double held_[Warp::kWidth == 1 ? kGroup : 1];
};

// From sums to new scores, and what PagerankTotals has. Scores that are relaxed may fall below 0, and are 0 in the end: that
// changes the right-hand side for them by at most (1 + d) times as much, which is counted as an error now.
template <class Team, class Graph, class Real>
HINTERLAND_FN void update_scores(Team& team, const Graph& graph, const Graph& incoming, const PagerankState<Real>& state,
                                 int64_t iteration) {
  const double damping = state.options.damping, dangling = atomic_load(state.totals(iteration + 1).dangling);
  const double weight = atomic_load(state.control->relaxation.weight), jumps = 1 - damping + damping * dangling;
  const Real* const now = state.of(iteration);
  Real *const before = state.before(iteration), *const next = state.of(iteration + 1);
  PagerankTotals& totals = state.totals(iteration);
  const Personal<Real> p = state.p();
  team.static_for(state.frontier.num_groups, [&](const auto& ranges) {
    double parts[3] = {};
    CountsOf<Graph> counts;
    Ahead<Graph> ahead(incoming);
    ranges([&](int64_t first, int64_t last) {
      ahead(first, state.frontier.num_groups, [&](int64_t group) { return ask_for_group(incoming, group, ~0u, kTaskEdges); });
      const int64_t begin = first * kGroup, end = min_of(last * kGroup, state.frontier.num_vertices);
      const Received received(incoming, state, now, begin, end, counts);
      HINTERLAND_ROLLED
      for (int64_t vertex = begin + Warp::lane(); vertex < end; vertex += Warp::kWidth) {
        const int64_t degree = graph.degree(vertex);
        const double over = degree_or_one(graph, vertex), earlier = static_cast<double>(before[vertex]);
        const double was = static_cast<double>(now[vertex]), old = was * over;
        const double score = jumps * p(vertex) + damping * received(vertex);
        const double contribution = score / over, change = score - old;
        const double relaxed = earlier + weight * (contribution - earlier);
        if (Warp::kWidth > 1) before[vertex] = now[vertex];
        next[vertex] = static_cast<Real>(relaxed);
        parts[0] += max_of(change, -change) - (1 + damping) * min_of(old, 0.0);
        parts[1] += change * (contribution - was);
        if (degree == 0) parts[2] += relaxed;
      }
    });
    add_parts(parts, {&totals.error, &totals.square, &totals.dangling});
    if constexpr (Warp::kWidth == 1) counts.add_to(state.frontier, iteration);
  });
}

// The whole algorithm. Tasks are the same in every iteration, so they are collected once. It ends after the iteration that
// changes scores by less than the tolerance, summed over all vertices, or after max_iterations. The scores are then those
// before that iteration where it relaxes, since what changes by less is what it began with, or else those after it.
// `undirected`: it starts by degree, and relaxes.
template <class Team, class Graph, class Real>
HINTERLAND_FN void pagerank(Team& team, const Graph& graph, const Graph& incoming, const PagerankState<Real>& state,
                            int64_t max_iterations, bool undirected) {
  const Frontier& frontier = state.frontier;
  PagerankControl& control = *state.control;
  begin_first_step(team, frontier);
  const auto cut = [&](int64_t vertex) { return is_cut(Warp::kWidth > 1 ? 0 : incoming.degree(vertex)); };
  collect_groups(team, incoming, frontier, 0, frontier.all_groups(), where(frontier, frontier.all_groups(), cut));
  first_guess(team, graph, state, undirected);
  const int64_t num_tasks = frontier.num_tasks(0);
  double error = 0;
  int64_t iteration = 0;
  for (bool goes_on = true; goes_on; ++iteration) {
    team.single([&] {
      if (iteration == 0) {
        control.relaxation = {undirected ? Relaxation::kFirst * state.options.damping : 0, 1, 0};
      } else {
        frontier.begin_step(iteration, team.now_ns());
        control.relaxation.next(state.totals(iteration - 1).square, state.options.damping);
      }
      // What collecting has counted of them, which is less where lists are taken whole, is the same in every iteration.
      frontier.control->vertices[iteration % 2] = iteration == 0 ? incoming.num_vertices : 0;
      frontier.control->edges[iteration % 2] = incoming.num_edges;
      frontier.begin_visit(iteration, num_tasks, team.now_ns());
      PagerankTotals& totals = state.totals(iteration);
      totals.error = totals.square = totals.dangling = 0;
    });
    visit_tasks(team, incoming, frontier, iteration, num_tasks,
                [&](auto&) { return SumOverLists<Real>(state.of(iteration), state.sums); });
    update_scores(team, graph, incoming, state, iteration);
    error = atomic_load(state.totals(iteration).error);
    goes_on = error >= state.options.tolerance && iteration + 1 < max_iterations;
  }
  const Real* const last = Warp::kWidth > 1 || undirected ? state.before(iteration) : state.of(iteration);
  for_each_vertex(team, frontier, [&](int64_t vertex, bool there) {
    if (!there) return;
    state.sums[vertex] = static_cast<Real>(degree_or_one(graph, vertex) * max_of(static_cast<double>(last[vertex]), 0.0));
  });
  team.single([&] {
    control.iterations = iteration;
    control.final_error = error;
    frontier.end(team.now_ns());
  });
}

}  // namespace hinterland::graph
