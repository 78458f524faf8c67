// Sums that do not depend on who adds them.
//
// Rows are added in blocks of 4096 by their number in the file. Without groups lane l of a block adds its matched rows, those
// of number l modulo 32, in their order, in float64; the lanes are added as a tree. With groups each group's rows of a block
// are added in their order. Blocks are added in their order with compensation (Neumaier 1974). So the sum is the same for any
// number of warps, and whether values were streamed or gathered. Its error is at most (127 + 5 + 2) u of the sum of the
// absolute values without groups, and (4095 + 2) u with them, but for terms of u^2; u is 2^-53.
//
// Whole numbers and decimals are added exactly, in 128 bits.
#pragma once

#include "hinterland/query/predicate.hpp"

namespace hinterland::query {

inline constexpr int kLanes = 32;

// What aggregates need to know of the values of a column, or of the rows' ratios of two.
struct Measure {
  int64_t column;   // -1: rows are counted, and nothing else is asked
  int64_t divisor;  // -1, or the column that it is divided by
  int64_t adds;     // whether the sum is asked for
  int64_t bounds;   // whether the least and the greatest value are
};

// What is known of rows that were looked at. Of one block, `rest` is zero.
struct Total {
  int64_t count;  // of rows with a value
  uint64_t low;   // the sum of whole numbers: 128 bits
  int64_t high;
  double sum;     // the sum of others is sum + rest
  double rest;    // what compensation kept
  int64_t least;  // bits, as the column's values are taken; NaN is neither least nor greatest
  int64_t greatest;
};

// Halves of values: 4096 of them cannot overflow 64 bits.
struct Halves {
  int64_t high;
  uint64_t low;

  HINTERLAND_FN void add(int64_t value) {
    high += value >> 32;
    low += static_cast<uint64_t>(value) & 0xffffffffu;
  }
  HINTERLAND_FN void add(uint64_t value) {
    high += static_cast<int64_t>(value >> 32);
    low += value & 0xffffffffu;
  }
};

// Adds 128 bits.
HINTERLAND_FN void add_whole(Total& to, uint64_t low, int64_t high) {
  to.low += low;
  to.high += high + (to.low < low ? 1 : 0);
}

HINTERLAND_FN void add_halves(Total& to, const Halves& halves) {
  add_whole(to, static_cast<uint64_t>(halves.high) << 32, halves.high >> 32);
  add_whole(to, halves.low, 0);
}

// Neumaier's sum: what a rounded addition lost of the smaller number is kept.
HINTERLAND_FN void add_compensated(Total& to, double value) {
  const double sum = to.sum + value;
  const bool larger = (to.sum < 0 ? -to.sum : to.sum) >= (value < 0 ? -value : value);
  to.rest += larger ? (to.sum - sum) + value : (value - sum) + to.sum;
  to.sum = sum;
}

template <class T>
HINTERLAND_FN int64_t bits_of_wide(T value) {
  return stdlib::bit_cast<int64_t>(value);
}
template <class T>
HINTERLAND_FN T wide_of_bits(int64_t bits) {
  return stdlib::bit_cast<T>(bits);
}

// A value that is taken as `kind`, of a column whose decimals have `scale`.
HINTERLAND_FN double as_double(Kind kind, int64_t bits, double scale) {
  const double value = kind == Kind::kFloat      ? wide_of_bits<double>(bits)
                       : kind == Kind::kUnsigned ? static_cast<double>(wide_of_bits<uint64_t>(bits))
                                                 : static_cast<double>(bits);
  return value / scale;
}

// Of no value: greater than the least can be, and the other way round.
template <class T>
HINTERLAND_FN Total nothing() {
  using Limits = stdlib::numeric_limits<T>;
  Total total{};
  if constexpr (stdlib::is_same_v<T, double>) {
    const double endless = stdlib::bit_cast<double>(uint64_t{0x7ff0000000000000});
    total.least = bits_of_wide(endless), total.greatest = bits_of_wide(-endless);
  } else {
    total.least = bits_of_wide(Limits::max()), total.greatest = bits_of_wide(Limits::min());
  }
  return total;
}

template <class T>
HINTERLAND_FN void widen_bounds(Total& total, T value) {
  if (value < wide_of_bits<T>(total.least)) total.least = bits_of_wide(value);
  if (value > wide_of_bits<T>(total.greatest)) total.greatest = bits_of_wide(value);
}

// One value more of a group, within a block.
HINTERLAND_FN void add_value(Total& total, double value) { total.sum += value; }
HINTERLAND_FN void add_value(Total& total, int64_t value) { add_whole(total, static_cast<uint64_t>(value), value >> 63); }
HINTERLAND_FN void add_value(Total& total, uint64_t value) { add_whole(total, value, 0); }

// What two have seen.
template <class T>
HINTERLAND_FN void join_bounds(Total& to, const Total& other) {
  if (wide_of_bits<T>(other.least) < wide_of_bits<T>(to.least)) to.least = other.least;
  if (wide_of_bits<T>(other.greatest) > wide_of_bits<T>(to.greatest)) to.greatest = other.greatest;
}

// A block more.
template <class T>
HINTERLAND_FN void add_block(Total& to, const Total& block) {
  to.count += block.count;
  add_whole(to, block.low, block.high);
  add_compensated(to, block.sum);
  join_bounds<T>(to, block);
}

}  // namespace hinterland::query
