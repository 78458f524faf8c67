// The checksum of our own files: 64 bits for each block of bytes. It finds damage, not malice: any change of one
// 8-byte word changes the sum for certain, any other with all but 2^-64 of the odds.
#pragma once

#include <cstdint>
#include <cstring>

namespace hinterland::native {

inline constexpr int64_t kChecksumBlock = 1 << 20;

// Four lanes of 8 bytes, each step a bijection of the lane (xor, odd multiplication, xor-shift), so that the multiplications
// overlap and the memory is the limit.
inline uint64_t checksum(const void* data, int64_t bytes, uint64_t seed) {
  constexpr uint64_t kOdd[4] = {0x9E3779B97F4A7C15ull, 0xC2B2AE3D27D4EB4Full, 0x165667B19E3779F9ull, 0xD6E8FEB86659FD93ull};
  const auto step = [&](uint64_t lane, uint64_t word, int i) {
    lane = (lane ^ word) * kOdd[i];
    return lane ^ (lane >> 32);
  };
  const char* at = static_cast<const char*>(data);
  uint64_t lanes[4];
  for (int i = 0; i < 4; ++i) lanes[i] = step(kOdd[3 - i], seed, i);
  int64_t left = bytes;
  for (; left >= 32; left -= 32, at += 32) {
    uint64_t words[4];
    std::memcpy(words, at, 32);
    for (int i = 0; i < 4; ++i) lanes[i] = step(lanes[i], words[i], i);
  }
  uint64_t words[4] = {};
  std::memcpy(words, at, left);
  for (int i = 0; i < 4; ++i) lanes[i] = step(lanes[i], words[i], i);
  uint64_t sum = static_cast<uint64_t>(bytes);
  for (int i = 0; i < 4; ++i) sum = step(sum, lanes[i], i);
  return sum;
}

}  // namespace hinterland::native
