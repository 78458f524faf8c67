// Labels and features of generated data sets on the CPU.
#pragma once

#include <cstdint>

#include "hinterland/datasets/features.hpp"
#include "hinterland/graph/communities.hpp"

namespace hinterland::native {

// communities[v] = the community of vertex v, for all of them.
void fill_communities(const graph::CommunityVertices& vertices, int32_t* communities);

void fill_features(const datasets::FeatureParams& params);

}  // namespace hinterland::native
