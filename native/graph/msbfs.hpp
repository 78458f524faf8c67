// Multi-source breadth-first search on the CPU.
#pragma once

#include <cstdint>

#include "hinterland/graph/msbfs.hpp"

namespace hinterland::native {

// mask_bytes (4 or 8) is the width of a mask.
void msbfs(const graph::MsBfsParams& params, int mask_bytes);

}  // namespace hinterland::native
