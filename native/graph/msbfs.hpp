// Multi-source breadth-first search on the CPU.
#pragma once

#include <cstdint>

#include "hinterland/graph/adjacency.hpp"

namespace hinterland::native {

// `in` may be null; mask_bytes (4 or 8) is the width of a mask. Arrays are those of include/hinterland/graph/msbfs.hpp.
void msbfs(const graph::GraphWords& out, const graph::GraphWords* in, const int64_t* sources, int64_t num_sources, int32_t* levels,
           char* scratch, int mask_bytes);

}  // namespace hinterland::native
