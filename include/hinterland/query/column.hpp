// What columns of a table hold, and how values are taken.
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
  kBool,  // a bit
};

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
template <class T>
using Wide = typename WideOf<T>::Type;

template <class T>
HINTERLAND_FN Wide<T> wide(T value) {
  return static_cast<Wide<T>>(value);
}
HINTERLAND_FN double wide(Float16 value) { return static_cast<double>(widen(value)); }

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

}  // namespace hinterland::query
