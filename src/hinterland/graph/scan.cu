// Every list of a graph once, in one cooperative launch.
#include "hinterland/graph/scan.hpp"
#include "hinterland/graph/visit_packed.hpp"
#include "hinterland/storage/on_device.hpp"

namespace hinterland::graph {

template <class Graph>
__global__ void __launch_bounds__(512, kBlocks<Graph>) scan_kernel(const __grid_constant__ ScanParams p) {
  const Graph graph(*p.graph);
  Scratch scratch{p.scratch};
  const Frontier frontier(scratch, graph.num_vertices, graph.num_edges);
  GridTeam team(&frontier.control->team);
  scan_lists(team, graph, frontier, p.sum);
}

}  // namespace hinterland::graph
