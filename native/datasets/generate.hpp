// Labels and features of generated data sets on the CPU.
#pragma once

#include <cstdint>

#include "hinterland/graph/communities.hpp"

namespace hinterland::native {

// communities[v] = the community of vertex v, for all of them.
void fill_communities(const graph::CommunityVertices& vertices, int32_t* communities);

// to[i * columns + j] = feature j of vertex begin + i, whose community is communities[i], for begin + i < end.
void fill_features(const graph::CommunityVertices& vertices, const int32_t* communities, int64_t begin, int64_t end, int64_t columns,
                   float* to);

}  // namespace hinterland::native
