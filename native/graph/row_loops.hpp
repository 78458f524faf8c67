// Loops over the rows of a CSR graph that share the work by entries, whatever the rows' lengths, and sums of row lengths.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/pool.hpp"
#include "core/thresholds.hpp"
#include "graph/build.hpp"
#include "hinterland/core/platform.hpp"
#include "hinterland/graph/lists.hpp"

namespace hinterland::native {

// Numbers that are worth a thread in a sum: two are as fast as one with some 2^13 together (docs/notes/thresholds.md).
inline constexpr int64_t kSumPiece = 4096;

// In place of a position while the first one is sought, and -1 for it when none was found.
inline constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
inline int64_t none_is_minus_one(int64_t position) { return position == kNone ? -1 : position; }

template <class Use>
void with_neighbors(NeighborArray neighbors, Use&& use) {
  if (neighbors.bytes == 4) {
    use(static_cast<int32_t*>(neighbors.data));
  } else {
    use(static_cast<int64_t*>(neighbors.data));
  }
}

// Element i of `from` becomes element j of `to`, elements of so many bytes.
inline void copy_word(const void* from, int64_t i, void* to, int64_t j, int bytes) {
  const auto copy = [&](auto word) { static_cast<decltype(word)*>(to)[j] = static_cast<const decltype(word)*>(from)[i]; };
  switch (bytes) {
    case 1: return copy(uint8_t{});
    case 2: return copy(uint16_t{});
    case 4: return copy(uint32_t{});
    default: return copy(uint64_t{});
  }
}

// values[i] becomes the sum of values[0 .. i]. Returns the total.
inline int64_t inclusive_sum(int64_t* values, int64_t count) {
  const int64_t pieces = std::min<int64_t>(num_threads(), std::max<int64_t>(count / kSumPiece, 1));
  std::vector<int64_t> before(pieces + 1, 0);
  const auto edge = [&](int64_t piece) { return count / pieces * piece + std::min(piece, count % pieces); };
  parallel_tasks(pieces, [&](int64_t p, int) {
    int64_t sum = 0;
    for (int64_t i = edge(p); i < edge(p + 1); ++i) sum += values[i];
    before[p + 1] = sum;
  });
  for (int64_t p = 0; p < pieces; ++p) before[p + 1] += before[p];
  parallel_tasks(pieces, [&](int64_t p, int) {
    int64_t sum = before[p];
    for (int64_t i = edge(p); i < edge(p + 1); ++i) values[i] = sum += values[i];
  });
  return before[pieces];
}

// visit(begin, end) for all rows, in pieces of about as many entries each, whatever their rows' lengths. Offsets that fall
// somewhere leave out rows, or visit them twice.
template <class Offsets, class Visit>
void for_each_piece(const Offsets& indptr, int64_t vertices, int64_t entries, Visit&& visit) {
  // An empty row weighs as much as one entry.
  const auto weight_before = [&](int64_t row) { return std::clamp(int64_t{indptr[row]}, int64_t{0}, entries) + row; };
  const auto row_at = [&](int64_t weight) {
    int64_t low = 0, high = vertices;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (weight_before(middle) < weight) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  };
  const int64_t pieces = ceil_div(entries + vertices, kPieceEdges);
  parallel_for(
      pieces,
      [&](int64_t piece) {
        const int64_t begin = row_at(piece * kPieceEdges);
        visit(begin, std::min(row_at((piece + 1) * kPieceEdges), begin + kPieceEdges));
      },
      1);
}

// visit(row, list) for every row, in such pieces. Lists lie among `entries` entries; rows whose list does not are visited with
// an empty one.
template <class Visit>
void for_each_row(const int64_t* indptr, int64_t vertices, int64_t entries, Visit&& visit) {
  for_each_piece(indptr, vertices, entries, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) visit(row, graph::list_within(indptr, row, entries));
  });
}

}  // namespace hinterland::native
