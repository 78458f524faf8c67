// Which rows a predicate holds for: in Kleene's logic of three values, as SQL has it, over words of 64 rows.
#pragma once

#include "hinterland/query/column.hpp"

namespace hinterland::query {

inline constexpr int64_t kBlockRows = 4096;  // rows that are looked at, and added up, together; by number in the file

enum class TestKind : int64_t {
  kRange,  // low <= value <= high
  kTable,  // an entry for each code
  kNull,   // the row has no value
  kPair,   // two columns
};

// One comparison. Literals are bounds in the column's own type (src/hinterland/query/bounds.py), so all orders are ranges.
struct Test {
  TestKind kind;
  int64_t column, other;  // the second of pairs alone
  int64_t negated;        // whether it holds where it would not, and where the value is known
  int64_t low, high;      // the bits of int64, uint64 or float64, as the column's values are taken
  const uint8_t* table;
  int64_t orders;  // of pairs: those that hold, Order's bits
};

// Of two values; none of these with NaN.
enum Order : int64_t { kLess = 1, kEqual = 2, kGreater = 4 };

template <class T>
HINTERLAND_FN int64_t order_of_same(T a, T b) {
  return static_cast<int64_t>(a < b) * kLess + static_cast<int64_t>(a == b) * kEqual + static_cast<int64_t>(a > b) * kGreater;
}

// Exactly, of a whole number and a float: float64s are rounded to in order, so only of equal ones it is asked which way that
// was.
template <class A>
HINTERLAND_FN int64_t order_to_float(A a, double b) {
  const int64_t order = order_of_same(static_cast<double>(a), b);
  if (order != kEqual) return order;
  constexpr double kEnd = A(-1) < A(0) ? 0x1p63 : 0x1p64;  // which the greatest ones are rounded to, and no A is
  return b == kEnd ? kLess : order_of_same(a, static_cast<A>(b));
}

// Exactly, whatever the types and signs.
template <class A, class B>
HINTERLAND_FN int64_t order_of(A a, B b) {
  if constexpr (stdlib::is_same_v<A, B>) {
    return order_of_same(a, b);
  } else if constexpr (stdlib::is_floating_point_v<B>) {
    return order_to_float(a, b);
  } else if constexpr (stdlib::is_floating_point_v<A>) {
    const int64_t mirrored = order_to_float(b, a);
    return mirrored == kLess ? kGreater : mirrored == kGreater ? kLess : mirrored;
  } else if constexpr (A(-1) < A(0)) {
    return a < 0 ? kLess : order_of_same(static_cast<uint64_t>(a), static_cast<uint64_t>(b));
  } else {
    return b < 0 ? kGreater : order_of_same(static_cast<uint64_t>(a), static_cast<uint64_t>(b));
  }
}

// Whether a value lies in a test's range.
template <class T>
HINTERLAND_FN bool in_range(T value, T low, T high) {
  return static_cast<bool>(static_cast<int>(value >= low) & static_cast<int>(value <= high));  // no branch: it vectorizes
}

// Of 64 rows: for which it is true, and for which it is known whether it is.
struct Truth {
  uint64_t holds, known;  // no bit is in the first alone
};

HINTERLAND_FN Truth both(Truth a, Truth b) {
  const uint64_t holds = a.holds & b.holds;
  return {holds, holds | (a.known & ~a.holds) | (b.known & ~b.holds)};
}
HINTERLAND_FN Truth either(Truth a, Truth b) {
  const uint64_t holds = a.holds | b.holds;
  return {holds, holds | (a.known & b.known)};
}
HINTERLAND_FN Truth negation(Truth a) { return {a.known & ~a.holds, a.known}; }

// A predicate is a list of the numbers of tests and of these, each of which takes what came before it from a stack.
enum Step : int64_t { kAnd = -1, kOr = -2, kNot = -3 };

}  // namespace hinterland::query
