// One step of a hotness score in one cooperative launch.
#include "hinterland/graph/visit_packed.hpp"
#include "hinterland/hotness/propagate.hpp"
#include "hinterland/storage/on_device.hpp"

namespace hinterland::hotness {

template <class Graph>
__global__ void __launch_bounds__(512, graph::kBlocks<Graph>) propagate_kernel(const __grid_constant__ PropagateParams p) {
  const Graph graph(*p.graph);
  graph::Scratch scratch{p.scratch};
  const graph::Frontier frontier(scratch, graph.num_vertices, graph.num_edges);
  GridTeam team(&frontier.control->team);
  propagate(team, graph, frontier, p.values, p.sums, p.pull != 0);
}

}  // namespace hinterland::hotness
