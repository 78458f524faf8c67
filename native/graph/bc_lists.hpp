// Betweenness on the CPU where a search is short: one thread does all of it, from lists of the levels' vertices, while others
// search from other sources. A level costs no more than its vertices and edges, so graphs of long paths, whose levels are a few
// vertices each, take no longer than others; the driver of include/hinterland/graph/bc.hpp, whose threads share each level,
// takes some 200 ns a level.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "core/team.hpp"
#include "core/thresholds.hpp"
#include "graph/entries.hpp"
#include "hinterland/graph/bc.hpp"

namespace hinterland::native {

struct BcListsParams {
  const graph::GraphWords* graph;
  const int64_t* sources;
  int64_t count;
  int64_t undirected;  // every edge is there in both directions
  int64_t of_edges;    // scores are those of edges, not of vertices
  double* scores;      // added to
  int64_t* broken;     // becomes the smallest vertex whose list is broken, where one is less than it
  int64_t* overflow;   // and this the first source that more paths lead from than a double counts, by its place among them
};

// The searches of one thread. The names are those of bc.hpp.
template <class Graph>
class BcSearch {
 public:
  BcSearch(const Graph& graph, const BcListsParams& p)
      : graph_(graph), p_(p), levels_(graph.num_vertices, -1), sigma_(graph.num_vertices), c_(graph.num_vertices) {
    order_.reserve(graph.num_vertices);
  }

  // What the source at this place adds to the scores.
  void run(int64_t place, double* sums) {
    forward(p_.sources[place]);
    p_.of_edges != 0 ? back<true>(sums) : back<false>(sums);
    for (const int64_t v : order_) {
      if (sigma_[v] > std::numeric_limits<double>::max()) atomic_min(*p_.overflow, place);
      if (p_.of_edges == 0 && v != order_[0]) sums[v] += sigma_[v] * (c_[v] - 1 / sigma_[v]);
      levels_[v] = -1;
    }
  }

 private:
  // use(position, v) for the edges of u.
  template <class Use>
  void each_edge(int64_t u, const Use& use) {
    if (!graph_.offsets.list_alone(u).lies_within(graph_.num_edges)) [[unlikely]]
      atomic_min(*p_.broken, u);
    for_each_entry(graph_, u, [&](int64_t i, int64_t v) {
      if (graph_.has(v)) [[likely]]
        use(i, v);
      else
        atomic_min(*p_.broken, u);
    });
  }

  void enter(int64_t v, int32_t level, double paths) {
    levels_[v] = level;
    sigma_[v] = paths;
    order_.push_back(v);
  }

  [[nodiscard]] bool is_cheaper(int64_t far, int64_t near) const {
    return p_.undirected != 0 && p_.of_edges == 0 && graph::is_cheaper(far, near, graph_.num_vertices);
  }

  // 0 of a broken list, whose ends may be further apart than numbers go.
  int64_t degree(int64_t v) const {
    const graph::Piece list = graph_.offsets.list_alone(v);
    return list.lies_within(graph_.num_edges) ? list.length() : 0;
  }

  int64_t end() const { return static_cast<int64_t>(order_.size()); }

  // Level d becomes order_[begins_[d] .. begins_[d + 1]), with edges_[d] edges.
  void forward(int64_t source) {
    order_.clear();
    edges_.clear();
    begins_.assign(1, 0);
    enter(source, 0, 1);
    int64_t left = graph_.num_edges;
    for (int32_t depth = 0; begins_.back() < end(); ++depth) {
      const int64_t first = begins_.back(), last = end();
      begins_.push_back(last);
      edges_.push_back(0);
      for (int64_t at = first; at < last; ++at) edges_.back() += degree(order_[at]);
      left -= edges_.back();
      if (last == graph_.num_vertices) return;
      if (is_cheaper(left, edges_.back())) {
        pull(depth);
        continue;
      }
      for (int64_t at = first; at < last; ++at) {
        const double paths = sigma_[order_[at]];
        each_edge(order_[at], [&](int64_t, int64_t v) {
          if (levels_[v] < 0)
            enter(v, depth + 1, paths);
          else if (levels_[v] == depth + 1)
            sigma_[v] += paths;
        });
      }
    }
  }

  void pull(int32_t depth) {
    for (int64_t v = 0; v < graph_.num_vertices; ++v) {
      if (levels_[v] >= 0) continue;
      double paths = 0;
      each_edge(v, [&](int64_t, int64_t u) { paths += levels_[u] == depth ? sigma_[u] : 0; });
      if (paths > 0) enter(v, depth + 1, paths);
    }
  }

  // Edges have parts from the source on, other vertices than it shares.
  template <bool kOfEdges>
  void back(double* sums) {
    for (int64_t v : order_) c_[v] = 1 / sigma_[v];
    const auto levels = static_cast<int64_t>(edges_.size());
    for (auto level = static_cast<int32_t>(levels - 2); level >= (kOfEdges ? 0 : 1); --level) {
      if (is_cheaper(edges_[level + 1], edges_[level])) {
        give(level);
        continue;
      }
      for (int64_t at = begins_[level]; at < begins_[level + 1]; ++at) {
        const int64_t u = order_[at];
        double sum = 0;
        each_edge(u, [&](int64_t i, int64_t v) {
          if (levels_[v] != level + 1) return;
          sum += c_[v];
          if constexpr (kOfEdges) sums[i] += sigma_[u] * c_[v];
        });
        c_[u] += sum;
      }
    }
  }

  // From the level below.
  void give(int32_t level) {
    for (int64_t at = begins_[level + 1]; at < begins_[level + 2]; ++at) {
      const double own = c_[order_[at]];
      each_edge(order_[at], [&](int64_t, int64_t u) {
        if (levels_[u] == level) c_[u] += own;
      });
    }
  }

  const Graph& graph_;
  const BcListsParams& p_;
  std::vector<int32_t> levels_;
  std::vector<double> sigma_, c_;
  std::vector<int64_t> order_, begins_, edges_;
};

// Scores are the same for any number of threads: sums over a few sources each, which are added in the sources' order.
template <class Graph>
void betweenness_by_lists(const Graph& graph, const BcListsParams& p) {
  const int64_t size = p.of_edges != 0 ? graph.num_edges : graph.num_vertices, threads = num_threads();
  const int64_t blocks = ceil_div(p.count, kSourcesTogether);
  const int64_t at_once =
      std::min(blocks, std::max(threads, std::min(kMostSums, kBytesOfSums / (8 * std::max<int64_t>(size, 1)))));
  std::vector<std::unique_ptr<BcSearch<Graph>>> searches(threads);
  std::vector<double> sums(at_once * size);
  ThreadTeam team;
  for (int64_t first = 0; first < blocks; first += at_once) {
    const int64_t some = std::min(at_once, blocks - first);
    parallel_tasks(some, [&](int64_t block, int thread) {
      if (searches[thread] == nullptr) searches[thread] = std::make_unique<BcSearch<Graph>>(graph, p);
      const int64_t begin = (first + block) * kSourcesTogether;
      for (int64_t place = begin; place < std::min(begin + kSourcesTogether, p.count); ++place)
        searches[thread]->run(place, sums.data() + block * size);
    });
    team.pieces_for(size, [&](int64_t begin, int64_t end) {
      for (int64_t block = 0; block < some; ++block)
        for (int64_t i = begin; i < end; ++i) p.scores[i] += std::exchange(sums[block * size + i], 0);
    });
  }
}

}  // namespace hinterland::native
