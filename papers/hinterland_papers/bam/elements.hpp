// Elements of an array on storage read and written by their numbers, or all in order: what micro-benchmarks and tests time and
// check (Mailthody 2022, sections 5.4 and 6.2), and nothing around it.
#pragma once

#include "hinterland_papers/bam/array.hpp"

namespace hinterland::bam {

struct ReadParams {
  memory::ArrayWords array;
  int64_t elements;   // of the array
  const int64_t* at;  // [count]; null reads elements 0, 1, 2 and so on, from the beginning again after the last
  int64_t count;
  void* to;       // [count]; null where only their sum is wanted
  uint64_t* sum;  // of all that was read, as unsigned numbers
};

struct WriteParams {
  memory::ArrayWords array;
  int64_t elements;   // of the array
  const int64_t* at;  // [count]: where runs begin; null: one after the other
  int64_t count;
  int64_t run;         // elements of each run; 1: each by itself
  const void* values;  // [count * run]; null: each element becomes its own number
};

inline constexpr int kElementThreads = 256;
inline constexpr int kElementsInFlight = 4;

// Chunks of warp `warp` of `warps`; all lanes call it together.
template <class T, class Sources>
HINTERLAND_FN void read_elements(const ReadParams& p, int64_t warp, int64_t warps) {
  const typename Sources::template Large<T> array(p.array, p.elements);
  constexpr int64_t kChunk = int64_t{kElementsInFlight} * Warp::kWidth;
  memory::NoMeter meter;
  uint64_t sum = 0;
  for (int64_t first = warp * kChunk; first < p.count; first += warps * kChunk) {
    int64_t at[kElementsInFlight];
    T found[kElementsInFlight];
    for (int k = 0; k < kElementsInFlight; ++k) {
      const int64_t i = first + k * Warp::kWidth + Warp::lane();
      at[k] = i >= p.count ? memory::kNowhere : p.at != nullptr ? p.at[i] : i % p.elements;
    }
    if constexpr (requires { array.store; })
      p.at != nullptr ? array.read_scattered(at, found, meter) : array.read(at, found, meter);
    else
      array.read(at, found, meter);
    for (int k = 0; k < kElementsInFlight; ++k) {
      const int64_t i = first + k * Warp::kWidth + Warp::lane();
      sum += static_cast<uint64_t>(found[k]);
      if (p.to != nullptr && i < p.count) static_cast<T*>(p.to)[i] = found[k];
    }
  }
  sum = Warp::sum(sum);
  if (Warp::lane() == 0) atomic_add(*p.sum, sum);
}

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
  constexpr int64_t kChunk = int64_t{kElementsInFlight} * Warp::kWidth;
  for (int64_t first = warp * kChunk; first < p.count; first += warps * kChunk) {
    int64_t at[kElementsInFlight];
    T values[kElementsInFlight];
    for (int k = 0; k < kElementsInFlight; ++k) {
      const int64_t i = first + k * Warp::kWidth + Warp::lane();
      at[k] = i < p.count ? begin_of(i) : memory::kNowhere;
      values[k] = i < p.count ? value(at[k], i) : T{};
    }
    array.write(at, values);
  }
}

}  // namespace hinterland::bam
