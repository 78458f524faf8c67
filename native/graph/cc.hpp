// Connected components and their verifier on the CPU.
#pragma once

#include <cstdint>

#include "hinterland/graph/cc.hpp"

namespace hinterland::native {

// id_bytes (4 or 8) is the width of a label.
void connected_components(const graph::ComponentsParams& params, int id_bytes);

// In the order in which they are reported. kGraph and kEdge are about an edge, the others about a vertex.
enum class ComponentsRule : int64_t { kNone, kSmallest, kGraph, kEdge, kConnected };

// The first rule that does not hold, and the smallest vertex, or position in the edge array, where it does not.
struct ComponentsFinding {
  ComponentsRule rule;
  int64_t position;
};

ComponentsFinding verify_components(const graph::GraphWords& graph, const int64_t* labels);

}  // namespace hinterland::native
