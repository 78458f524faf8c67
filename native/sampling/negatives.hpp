// Negative edges on the CPU.
#pragma once

#include "hinterland/sampling/negatives.hpp"

namespace hinterland::native {

void negative_edges(const graph::GraphWords& graph, const sampling::NegativeWords& task, int64_t phase);

}  // namespace hinterland::native
