// Random walks on the CPU.
#pragma once

#include "hinterland/sampling/walks.hpp"

namespace hinterland::native {

void random_walks(const graph::GraphWords& graph, const sampling::WalkWords& task);

}  // namespace hinterland::native
