// Reciprocal distances from up to 64 sources in one cooperative launch.
#include "hinterland/graph/harmonic.hpp"
#include "hinterland/graph/visit_packed.hpp"
#include "hinterland/storage/on_device.hpp"

namespace hinterland::graph {

template <class Graph>
__global__ void __launch_bounds__(512, kBlocks<Graph>) harmonic_kernel(const __grid_constant__ HarmonicParams p) {
  const Graph out(*p.graph), in(p.incoming == nullptr ? *p.graph : *p.incoming);
  const HarmonicState state(p, out.num_vertices, out.num_edges);
  GridTeam team(&state.frontier.control->team);
  harmonic(team, out, p.incoming == nullptr ? nullptr : &in, state, p.sources, p.num_sources);
}

}  // namespace hinterland::graph
