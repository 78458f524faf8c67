// Elements of an array on storage, by their numbers or all in order: the reads that micro-benchmarks and tests time and check
// (Mailthody 2022, sections 5.4 and 6.2), and nothing around them.
#pragma once

#include "hinterland/storage/page_store.hpp"
#include "hinterland/storage/source.hpp"

namespace hinterland::storage {

using DeviceSources = OnStorage<DeviceStore>;

struct ReadParams {
  memory::ArrayWords array;
  int64_t elements;   // of the array
  const int64_t* at;  // [count]; null reads elements 0, 1, 2 and so on, from the beginning again after the last
  int64_t count;
  void* to;       // [count]; null where only their sum is wanted
  uint64_t* sum;  // of all that was read, as unsigned numbers
};

inline constexpr int kReadThreads = 256;
inline constexpr int kReadsInFlight = 4;

// Chunks of warp `warp` of `warps`; all lanes call it together.
template <class T, class Sources>
HINTERLAND_FN void read_elements(const ReadParams& p, int64_t warp, int64_t warps) {
  const typename Sources::template Large<T> array(p.array, p.elements);
  constexpr int64_t kChunk = int64_t{kReadsInFlight} * Warp::kWidth;
  memory::NoMeter meter;
  uint64_t sum = 0;
  for (int64_t first = warp * kChunk; first < p.count; first += warps * kChunk) {
    int64_t at[kReadsInFlight];
    T found[kReadsInFlight];
    for (int k = 0; k < kReadsInFlight; ++k) {
      const int64_t i = first + k * Warp::kWidth + Warp::lane();
      at[k] = i >= p.count ? memory::kNowhere : p.at != nullptr ? p.at[i] : i % p.elements;
    }
    if constexpr (requires { array.store; })
      p.at != nullptr ? array.read_scattered(at, found, meter) : array.read(at, found, meter);
    else
      array.read(at, found, meter);
    for (int k = 0; k < kReadsInFlight; ++k) {
      const int64_t i = first + k * Warp::kWidth + Warp::lane();
      sum += static_cast<uint64_t>(found[k]);
      if (p.to != nullptr && i < p.count) static_cast<T*>(p.to)[i] = found[k];
    }
  }
  sum = Warp::sum(sum);
  if (Warp::lane() == 0) atomic_add(*p.sum, sum);
}

}  // namespace hinterland::storage
