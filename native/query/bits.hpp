// Words of 64 rows: made of bytes and of Arrow's bitmaps.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "hinterland/query/predicate.hpp"

namespace hinterland::native {

using query::kBlockRows, query::kBlockWords, query::kWordRows;

// each(row) for the set bits of a word whose first row is `first`.
template <class Each>
inline void for_bits(uint64_t word, int64_t first, const Each& each) {
  for (; word != 0; word &= word - 1) each(first + std::countr_zero(word));
}

// 64 bits of a bitmap from bit `at` on, of which `count` are there: no byte beyond them is read.
inline uint64_t read_bits(const uint8_t* bits, int64_t at, int64_t count) {
  const uint8_t* const from = bits + (at >> 3);
  const int shift = static_cast<int>(at & 7);
  const int64_t bytes = (shift + count + 7) >> 3;  // 9 at most
  uint64_t low = 0;
  std::memcpy(&low, from, static_cast<size_t>(bytes < 8 ? bytes : 8));
  uint64_t word = low >> shift;
  if (bytes > 8) word |= static_cast<uint64_t>(from[8]) << (64 - shift);
  return count < kWordRows ? word & ((uint64_t{1} << count) - 1) : word;
}

// each(word's number, bits there) for the rows [from, to) of a block, with bits of a bitmap whose bit `at` is row `from`.
template <class Read, class Each>
inline void for_words(int64_t from, int64_t to, const Read& read, const Each& each) {
  for (int64_t row = from; row < to;) {
    const int64_t shift = row % kWordRows, count = std::min(to - row, kWordRows - shift);
    each(row / kWordRows, read(row - from, count) << shift);
    row += count;
  }
}

// each(row) for the rows [from, to) whose bits are set.
template <class Each>
inline void for_rows(const uint64_t* words, int64_t from, int64_t to, const Each& each) {
  const auto read = [&](int64_t row, int64_t count) {
    const uint64_t word = words[(from + row) / kWordRows] >> ((from + row) % kWordRows);
    return count < kWordRows ? word & ((uint64_t{1} << count) - 1) : word;
  };
  for_words(from, to, read, [&](int64_t word, uint64_t bits) { for_bits(bits, word * kWordRows, each); });
}

inline void set_bits(uint64_t* words, int64_t from, int64_t to) {
  const auto ones = [](int64_t, int64_t count) { return count == kWordRows ? ~uint64_t{0} : (uint64_t{1} << count) - 1; };
  for_words(from, to, ones, [&](int64_t word, uint64_t bits) { words[word] |= bits; });
}

inline void set_bits(uint64_t* words, int64_t from, int64_t to, const uint8_t* bitmap, int64_t at) {
  const auto read = [&](int64_t row, int64_t count) { return read_bits(bitmap, at + row, count); };
  for_words(from, to, read, [&](int64_t word, uint64_t bits) { words[word] |= bits; });
}

// Which rows of a block have a value: the bits of rows that are there at all are set.
inline void set_valid(uint64_t* words, const query::Segment& segment, int64_t block, int64_t from, int64_t to) {
  if (segment.valid == nullptr) {
    set_bits(words, from - block, to - block);
  } else {
    set_bits(words, from - block, to - block, segment.valid, segment.valid_at + from - segment.begin);
  }
}

// 64 bytes, each 0 or 1, as a word: a product moves the eight bits of eight bytes to the top byte.
inline uint64_t word_of_bytes(const uint8_t* bytes) {
  uint64_t word = 0;
  for (int i = 0; i < 8; ++i) {
    uint64_t eight;
    std::memcpy(&eight, bytes + 8 * i, 8);
    word |= (eight * 0x0102040810204080) >> 56 << (8 * i);
  }
  return word;
}

}  // namespace hinterland::native
