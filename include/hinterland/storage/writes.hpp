// Elements of an array on storage written by their numbers, or runs of them: the writes that micro-benchmarks and tests time and
// check (Mailthody 2022, section 5.4), and nothing around them; and the flush of a store, which is kernels' work where its frames
// lie in a GPU's memory.
#pragma once

#include "hinterland/storage/reads.hpp"
#include "hinterland/storage/written.hpp"

namespace hinterland::storage {

struct WriteParams {
  memory::ArrayWords array;
  int64_t elements;   // of the array
  const int64_t* at;  // [count]: where runs begin; null: one after the other
  int64_t count;
  int64_t run;         // elements of each run; 1: each by itself
  const void* values;  // [count * run]; null: each element becomes its own number
};

struct FlushParams {
  const DeviceStore* store;
};

// What warp `warp` of `warps` does; all lanes call it together.
template <class T, class Sources>
HINTERLAND_FN void write_elements(const WriteParams& p, int64_t warp, int64_t warps) {
  const typename Sources::template Large<T> array(p.array, p.elements);
  const auto begin_of = [&](int64_t i) { return p.at != nullptr ? p.at[i] : i * p.run % p.elements; };
  const auto value = [&](int64_t at, int64_t i) {
    return p.values != nullptr ? static_cast<const T*>(p.values)[i] : static_cast<T>(at);
  };
  if (p.run > 1) {
    for (int64_t i = warp; i < p.count; i += warps) {
      const int64_t begin = begin_of(i);
      array.write_run(begin, min_of(begin + p.run, p.elements), [&](int64_t at) { return value(at, i * p.run + at - begin); });
    }
    return;
  }
  constexpr int64_t kChunk = int64_t{kReadsInFlight} * Warp::kWidth;
  for (int64_t first = warp * kChunk; first < p.count; first += warps * kChunk) {
    int64_t at[kReadsInFlight];
    T values[kReadsInFlight];
    for (int k = 0; k < kReadsInFlight; ++k) {
      const int64_t i = first + k * Warp::kWidth + Warp::lane();
      at[k] = i < p.count ? begin_of(i) : memory::kNowhere;
      values[k] = i < p.count ? value(at[k], i) : T{};
    }
    array.write(at, values);
  }
}

}  // namespace hinterland::storage
