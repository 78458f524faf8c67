// The GPU's shell around fullgraph/aggregate.hpp: a block for some tasks of a tile.
#include "hinterland/fullgraph/aggregate.hpp"

namespace hinterland::fullgraph {

template <class T, class Out, class Place, class Source, int kWide, int kChunks, Reduce kReduce, bool kWhole>
__global__ void __launch_bounds__(kAggregateThreads) aggregate_kernel(const __grid_constant__ AggregateParams p) {
  const int64_t tile = blockIdx.x / p.blocks, block = blockIdx.x - tile * p.blocks;
  const Aggregation<T, Out, Place, Source, kWide, kChunks, kReduce, kWhole> one(p, tile, static_cast<int>(threadIdx.x));
  one((block * blockDim.x + threadIdx.x) / p.lanes);
}

__global__ void cut_kernel(const __grid_constant__ CutParams p) {
  const int64_t number = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (number < p.count) cut_at(p, number);
}

}  // namespace hinterland::fullgraph
