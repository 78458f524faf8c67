// A keyed bijection of [0, size): a Feistel network whose round keys come from Philox, with cycle walking (Black and Rogaway,
// "Ciphers with arbitrary finite domains", 2002) where `size` is no power of two. It renumbers vertices without a table.
#pragma once

#include "hinterland/core/philox.hpp"
#include "hinterland/core/platform.hpp"

namespace hinterland::graph {

class Permutation {
 public:
  HINTERLAND_FN Permutation(uint64_t key, int64_t size) : size_(static_cast<uint64_t>(size)) {
    int bits = 2;  // each half needs a bit
    while (bits < 62 && (uint64_t{1} << bits) < size_) ++bits;
    low_bits_ = bits / 2;
    high_bits_ = bits - low_bits_;
    const Philox random{key};
    for (int round = 0; round < kRounds; ++round) keys_[round] = random.bits64(static_cast<uint64_t>(round));
  }

  HINTERLAND_FN int64_t operator()(int64_t element) const {
    uint64_t x = static_cast<uint64_t>(element);
    // The network permutes [0, 2^bits), so following it from inside [0, size) must come back inside.
    do {
      x = network(x);
    } while (x >= size_);
    return static_cast<int64_t>(x);
  }

  // The element that lands on `image`.
  HINTERLAND_FN int64_t inverse(int64_t image) const {
    uint64_t x = static_cast<uint64_t>(image);
    do {
      x = network_back(x);
    } while (x >= size_);
    return static_cast<int64_t>(x);
  }

 private:
  static constexpr int kRounds = 6;

  HINTERLAND_FN uint64_t network(uint64_t x) const {
    const uint64_t low_mask = (uint64_t{1} << low_bits_) - 1, high_mask = (uint64_t{1} << high_bits_) - 1;
    uint64_t low = x & low_mask, high = x >> low_bits_;
    for (int round = 0; round < kRounds; round += 2) {
      high ^= mix(low, keys_[round]) & high_mask;
      low ^= mix(high, keys_[round + 1]) & low_mask;
    }
    return (high << low_bits_) | low;
  }

  HINTERLAND_FN uint64_t network_back(uint64_t x) const {
    const uint64_t low_mask = (uint64_t{1} << low_bits_) - 1, high_mask = (uint64_t{1} << high_bits_) - 1;
    uint64_t low = x & low_mask, high = x >> low_bits_;
    for (int round = kRounds - 2; round >= 0; round -= 2) {
      low ^= mix(high, keys_[round + 1]) & low_mask;
      high ^= mix(low, keys_[round]) & high_mask;
    }
    return (high << low_bits_) | low;
  }

  // The round function need not be invertible. Any function keeps the network a bijection; this one spreads each bit of the
  // half over the upper 32 bits of a product, twice.
  HINTERLAND_FN static uint64_t mix(uint64_t half, uint64_t key) {
    uint64_t h = (half + key) * 0x9E3779B97F4A7C15ull;
    h = (h ^ (h >> 32)) * 0xD6E8FEB86659FD93ull;
    return h >> 32;
  }

  uint64_t size_;
  int low_bits_, high_bits_;
  uint64_t keys_[kRounds];
};

}  // namespace hinterland::graph
