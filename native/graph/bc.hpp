// Betweenness centrality on the CPU.
#pragma once

#include "hinterland/graph/bc.hpp"

namespace hinterland::native {

void betweenness(const graph::BcParams& params);

}  // namespace hinterland::native
