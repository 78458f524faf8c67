// Neighbour lists as arrays of a graph, plain or packed, for tests that run with both.
#pragma once

#include <algorithm>
#include <type_traits>
#include <vector>

#include "hinterland/graph/visit_packed.hpp"
#include "offset_widths.hpp"

namespace hinterland {

using Adjacency = std::vector<std::vector<int>>;

// The first `prefix_length` neighbours of each list are there once more. Plain edges, and all weights, come after `padding`
// that belong to nobody, so they begin anywhere within a cache line; lists that are packed must ascend. Weights are in the
// order of the lists. `narrow`: of either kind of offsets, a bit each.
template <class Graph>
class ListArrays {
  using Edge = typename Graph::Edge;
  using Weight = typename Graph::Weight;
  static constexpr bool kPacked = requires(const Graph& graph) { graph.packed_end; };

 public:
  graph::GraphWords words{};

  ListArrays(const Adjacency& lists, int64_t padding, int64_t prefix_length, unsigned narrow,
             const std::vector<Weight>& weights = {})
      : edges_(padding, -1), adjacency_prefix_(prefix_length * lists.size(), -1), weights_(padding) {
    const int64_t vertices = lists.size();
    std::vector<int64_t> offsets{0}, packed_offsets{0};
    std::vector<uint8_t> stream;
    for (int64_t v = 0; v < vertices; ++v) {
      const auto& list = lists[v];
      for (size_t j = 0; j < list.size() && static_cast<int64_t>(j) < prefix_length; ++j)
        adjacency_prefix_[j * vertices + v] = list[j];
      offsets.push_back(offsets.back() + static_cast<int64_t>(list.size()));
      if constexpr (kPacked) {
        const graph::PackedShape shape(vertices, list.size());
        stream.resize(packed_offsets.back() + packed_list_bytes(shape, list.data()));
        pack_list(shape, list.data(), stream.data() + packed_offsets.back(),
                  static_cast<int64_t>(stream.size()) - packed_offsets.back());
        packed_offsets.push_back(stream.size());
      } else {
        edges_.insert(edges_.end(), list.begin(), list.end());
      }
    }
    weights_.insert(weights_.end(), weights.begin(), weights.end());
    packed_.resize(graph::packed_bytes(stream.size()) / 4);
    std::copy(stream.begin(), stream.end(), reinterpret_cast<uint8_t*>(packed_.data()));
    offsets_ = HeldOffsets(offsets, narrow % 2);
    packed_offsets_ = HeldOffsets(packed_offsets, narrow / 2 % 2);
    words.num_vertices = vertices;
    words.num_edges = offsets.back();
    words.offsets = offsets_.view();
    words.adjacency_prefix = adjacency_prefix_.data();
    words.prefix_length = prefix_length;
    words.num_isolated = std::count_if(lists.begin(), lists.end(), [](const auto& list) { return list.empty(); });
    if constexpr (Graph::kWeighted) words.weights.home = weights_.data() + padding;
    if constexpr (kPacked) {
      words.packed.home = packed_.data();
      words.packed_offsets = packed_offsets_.view();
      words.packed_end = static_cast<int64_t>(stream.size());
    } else {
      words.edges.home = edges_.data() + padding;
    }
  }
  ListArrays(const ListArrays&) = delete;

 private:
  HeldOffsets offsets_, packed_offsets_;
  std::vector<Edge> edges_, adjacency_prefix_;
  std::vector<Weight> weights_;
  std::vector<uint32_t> packed_;
};

// The lists of in-neighbours, ascending.
inline Adjacency transposed(const Adjacency& lists) {
  Adjacency before(lists.size());
  for (size_t u = 0; u < lists.size(); ++u)
    for (int v : lists[u]) before[v].push_back(static_cast<int>(u));
  return before;
}

}  // namespace hinterland
