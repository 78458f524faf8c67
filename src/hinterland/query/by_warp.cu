// The GPU's shell around query/by_warp.hpp: a warp for each 1024 rows, block, block and measure, or measure and group.
#include "hinterland/query/by_warp.hpp"

namespace hinterland::query {

__device__ inline int64_t this_warp() { return (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / Warp::kWidth; }

__global__ void __launch_bounds__(kBlockThreads) filter_kernel(ChunkFilterParams p) {
  const int64_t warps = static_cast<int64_t>(gridDim.x) * (blockDim.x / Warp::kWidth);
  UnitStage stage;
  for (int64_t first = p.begin + this_warp() * kUnitRows; first < p.end; first += warps * kUnitRows)
    filter_unit(p, first, stage);
}

__global__ void __launch_bounds__(kBlockThreads) group_kernel(ChunkGroupParams p) {
  const int64_t block = p.begin + this_warp() * kBlockRows;
  if (block < p.end) number_block(p, block);
}

__global__ void __launch_bounds__(kBlockThreads) total_kernel(ChunkTotalParams p) {
  const int64_t number = this_warp(), block = p.begin + number / p.measured * kBlockRows;
  if (block >= p.end) return;
  const Measure& measure = p.measures[number % p.measured];
  with_kind(kind_of(p.columns, measure),
            [&](auto kind) { total_block<decltype(kind)>(p, measure, block, p.totals + number * p.grouped); });
}

__global__ void __launch_bounds__(kBlockThreads) merge_kernel(ChunkMergeParams p) {
  const int64_t number = this_warp();
  if (number >= p.measured * p.grouped) return;
  const int64_t measure = number / p.grouped;
  with_kind(kind_of(p.columns, p.measures[measure]),
            [&](auto kind) { merge_blocks<decltype(kind)>(p, measure, number % p.grouped); });
}

}  // namespace hinterland::query
