// A step of the hotness scores on the CPU.
#pragma once

#include "hinterland/graph/adjacency.hpp"

namespace hinterland::native {

// Arrays are those of include/hinterland/hotness/propagate.hpp, [num_vertices] each; scratch is as FrontierLayout asks for.
void propagate(const graph::GraphWords& graph, const double* values, double* sums, bool pull, char* scratch);

}  // namespace hinterland::native
