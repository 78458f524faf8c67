// PageRank on the CPU.
#pragma once

#include <cstdint>

#include "hinterland/graph/adjacency.hpp"

namespace hinterland::graph {
struct PagerankOptions;
}

namespace hinterland::native {

// `in` may be `out` itself. Numbers of `personal` (which may be null), contributions and sums have real_bytes (4 or 8) bytes.
// Arrays are those of include/hinterland/graph/pagerank.hpp.
void pagerank(const graph::GraphWords& out, const graph::GraphWords& in, const graph::PagerankOptions& options, int64_t max_iterations,
              bool by_degree, const void* personal, void* contributions, void* sums, int real_bytes, char* scratch);

}  // namespace hinterland::native
