// The kernels of query/by_warp.cu by the 32 lanes of a warp, one warp after another: a library for tests without a GPU.
#include "hinterland/query/by_warp.hpp"

using namespace hinterland;
using namespace hinterland::query;

extern "C" {

void filter_kernel(const ChunkFilterParams* p) {
  for (int64_t first = p->begin; first < p->end; first += kUnitRows) {
    Lanes::run([&] {
      UnitStage stage;
      filter_unit(*p, first, stage);
    });
  }
}

void group_kernel(const ChunkGroupParams* p) {
  for (int64_t block = p->begin; block < p->end; block += kBlockRows) Lanes::run([&] { number_block(*p, block); });
}

void total_kernel(const ChunkTotalParams* p) {
  const int64_t warps = (p->end - p->begin) / kBlockRows * p->measured;
  for (int64_t number = 0; number < warps; ++number) {
    const Measure& measure = p->measures[number % p->measured];
    const int64_t block = p->begin + number / p->measured * kBlockRows;
    Lanes::run([&] {
      with_kind(kind_of(p->columns, measure),
                [&](auto kind) { total_block<decltype(kind)>(*p, measure, block, p->totals + number * p->grouped); });
    });
  }
}

void merge_kernel(const ChunkMergeParams* p) {
  for (int64_t number = 0; number < p->measured * p->grouped; ++number) {
    const int64_t measure = number / p->grouped;
    Lanes::run([&] {
      with_kind(kind_of(p->columns, p->measures[measure]),
                [&](auto kind) { merge_blocks<decltype(kind)>(*p, measure, number % p->grouped); });
    });
  }
}

}  // extern "C"
