// Every list of a graph once, on the CPU.
#pragma once

#include "hinterland/graph/scan.hpp"

namespace hinterland::native {

void scan_lists(const graph::ScanParams& params);

}  // namespace hinterland::native
