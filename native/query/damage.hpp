// What a damaged file may hold where a row has a value: codes that a dictionary does not have, decimals of too many digits. Where a
// row has none, anything may stand.
#pragma once

#include "hinterland/query/column.hpp"

namespace hinterland::native {

template <class T>
inline bool is_damaged(T value, const query::Segment& segment) {
  if constexpr (std::is_same_v<T, query::Decimal>) {
    return value.high != value.low >> 63;
  } else if constexpr (std::is_integral_v<T>) {
    return segment.entries > 0 && static_cast<uint64_t>(value) >= static_cast<uint64_t>(segment.entries);
  } else {
    return false;
  }
}

inline bool has_value(const query::Segment& segment, int64_t row) {
  return segment.valid == nullptr || query::bit_at(segment.valid, segment.valid_at + row - segment.begin);
}

// Whether any of the rows [from, to) is; `values` are those of row `from` on.
template <class T>
bool any_damaged(const T* values, const query::Segment& segment, int64_t from, int64_t to) {
  for (int64_t row = from; row < to; ++row) {
    if (is_damaged(values[row - from], segment) && has_value(segment, row)) return true;
  }
  return false;
}

}  // namespace hinterland::native
