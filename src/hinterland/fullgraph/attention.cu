// The GPU's shell around fullgraph/attention.hpp: a block for some heads of some rows.
#include "hinterland/fullgraph/attention.hpp"

namespace hinterland::fullgraph {

template <class T, class Place, class Source, int kWide, int kChunks, Score kScore, AttentionPass kPass>
__global__ void __launch_bounds__(kAggregateThreads) attention_kernel(const __grid_constant__ AttentionParams p) {
  Attention<T, Real<T>, Place, Source, kWide, kChunks, kScore, kPass> one(p, static_cast<int>(threadIdx.x));
  one((static_cast<int64_t>(blockIdx.x) * kAggregateThreads + threadIdx.x) / p.lanes);
}

}  // namespace hinterland::fullgraph
