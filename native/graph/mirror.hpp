// Whether the edges of a graph are the reverses of each other, by one sum over them in any order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "graph/build.hpp"

namespace hinterland::native {

// Every bit of the result depends on every bit of the number (the finalizer of SplitMix64; Steele, Lea and Flood 2014).
inline uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

inline uint64_t weight_bits(WeightArray weights, int64_t i) {
  if (weights.data == nullptr) return 0;
  uint64_t bits = 0;
  switch (weights.bytes) {
    case 1: bits = static_cast<const uint8_t*>(weights.data)[i]; break;
    case 2: bits = static_cast<const uint16_t*>(weights.data)[i]; break;
    case 4: bits = static_cast<const uint32_t*>(weights.data)[i]; break;
    default: bits = static_cast<const uint64_t*>(weights.data)[i];
  }
  const bool is_zero = weights.order == WeightOrder::kFloat && bits << (65 - 8 * weights.bytes) == 0;
  return is_zero ? 0 : bits;  // either zero
}

// A random number of an edge's two ends and its weight.
inline uint64_t edge_number(int64_t from, int64_t to, uint64_t weight) {
  constexpr uint64_t kFrom = 0x9E3779B97F4A7C15u, kTo = 0xD1342543DE82EF95u, kWeight = 0xDA942042E4DD58B5u;  // any, but odd
  return mixed(from * kFrom + to * kTo + weight * kWeight);
}

// The number of the edge's lower end, its higher one and its weight, added on the way up and taken away on the way down: what
// an edge and its reverse add is 0, and so is the sum over all edges if each has its reverse. Otherwise it is 0 by coincidence
// only.
inline uint64_t up_less_down(int64_t from, int64_t to, uint64_t weight) {
  const uint64_t number = edge_number(std::min(from, to), std::max(from, to), weight);
  return from < to ? number : from > to ? -number : 0;
}

}  // namespace hinterland::native
