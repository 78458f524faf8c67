// All widest paths from one vertex in two cooperative launches: the CPU decides nothing between steps.
#include "hinterland/graph/sswp.hpp"
#include "hinterland/graph/visit_packed.hpp"
#include "hinterland/storage/on_device.hpp"

namespace hinterland::graph {

template <class Graph, bool kSecond>
__global__ void __launch_bounds__(512, kBlocks<Graph>) sswp_kernel(const __grid_constant__ PathParams p) {
  best_paths_of<kSecond, Graph, Widest<typename Graph::Weight>>(p);
}

}  // namespace hinterland::graph
