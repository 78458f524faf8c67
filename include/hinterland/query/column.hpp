// Columns of a table, as Arrow lays them out: values, a bit for each row that says whether it has one, and codes of dictionaries.
#pragma once

#include "hinterland/core/floats.hpp"
#include "hinterland/core/platform.hpp"

namespace hinterland::query {

// What lies in a column's memory.
enum class Element : int64_t {
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kFloat16,
  kFloat32,
  kFloat64,
  kDecimal,  // of up to 18 digits, in 16 bytes
  kBool,     // a bit
};

struct Decimal {
  int64_t low, high;  // high is nothing but low's sign, or the file is damaged
};

// Rows of a column whose values lie together.
struct Segment {
  int64_t begin, end;    // rows of the file
  const void* values;    // of row `begin`; of bits the byte that bit 0 is in
  int64_t value_at;      // of bits: which one is row `begin`
  const uint8_t* valid;  // a bit for each row; null where all have a value
  int64_t valid_at;      // the bit of row `begin`
  const int32_t* codes;  // of a dictionary's entries: the code of each in the column as a whole
  int64_t entries;       // of the dictionary; 0 of other columns
  const int64_t* kept;  // of each block from that of `begin` on: how many of the segment's rows that match come before its own.
                        // Values are of rows that match alone, one after another. Null where all rows have theirs
};

struct Column {
  const Segment* segments;  // in the order of their rows. What lies between them cannot match
  int64_t count;
  Element element;
  int64_t coded;  // whether values are codes
  double scale;   // of decimals: 10 to the number of their digits after the point; else 1
};

// each(segment, from, to) for the rows in [begin, end) that are there.
template <class Each>
HINTERLAND_FN void for_segments(const Column& column, int64_t begin, int64_t end, const Each& each) {
  int64_t low = 0, high = column.count;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (column.segments[middle].end > begin) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  for (; low < column.count && column.segments[low].begin < end; ++low) {
    const Segment& segment = column.segments[low];
    const int64_t from = max_of(begin, segment.begin), to = min_of(end, segment.end);
    if (from < to) each(segment, from, to);
  }
}

HINTERLAND_FN bool bit_at(const uint8_t* bits, int64_t at) { return (bits[at >> 3] >> (at & 7) & 1) != 0; }

// How numbers are compared and added: whole ones as 64 bits, others as float64.
template <class T>
struct WideOf {
  using Type = stdlib::conditional_t<(static_cast<T>(-1) < static_cast<T>(0)), int64_t, uint64_t>;
};
template <>
struct WideOf<Float16> {
  using Type = double;
};
template <>
struct WideOf<float> {
  using Type = double;
};
template <>
struct WideOf<double> {
  using Type = double;
};
template <>
struct WideOf<Decimal> {
  using Type = int64_t;
};
template <class T>
using Wide = typename WideOf<T>::Type;

template <class T>
HINTERLAND_FN Wide<T> wide(T value) {
  return static_cast<Wide<T>>(value);
}
HINTERLAND_FN double wide(Float16 value) { return static_cast<double>(widen(value)); }
HINTERLAND_FN int64_t wide(Decimal value) { return value.low; }

// do_it(T{}) for the type of a column's values, bits excepted.
template <class Do>
HINTERLAND_FN void with_element(Element element, const Do& do_it) {
  switch (element) {
    case Element::kInt8: return do_it(stdlib::int8_t{});
    case Element::kInt16: return do_it(stdlib::int16_t{});
    case Element::kInt32: return do_it(int32_t{});
    case Element::kInt64: return do_it(int64_t{});
    case Element::kUint8: return do_it(uint8_t{});
    case Element::kUint16: return do_it(uint16_t{});
    case Element::kUint32: return do_it(uint32_t{});
    case Element::kUint64: return do_it(uint64_t{});
    case Element::kFloat16: return do_it(Float16{});
    case Element::kFloat32: return do_it(float{});
    case Element::kFloat64: return do_it(double{});
    case Element::kDecimal: return do_it(Decimal{});
    case Element::kBool: return;
  }
}

// Whether values are to be taken as int64, as uint64 or as float64; bits as int64.
enum class Kind : int64_t { kSigned, kUnsigned, kFloat };

// do_it(T{}) for the type that values are taken as.
template <class Do>
HINTERLAND_FN void with_kind(Kind kind, const Do& do_it) {
  switch (kind) {
    case Kind::kSigned: return do_it(int64_t{});
    case Kind::kUnsigned: return do_it(uint64_t{});
    case Kind::kFloat: return do_it(double{});
  }
}

HINTERLAND_FN Kind kind_of(Element element) {
  if (element >= Element::kFloat16 && element <= Element::kFloat64) return Kind::kFloat;
  return element >= Element::kUint8 && element <= Element::kUint64 ? Kind::kUnsigned : Kind::kSigned;
}

}  // namespace hinterland::query
