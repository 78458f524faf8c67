// Betweenness centrality on the CPU.
#pragma once

#include <cstdint>

#include "hinterland/graph/adjacency.hpp"

namespace hinterland::native {

// Arrays are those of include/hinterland/graph/bc.hpp.
void betweenness(const graph::GraphWords& graph, int64_t source, int32_t* levels, double* sigma, double* scores, char* scratch,
                 int64_t history_size);

}  // namespace hinterland::native
