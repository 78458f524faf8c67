// The adjacency matrix times a vector in one cooperative launch.
#include "hinterland/graph/spmv.hpp"
#include "hinterland/graph/visit_packed.hpp"
#include "hinterland/storage/on_device.hpp"

namespace hinterland::graph {

template <class Graph>
__global__ void __launch_bounds__(512, kBlocks<Graph>) spmv_kernel(const __grid_constant__ SpmvParams p) {
  const Graph graph(*p.graph);
  Scratch scratch{p.scratch};
  const Frontier frontier(scratch, graph.num_vertices, graph.num_edges);
  GridTeam team(&frontier.control->team);
  spmv(team, graph, frontier, p.x, p.y);
}

}  // namespace hinterland::graph
