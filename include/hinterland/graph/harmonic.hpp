// Harmonic centrality: of each vertex the sum of 1 / d(s, v) over the sources s that reach it (Boldi and Vigna, "Axioms for
// centrality", Internet Mathematics 2014). Searches are those of msbfs.hpp, 64 sources in one: a vertex that n of them have
// just reached at distance d adds n / d.
//
// A vertex is reached by one lane a level, so sums have one order: scores are the same, to the bit, on any processor.
#pragma once

#include "hinterland/graph/msbfs.hpp"

namespace hinterland::graph {

// What a search is given. Graphs lie in memory that the processor addresses.
struct HarmonicParams {
  const GraphWords* graph;
  const GraphWords* incoming;  // lists of in-neighbours; null: only push
  const int64_t* sources;      // [num_sources]
  int64_t num_sources;         // at most kMostSources
  double* scores;              // [vertices], sums of the searches before
  char* scratch;               // that of a HarmonicState
};

struct HarmonicState : MsBfsState<uint64_t> {
  double* scores;

  HINTERLAND_FN HarmonicState(const HarmonicParams& p, int64_t num_vertices, int64_t num_edges)
      : MsBfsState({p.graph, p.incoming, p.sources, p.num_sources, nullptr, p.scratch}, num_vertices, num_edges),
        scores(p.scores) {}
};

struct AddReciprocals {
  double* scores;

  HINTERLAND_FN void operator()(int64_t vertex, uint64_t fresh, int64_t depth) const {
    if (fresh != 0 && depth != 0) scores[vertex] += stdlib::popcount(fresh) / static_cast<double>(depth);
  }
};

template <class Team, class Graph>
HINTERLAND_FN void harmonic(Team& team, const Graph& graph, const Graph* incoming, const HarmonicState& state,
                            const int64_t* sources, int64_t num_sources) {
  msbfs(team, graph, incoming, state, sources, num_sources, AddReciprocals{state.scores});
}

}  // namespace hinterland::graph
