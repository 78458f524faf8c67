// PageRank on the CPU.
#pragma once

#include "hinterland/graph/pagerank.hpp"

namespace hinterland::native {

// real_bytes (4 or 8) is the width of a number.
void pagerank(const graph::PagerankParams& params, int real_bytes);

}  // namespace hinterland::native
