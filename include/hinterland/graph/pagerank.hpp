// PageRank by pulling (Page, Brin, Motwani and Winograd 1999; the pull form is that of Beamer, Asanovic and Patterson, "The GAP
// benchmark suite", 2015): every vertex sums the contributions of its in-neighbours, so that no two vertices write one place.
//
//   score(v) = (1 - d) p(v) + d (sum over u -> v of score(u) / out-degree(u) + dangling p(v)),
//
// with damping d, personalisation p (1 / V unless given) and the scores of vertices without out-edges, together, as `dangling`.
// An iteration reads all lists of in-neighbours once; on a GPU, over the link. So what counts most is to need few, and they
// start from scores that come near the last ones (see first_guess).
//
// Sums over a list are made in double precision, lane by lane, and added to the vertex's place once for each task. Their order
// differs from run to run where a list is shared by tasks: scores agree up to rounding, not bit by bit.
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
  int64_t by_degree;     // begin with the guess by degree
  const void* personal;  // Real [vertices], or null
  void* contributions;   // Real [vertices]
  void* sums;            // the same; the scores end up here
  char* scratch;         // that of a PagerankState
};

// Counters with two places alternate between iterations: one is cleared while the other is in use.
struct PagerankControl {
  int64_t iterations;
  double final_error;
  int64_t padding0[14];
  double error[2];  // sum of the scores' changes
  int64_t padding1[14];
  double dangling[2];  // scores of vertices without out-edges
  int64_t padding2[14];
  double dangling_share;  // of p
  int64_t padding3[15];
};
static_assert(sizeof(PagerankControl) == 4 * kLineBytes);

template <class Real>
struct PagerankState {
  Scratch scratch;
  // What a vertex gives along each out-edge: its score over its out-degree, or over 1 where it has none: nobody reads it then.
  Real* contributions;
  Real* sums;            // of the contributions that a vertex gets; at the end, the scores
  const Real* personal;  // p, or null for 1 / V
  PagerankOptions options;
  PagerankControl* control;
  Frontier frontier;

  HINTERLAND_FN PagerankState(const PagerankParams& p, int64_t num_vertices, int64_t num_edges)
      : scratch{p.scratch},
        contributions(static_cast<Real*>(p.contributions)),
        sums(static_cast<Real*>(p.sums)),
        personal(static_cast<const Real*>(p.personal)),
        options(p.options),
        control(scratch.take<PagerankControl>(1)),
        frontier(scratch, num_vertices, num_edges) {}

  HINTERLAND_FN double p(int64_t vertex) const {
    return personal == nullptr ? 1.0 / static_cast<double>(frontier.num_vertices) : static_cast<double>(personal[vertex]);
  }
};

// body(vertex, parts) for all vertices: what it adds to a part ends up in the total of the same number.
template <class Team, class Body, int kTotals>
HINTERLAND_FN void sum_over_vertices(Team& team, const Frontier& frontier, double* const (&totals)[kTotals], const Body& body) {
  team.static_for(frontier.num_groups, [&](const auto& ranges) {
    double parts[kTotals] = {};
    ranges([&](int64_t first, int64_t last) {
      const int64_t end = min_of(last * kGroup, frontier.num_vertices);
      for (int64_t vertex = first * kGroup + Warp::lane(); vertex < end; vertex += Warp::kWidth) body(vertex, parts);
    });
    for (int i = 0; i < kTotals; ++i) {
      const double sum = Warp::sum(parts[i]);
      if (Warp::lane() == 0) atomic_add(*totals[i], sum);
    }
  });
}

template <class Graph>
HINTERLAND_FN double degree_or_one(const Graph& graph, int64_t vertex) {
  return static_cast<double>(max_of<int64_t>(graph.degree(vertex), 1));
}

// Scores to begin with: p, or, by degree, those that an undirected graph would have if each edge led from a vertex drawn at random: in
// proportion to degrees, D being what vertices without edges hold together,
//   score(v) = (1 - d) p(v) + d (D p(v) + (1 - D) degree(v) / E);
// summed over those vertices this is an equation for D. With d = 0 it is p. docs/pagerank.md has iterations from both.
template <class Team, class Graph, class Real>
HINTERLAND_FN void first_guess(Team& team, const Graph& graph, const PagerankState<Real>& state, bool by_degree) {
  PagerankControl& control = *state.control;
  sum_over_vertices(team, state.frontier, {&control.dangling_share}, [&](int64_t vertex, double* parts) {
    if (graph.degree(vertex) == 0) parts[0] += state.p(vertex);
  });
  const double damping = by_degree ? state.options.damping : 0, share = min_of(atomic_load(control.dangling_share), 1.0);
  const double dangling = (1 - damping) * share / (1 - damping * share);
  const double edges = static_cast<double>(max_of<int64_t>(graph.num_edges, 1));
  team.single([&] { control.dangling[0] = dangling; });
  for_each_vertex(team, state.frontier, [&](int64_t vertex, bool there) {
    if (!there) return;
    const double score = (1 - damping + damping * dangling) * state.p(vertex) +
                         damping * (1 - dangling) * static_cast<double>(graph.degree(vertex)) / edges;
    state.contributions[vertex] = static_cast<Real>(score / degree_or_one(graph, vertex));
    state.sums[vertex] = 0;
  });
}

// From sums to new scores; counts their change, and the next iteration's dangling scores.
template <class Team, class Graph, class Real>
HINTERLAND_FN void update_scores(Team& team, const Graph& graph, const PagerankState<Real>& state, int64_t iteration) {
  PagerankControl& control = *state.control;
  const double damping = state.options.damping, dangling = atomic_load(control.dangling[iteration % 2]);
  team.single([&] { control.error[(iteration + 1) % 2] = 0; });
  sum_over_vertices(team, state.frontier, {&control.error[iteration % 2], &control.dangling[(iteration + 1) % 2]},
                    [&](int64_t vertex, double* parts) {
                      const int64_t degree = graph.degree(vertex);
                      const double over = degree_or_one(graph, vertex);
                      const double sum = static_cast<double>(state.sums[vertex]);
                      const double before = over * static_cast<double>(state.contributions[vertex]);
                      const double score = (1 - damping) * state.p(vertex) + damping * (sum + dangling * state.p(vertex));
                      state.contributions[vertex] = static_cast<Real>(score / over);
                      state.sums[vertex] = 0;
                      parts[0] += score < before ? before - score : score - before;
                      if (degree == 0) parts[1] += score;
                    });
}

// The whole algorithm. Tasks are the same in every iteration, so they are collected once. It ends after the iteration that
// changes scores by less than the tolerance, summed over all vertices, or after max_iterations. `by_degree`: how it begins.
template <class Team, class Graph, class Real>
HINTERLAND_FN void pagerank(Team& team, const Graph& graph, const Graph& incoming, const PagerankState<Real>& state,
                            int64_t max_iterations, bool by_degree) {
  const Frontier& frontier = state.frontier;
  PagerankControl& control = *state.control;
  begin_first_step(team, frontier);
  const auto any = [](int64_t) { return true; };
  collect_groups(team, incoming, frontier, 0, frontier.all_groups(), where(frontier, frontier.all_groups(), any));
  first_guess(team, graph, state, by_degree);
  const int64_t num_tasks = frontier.num_tasks(0);
  double error = 0;
  int64_t iteration = 0;
  for (bool goes_on = true; goes_on; ++iteration) {
    team.single([&] {
      if (iteration != 0) {
        frontier.begin_step(iteration, team.now_ns());
        frontier.control->edges[iteration % 2] += incoming.num_edges;  // as the first iteration counted when it collected
      }
      frontier.begin_visit(iteration, num_tasks, team.now_ns());
      control.dangling[(iteration + 1) % 2] = 0;
    });
    visit_tasks(team, incoming, frontier, iteration, num_tasks,
                [&](auto&) { return SumOverLists<Real>(state.contributions, state.sums); });
    update_scores(team, graph, state, iteration);
    error = atomic_load(control.error[iteration % 2]);
    goes_on = error >= state.options.tolerance && iteration + 1 < max_iterations;
  }
  for_each_vertex(team, frontier, [&](int64_t vertex, bool there) {
    if (!there) return;
    state.sums[vertex] = static_cast<Real>(degree_or_one(graph, vertex) * static_cast<double>(state.contributions[vertex]));
  });
  team.single([&] {
    control.iterations = iteration;
    control.final_error = error;
    frontier.end(team.now_ns());
  });
}

}  // namespace hinterland::graph
