// Hashes of words.
#pragma once

#include <cstdint>

namespace hinterland::native {

inline uint64_t mixed(uint64_t hash, uint64_t word) {  // as SplitMix64's last steps
  hash = (hash ^ word) * 0x9e3779b97f4a7c15;
  hash = (hash ^ (hash >> 32)) * 0xd6e8feb86659fd93;
  return hash ^ (hash >> 32);
}

}  // namespace hinterland::native
