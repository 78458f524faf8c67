// Runs of equal numbers, and numbers packed to so many bits, by turns: what Parquet calls the RLE encoding, of levels and of codes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "query/clones.hpp"
#include "query/varint.hpp"

namespace hinterland::native {

// Eights of numbers of `bits` bits. Eight bytes beyond them are read.
template <int bits>
HINTERLAND_CLONES void unpack_eights(const uint8_t* from, int64_t eights, uint32_t* __restrict to) {
  constexpr uint64_t mask = (uint64_t{1} << bits) - 1;
  for (; eights > 0; --eights, from += bits, to += 8) {
    for (int i = 0; i < 8; ++i) {
      uint64_t word;
      std::memcpy(&word, from + i * bits / 8, 8);
      to[i] = static_cast<uint32_t>(word >> (i * bits % 8) & mask);
    }
  }
}

using UnpackEights = void (*)(const uint8_t*, int64_t, uint32_t*);
inline constexpr std::array<UnpackEights, 33> kUnpackEights = []<int... bits>(std::integer_sequence<int, bits...>) {
  return std::array<UnpackEights, 33>{unpack_eights<bits>...};
}(std::make_integer_sequence<int, 33>{});

// Numbers that follow one another: all of them `value`, or packed.
struct NumberRun {
  int64_t count;
  bool equal;
  uint32_t value;
  int bits;
  const uint8_t *packed, *end;  // no byte from `end` on is read; numbers that would lie there are 0

  uint32_t operator[](int64_t i) const {
    if (equal) return value;
    const uint8_t* const from = packed + i * bits / 8;
    uint64_t word = 0;
    if (end - from >= 8) {
      std::memcpy(&word, from, 8);
    } else if (from < end) {
      std::memcpy(&word, from, static_cast<size_t>(end - from));
    }
    return static_cast<uint32_t>(word >> (i * bits % 8) & ((uint64_t{1} << bits) - 1));
  }

  // Packed numbers from `first` on, a multiple of 8, to a place with room for seven more.
  void unpack(int64_t first, int64_t wanted, uint32_t* to) const {
    const uint8_t* const from = packed + first / 8 * bits;
    const int64_t eights = (wanted + 7) / 8, safe = std::clamp<int64_t>((end - from - 8) / bits, 0, eights);
    kUnpackEights[bits](from, safe, to);
    uint8_t padded[80]{};  // of what is left, less than bits + 8 bytes lie before the end, in less than 10 eights or in two
    const int64_t left = std::min(end - from, eights * bits) - safe * bits;
    if (left > 0) std::memcpy(padded, from + safe * bits, static_cast<size_t>(left));
    kUnpackEights[bits](padded, eights - safe, to + 8 * safe);
  }
};

class Hybrid {
 public:
  Hybrid(const uint8_t* begin, const uint8_t* end, int bits) : at_(begin), end_(end), bits_(bits) {}

  // The next run, of which the first `most` numbers, or fewer, are wanted. There is one at least, unless it is damaged.
  bool next(int64_t most, NumberRun& run) {
    uint64_t head;
    if (!read_varint(at_, end_, 5, head)) return false;
    const auto size = static_cast<int64_t>(head >> 1);
    const bool packed = (head & 1) != 0;
    run = {packed ? 8 * size : size, !packed || bits_ == 0, 0, bits_, at_, end_};
    const int64_t bytes = packed ? size * bits_ : (bits_ + 7) / 8;
    if (packed) {
      if (bits_ > 0) run.count = std::min(run.count, 8 * (end_ - at_) / bits_);  // writers may leave out what nobody needs
    } else {
      if (end_ - at_ < bytes) return false;
      std::memcpy(&run.value, at_, static_cast<size_t>(bytes));
    }
    at_ += std::min(bytes, end_ - at_);
    run.count = std::min(run.count, most);
    return run.count > 0;
  }

 private:
  const uint8_t *at_, *end_;
  int bits_;
};

}  // namespace hinterland::native
