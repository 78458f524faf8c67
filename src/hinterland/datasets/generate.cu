// Features and lists of generated data sets on the GPU.
#include "hinterland/core/warp.hpp"
#include "hinterland/datasets/citations.hpp"
#include "hinterland/datasets/features.hpp"

namespace hinterland::datasets {

// The lists of rows [p.first, p.end), in no order: a warp for each.
template <class Id>
__global__ void fill_citations(const __grid_constant__ CitationParams p) {
  const CitationLists lists(p);
  const int64_t warps = static_cast<int64_t>(gridDim.x) * blockDim.x / Warp::kWidth;
  const int64_t warp = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / Warp::kWidth;
  for (int64_t i = warp; i < p.end - p.first; i += warps) {
    const int64_t begin = p.indptr[i], length = p.indptr[i + 1] - begin;
    Id* const out = static_cast<Id*>(p.indices) + begin - p.indptr[0];
    const CitationLists::List list = lists.list(lists.renumber().inverse(p.first + i), length);
    for (int64_t j = Warp::lane(); j < length; j += Warp::kWidth) out[j] = static_cast<Id>(lists.neighbor(list, j));
  }
}

// One thread for four columns of a row, neighbouring threads side by side.
__global__ void fill_features(FeatureParams p) {
  using Features = CommunityFeatures;
  const Features features(p.seed, p.communities);
  const int64_t columns = p.columns, quads = ceil_div(columns, int64_t{Features::kQuad});
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < (p.end - p.begin) * quads; i += step) {
    const int64_t vertex = p.begin + i / quads, quad = i % quads;
    const int64_t featured = features.featured(vertex, p.community_of[vertex - p.begin]);
    float values[Features::kQuad];
    features.values(vertex, quad, features.center(featured, quad * Features::kQuad / Features::kGroup), values);
    float* const out = p.to + (vertex - p.begin) * columns + quad * Features::kQuad;
    if (columns % Features::kQuad == 0) {
      *reinterpret_cast<float4*>(out) = make_float4(values[0], values[1], values[2], values[3]);
    } else {
      for (int k = 0; k < Features::kQuad && quad * Features::kQuad + k < columns; ++k) out[k] = values[k];
    }
  }
}

}  // namespace hinterland::datasets
