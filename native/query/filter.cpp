#include "query/filter.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "core/pool.hpp"
#include "query/bits.hpp"
#include "query/clones.hpp"
#include "query/damage.hpp"

namespace hinterland::native {

namespace {

using query::Column, query::Kind, query::Segment, query::Test, query::TestKind, query::Truth, query::with_kind;

// What a thread needs for a block.
struct Room {
  explicit Room(int64_t depth) : stack(depth * kBlockWords) {}

  alignas(64) uint8_t bytes[kBlockRows]{};
  alignas(64) int64_t left[kBlockRows], right[kBlockRows];  // of pairs: bits of what is compared; elsewhere what was there
  bool has_pairs = false;                                   // and zeros before, not for tests of one column
  uint64_t valid[kBlockWords];
  std::vector<Truth> stack;
};

template <class T, class Bound>
HINTERLAND_CLONES void range_bytes(const T* __restrict values, int64_t count, Bound low, Bound high,
                                   uint8_t* __restrict bytes) {
  for (int64_t i = 0; i < count; ++i) bytes[i] = query::in_range(values[i], low, high);
}

HINTERLAND_CLONES void bits_bytes(const uint8_t* __restrict values, int64_t count, uint8_t bits, uint8_t* __restrict bytes) {
  for (int64_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>((values[i] & bits) != 0);
}

// Codes that no entry has are taken for the first one. Returns whether there are any.
template <class T>
bool table_bytes(const T* codes, int64_t count, const Segment& segment, const uint8_t* table, uint8_t* bytes) {
  bool outside = false;
  for (int64_t i = 0; i < count; ++i) {
    const auto code = static_cast<uint64_t>(codes[i]);
    const bool there = code < static_cast<uint64_t>(segment.entries);
    outside |= !there;
    bytes[i] = table[segment.codes[there ? code : 0]];
  }
  return outside;
}

// Whether values are among a set's.
template <class T>
void set_bytes(const T* values, int64_t count, std::span<const int64_t> set, uint8_t* bytes) {
  for (int64_t i = 0; i < count; ++i)
    bytes[i] = std::binary_search(set.begin(), set.end(), static_cast<int64_t>(query::wide(values[i])));
}

// A test of one column's values, as bytes of a block or, of a column of bits, as words. Returns whether the file is damaged.
bool values_of(const Test& test, const Column& column, int64_t block, Room& room, uint64_t* words) {
  bool damaged = false;
  query::for_segments(column, block, block + kBlockRows, [&](const Segment& segment, int64_t from, int64_t to) {
    if (column.element == query::Element::kBool) {
      if (test.low > 1 || test.high < 0) return;
      set_bits(words, from - block, to - block, static_cast<const uint8_t*>(segment.values),
               segment.value_at + from - segment.begin);
      return;
    }
    query::with_element(column.element, [&](auto kind) {
      using T = decltype(kind);
      const T* const values = static_cast<const T*>(segment.values) + (from - segment.begin);
      uint8_t* const bytes = room.bytes + (from - block);
      if (test.kind == TestKind::kRange) {
        range_bytes(values, to - from, query::bound_of<T>(test.low), query::bound_of<T>(test.high), bytes);
        if constexpr (std::is_same_v<T, query::Decimal>) damaged |= any_damaged(values, segment, from, to);
      } else if (test.kind == TestKind::kSet) {
        const std::span set(reinterpret_cast<const int64_t*>(test.table), static_cast<size_t>(test.orders));
        if constexpr (!std::is_floating_point_v<query::Wide<T>>) set_bytes(values, to - from, set, bytes);
        if constexpr (std::is_same_v<T, query::Decimal>) damaged |= any_damaged(values, segment, from, to);
      } else if (test.kind == TestKind::kBits) {
        if constexpr (std::is_same_v<T, uint8_t>) bits_bytes(values, to - from, static_cast<uint8_t>(test.low), bytes);
      } else if constexpr (std::is_integral_v<T>) {
        if (table_bytes(values, to - from, segment, test.table, bytes)) damaged |= any_damaged(values, segment, from, to);
      }
    });
  });
  return damaged;
}

// A column's values as 64 bits each, where rows are.
void widened(const Column& column, int64_t block, int64_t* to_bits) {
  query::for_segments(column, block, block + kBlockRows, [&](const Segment& segment, int64_t from, int64_t to) {
    if (column.element == query::Element::kBool) {
      const auto* const bits = static_cast<const uint8_t*>(segment.values);
      for (int64_t row = from; row < to; ++row)
        to_bits[row - block] = query::bit_at(bits, segment.value_at + row - segment.begin);
      return;
    }
    query::with_element(column.element, [&](auto kind) {
      using T = decltype(kind);
      const T* const values = static_cast<const T*>(segment.values) - segment.begin;
      for (int64_t row = from; row < to; ++row) to_bits[row - block] = std::bit_cast<int64_t>(query::wide(values[row]));
    });
  });
}

// Whether any number of a block may lie beyond 2^53, up to which float64 holds all.
HINTERLAND_CLONES bool any_beyond_floats(const int64_t* __restrict bits) {
  uint64_t found = 0;
  for (int64_t i = 0; i < kBlockRows; ++i) found |= static_cast<uint64_t>(bits[i]) + (uint64_t{1} << 53);
  return found >> 54 != 0;
}

void pair_bytes(const Test& test, const Column& first, const Column& second, int64_t block, Room& room) {
  if (!room.has_pairs) {
    std::fill_n(room.left, kBlockRows, 0);
    std::fill_n(room.right, kBlockRows, 0);
    room.has_pairs = true;
  }
  widened(first, block, room.left);
  widened(second, block, room.right);
  with_kind(kind_of(first.element), [&](auto a) {
    with_kind(kind_of(second.element), [&](auto b) {
      using A = decltype(a);
      using B = decltype(b);
      const auto compare = [&](const auto& order_of) {
        for (int64_t i = 0; i < kBlockRows; ++i)
          room.bytes[i] = (order_of(std::bit_cast<A>(room.left[i]), std::bit_cast<B>(room.right[i])) & test.orders) != 0;
      };
      if constexpr (std::is_floating_point_v<A> != std::is_floating_point_v<B>) {
        if (!any_beyond_floats(std::is_floating_point_v<A> ? room.right : room.left)) {  // a third of the time
          compare([](A x, B y) { return query::order_of_same(static_cast<double>(x), static_cast<double>(y)); });
          return;
        }
      }
      compare([](A x, B y) { return query::order_of(x, y); });
    });
  });
}

// A test of a block's rows. Returns whether the file is damaged.
bool tested(const query::FilterParams& p, const Test& test, int64_t block, Room& room, Truth* truth) {
  const Column& column = p.columns[test.column];
  uint64_t values[kBlockWords]{}, valid[kBlockWords]{}, others[kBlockWords]{};
  query::for_segments(column, block, block + kBlockRows, [&](const Segment& segment, int64_t from, int64_t to) {
    set_valid(valid, segment, block, from, to);
    set_bits(others, from - block, to - block);  // of kNull: the rows that are there
  });
  if (test.kind == TestKind::kNull) {
    for (int64_t i = 0; i < kBlockWords; ++i) {
      truth[i] = {others[i] & ~valid[i], others[i]};
      if (test.negated != 0) truth[i] = negation(truth[i]);
    }
    return false;
  }
  bool damaged = false;
  if (test.kind == TestKind::kPair) {
    const Column& second = p.columns[test.other];
    std::fill_n(others, kBlockWords, 0);
    query::for_segments(second, block, block + kBlockRows,
                        [&](const Segment& segment, int64_t from, int64_t to) { set_valid(others, segment, block, from, to); });
    for (int64_t i = 0; i < kBlockWords; ++i) valid[i] &= others[i];
    pair_bytes(test, column, second, block, room);
  } else {
    damaged = values_of(test, column, block, room, values);
  }
  const bool bits = test.kind == TestKind::kRange && column.element == query::Element::kBool;
  const bool zeros = bits && test.low <= 0 && test.high >= 0, ones = bits && test.low <= 1 && test.high >= 1;
  for (int64_t i = 0; i < kBlockWords; ++i) {
    const uint64_t word = !bits ? word_of_bytes(room.bytes + i * kWordRows) : (zeros ? ~values[i] : 0) | (ones ? values[i] : 0);
    truth[i] = {word & valid[i], valid[i]};
    if (test.negated != 0) truth[i] = negation(truth[i]);
  }
  return damaged;
}

// The predicate of a block's rows, as the stack's first words. Returns whether the file is damaged.
bool evaluated(const query::FilterParams& p, int64_t block, Room& room) {
  Truth* top = room.stack.data() - kBlockWords;
  bool damaged = false;
  for (int64_t step = 0; step < p.steps; ++step) {
    const int64_t what = p.program[step];
    if (what >= 0) {
      top += kBlockWords;
      damaged |= tested(p, p.tests[what], block, room, top);
      continue;
    }
    if (what == query::kNot) {
      for (int64_t i = 0; i < kBlockWords; ++i) top[i] = negation(top[i]);
      continue;
    }
    top -= kBlockWords;
    const Truth* const second = top + kBlockWords;
    for (int64_t i = 0; i < kBlockWords; ++i)
      top[i] = what == query::kAnd ? both(top[i], second[i]) : either(top[i], second[i]);
  }
  return damaged;
}

}  // namespace

bool filter_rows(const query::FilterParams& p) {
  std::vector<std::unique_ptr<Room>> rooms(num_threads());  // of threads that come
  std::atomic<bool> damaged{false};
  constexpr int64_t kAtOnce = 8;  // blocks that a thread takes: chosen, not measured
  parallel_tasks((p.end - p.begin + kAtOnce - 1) / kAtOnce, [&](int64_t task, int64_t thread) {
    if (rooms[thread] == nullptr) rooms[thread] = std::make_unique<Room>(p.depth);
    Room& room = *rooms[thread];
    const int64_t first = p.begin + task * kAtOnce;
    for (int64_t block = first; block < std::min(p.end, first + kAtOnce); ++block) {
      if (evaluated(p, block * kBlockRows, room)) damaged = true;
      uint64_t* const words = p.words + block * kBlockWords;
      for (int64_t word = 0; word < kBlockWords; ++word) words[word] |= room.stack[word].holds;
    }
  });
  return damaged;
}

}  // namespace hinterland::native
