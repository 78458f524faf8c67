// Every list of a graph once: what reading, and decoding, the neighbours costs before an algorithm does anything with them.
#include "hinterland/graph/visit_packed.hpp"

namespace hinterland {

struct SumOfNeighbors {
  int64_t sum = 0;

  template <class Batch>
  HINTERLAND_FN void operator()(const Batch& batch) {
    for (int k = 0; k < Batch::kSize; ++k)
      if (batch.from[k] >= 0) sum += batch.to[k];
  }
};

// result[0] += the sum of all neighbours, result[1] += the bytes that their lists take in whole sectors. `scratch`
// is a frontier's; each warp makes the vertices of its groups active.
template <class Graph>
__global__ void __launch_bounds__(512, 2) scan_lists(const GraphWords* words, char* scratch, int64_t* result) {
  const Graph graph(*words);
  const Frontier frontier(scratch, FrontierLayout(graph.num_vertices, graph.num_edges), graph.num_vertices);
  const int64_t warps = static_cast<int64_t>(gridDim.x) * (blockDim.x / Warp::kWidth);
  const int64_t warp = (static_cast<int64_t>(threadIdx.x) / Warp::kWidth) * gridDim.x + blockIdx.x;
  SumOfNeighbors sum;
  StepCounts counts;
  for (int64_t group = warp; group < frontier.num_groups; group += warps) {
    const int64_t vertex = group * kGroup + Warp::lane();
    const uint32_t word = Warp::ballot(graph.has(vertex));
    if (Warp::lane() == 0) frontier.current[group] = word;
    Warp::sync();
    const int64_t chunks = lists_of(graph, vertex, graph.has(vertex), counts).chunks;
    for (int64_t first = 0; first < chunks; first += kTaskChunks) visit(graph, frontier, {group, first}, sum, counts);
  }
  const int64_t all = Warp::sum(sum.sum), bytes = Warp::sum(counts.bytes);
  if (Warp::lane() == 0) atomic_add(result[0], all), atomic_add(result[1], bytes);
}

}  // namespace hinterland
