#include "graph/build.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "core/pool.hpp"
#include "core/thresholds.hpp"
#include "graph/mirror.hpp"
#include "graph/row_loops.hpp"
#include "hinterland/core/atomic.hpp"

namespace hinterland::native {

namespace {

// An entry of a row on its way to its slot; `source` is 2 * edge + direction.
struct Entry {
  int64_t row, neighbor, source;
};

constexpr int kBatch = 256;  // entries: 3.6 times as fast as one at a time (docs/graph.md); other sizes were not measured

// The first i of [0, count) for which holds(i), or -1.
template <class Holds>
int64_t first_where(int64_t count, const Holds& holds) {
  int64_t first = kNone;
  parallel_pieces(count, [&](int64_t begin, int64_t end) {
    int64_t own = kNone;  // loops without a branch out of them are vectors' work
    for (int64_t i = begin; i < end; ++i)
      if (holds(i)) own = std::min(own, i);
    if (own != kNone) atomic_min(first, own);
  });
  return none_is_minus_one(first);
}

// visit(entries, count) for all the entries that the edges add, by all threads, in batches. What happens to a batch comes in
// steps (fetch ahead, then change), so that a thread waits for many memory lines at once: rows are hit at random, and an
// atomic operation alone would wait for each.
template <class Edges, class Visit>
void for_each_batch(const Edges& edges, const graph::EdgeRules& rules, Visit&& visit) {
  const int64_t count = edges.count();
  parallel_for(
      ceil_div(count, kPieceEdges),
      [&](int64_t piece) {
        Entry batch[kBatch];
        int held = 0;
        edges.walk(piece * kPieceEdges, std::min((piece + 1) * kPieceEdges, count), [&](int64_t i, graph::Edge edge) {
          for (int direction = 0; direction < rules.directions(); ++direction) {
            const graph::RowEntry entry = row_entry(rules, edge, direction);
            if (entry.kept) batch[held++] = {entry.row, entry.neighbor, 2 * i + direction};
          }
          if (held > kBatch - 2) {
            visit(batch, held);
            held = 0;
          }
        });
        visit(batch, held);
      },
      1);
}

// Takes a slot of its row for each entry and calls put(entry, slot). `address` is where put will write. The edges may have
// changed since they were counted: a batch with an entry that has no row or no slot now is left out.
template <class Edges, class Address, class Put>
void scatter(const Edges& edges, const graph::EdgeRules& rules, int64_t vertices, int64_t* indptr, Address&& address,
             Put&& put) {
  const uint64_t rows = static_cast<uint64_t>(vertices), slots = static_cast<uint64_t>(indptr[vertices]);
  for_each_batch(edges, rules, [&](const Entry* batch, int count) {
    int64_t slot[kBatch];
    bool fits = true;
    for (int k = 0; k < count; ++k) {
      fits &= static_cast<uint64_t>(batch[k].row) < rows;
      __builtin_prefetch(indptr + batch[k].row, 1);
    }
    if (!fits) [[unlikely]]
      return;
    for (int k = 0; k < count; ++k) {
      slot[k] = atomic_add(indptr[batch[k].row], int64_t{-1}) - 1;
      fits &= static_cast<uint64_t>(slot[k]) < slots;
      __builtin_prefetch(address(slot[k]), 1);
    }
    if (!fits) [[unlikely]]
      return;
    for (int k = 0; k < count; ++k) put(batch[k], slot[k]);
  });
}

// Weights as unsigned keys that order as the weights do, and back.
class WeightKeys {
 public:
  explicit WeightKeys(WeightArray weights)
      : weights_(weights), sign_(weights.bytes ? uint64_t{1} << (8 * weights.bytes - 1) : 0), all_(sign_ | (sign_ - 1)) {}

  [[nodiscard]] uint64_t load(int64_t i) const {
    uint64_t bits = 0;
    std::memcpy(&bits, static_cast<const char*>(weights_.data) + i * weights_.bytes, weights_.bytes);
    if (weights_.order == WeightOrder::kUnsigned) return bits;
    // A negative float's bits grow as the value falls, so all of them turn; otherwise only the sign does.
    return bits ^ (weights_.order == WeightOrder::kFloat && (bits & sign_) ? all_ : sign_);
  }

  void store(int64_t i, uint64_t key) const {
    if (weights_.order != WeightOrder::kUnsigned) {
      key ^= weights_.order == WeightOrder::kFloat && !(key & sign_) ? all_ : sign_;
    }
    std::memcpy(static_cast<char*>(weights_.data) + i * weights_.bytes, &key, weights_.bytes);
  }

 private:
  WeightArray weights_;
  uint64_t sign_, all_;
};

template <class Id>
struct WeightedNeighbor {
  Id neighbor;
  uint64_t weight;

  friend bool operator<(const WeightedNeighbor& a, const WeightedNeighbor& b) {
    return a.neighbor != b.neighbor ? a.neighbor < b.neighbor : a.weight < b.weight;
  }
};

template <class Id>
Id neighbor_of(Id entry) {
  return entry;
}
template <class Id>
Id neighbor_of(const WeightedNeighbor<Id>& entry) {
  return entry.neighbor;
}

// All threads together: each sorts a part, then pairs of parts merge. The last merge is one thread's work, but linear.
template <class T>
void sort_together(T* begin, int64_t count) {
  int64_t parts = 1;
  while (parts < num_threads()) parts *= 2;
  const auto edge = [&](int64_t part) { return begin + count / parts * part + std::min(part, count % parts); };
  parallel_for(parts, [&](int64_t p) { std::sort(edge(p), edge(p + 1)); }, 1);
  for (int64_t width = 1; width < parts; width *= 2) {
    parallel_for(
        parts / (2 * width),
        [&](int64_t p) { std::inplace_merge(edge(2 * width * p), edge(2 * width * p + width), edge(2 * width * (p + 1))); }, 1);
  }
}

// Sorts one row; returns how many of its entries stay at its front.
template <class T>
int64_t sort_row(T* row, int64_t count, bool unique, bool together) {
  if (together) {
    sort_together(row, count);
  } else {
    std::sort(row, row + count);
  }
  if (!unique) return count;
  const auto same = [](const T& a, const T& b) { return neighbor_of(a) == neighbor_of(b); };
  return std::unique(row, row + count, same) - row;
}

// Sorts the row that begins at `from`, with its weights if it has any.
template <class Id>
int64_t sort_row(Id* neighbors, WeightArray weights, int64_t from, int64_t count, bool unique, bool together) {
  if (!weights.data) return sort_row(neighbors + from, count, unique, together);
  const WeightKeys keys(weights);
  std::vector<WeightedNeighbor<Id>> row(count);
  for (int64_t i = 0; i < count; ++i) row[i] = {neighbors[from + i], keys.load(from + i)};
  const int64_t stay = sort_row(row.data(), count, unique, together);
  for (int64_t i = 0; i < stay; ++i) {
    neighbors[from + i] = row[i].neighbor;
    keys.store(from + i, row[i].weight);
  }
  return stay;
}

}  // namespace

std::pair<int64_t, int64_t> count_entries(const EdgeSource& source, const graph::EdgeRules& rules, int64_t vertices,
                                          int64_t* indptr) {
  parallel_pieces(vertices + 1, [&](int64_t begin, int64_t end) { std::fill(indptr + begin, indptr + end, 0); });
  int64_t first_bad = kNone;
  const auto inside = [&](int64_t v) { return v >= 0 && v < vertices; };
  std::visit(
      [&](const auto& edges) {
        for_each_batch(edges, rules, [&](const Entry* batch, int count) {
          int64_t row[kBatch];
          int rows = 0;
          for (int k = 0; k < count; ++k) {
            if (inside(batch[k].row) && inside(batch[k].neighbor)) {
              __builtin_prefetch(indptr + batch[k].row, 1);
              row[rows++] = batch[k].row;
            } else {
              atomic_min(first_bad, batch[k].source / 2);
            }
          }
          for (int k = 0; k < rows; ++k) atomic_add(indptr[row[k]], int64_t{1});
        });
      },
      source.edges);
  const int64_t entries = inclusive_sum(indptr, vertices);
  indptr[vertices] = entries;
  return {entries, none_is_minus_one(first_bad)};
}

void scatter_entries(const EdgeSource& source, const graph::EdgeRules& rules, int64_t vertices, int64_t* indptr,
                     NeighborArray neighbors, WeightArray from, WeightArray to) {
  with_neighbors(neighbors, [&](auto* out) {
    std::visit(
        [&](const auto& edges) {
          scatter(
              edges, rules, vertices, indptr, [&](int64_t slot) { return out + slot; },
              [&](const Entry& entry, int64_t slot) {
                out[slot] = static_cast<std::remove_reference_t<decltype(*out)>>(entry.neighbor);
                if (to.data) copy_word(from.data, entry.source / 2, to.data, slot, to.bytes);
              });
        },
        source.edges);
  });
}

void scatter_order(const EdgeSource& source, const graph::EdgeRules& rules, int64_t vertices, int64_t* indptr, int64_t* order) {
  std::visit(
      [&](const auto& edges) {
        scatter(
            edges, rules, vertices, indptr, [&](int64_t slot) { return order + slot; },
            [&](const Entry& entry, int64_t slot) { order[slot] = entry.source; });
      },
      source.edges);
}

void resolve_entries(const EdgeSource& source, const graph::EdgeRules& rules, const int64_t* order, int64_t entries,
                     NeighborArray neighbors, WeightArray from, WeightArray to) {
  with_neighbors(neighbors, [&](auto* out) {
    std::visit(
        [&](const auto& edges) {
          parallel_for(
              entries,
              [&](int64_t slot) {
                const int64_t i = order[slot] / 2;
                if (i < 0 || i >= edges.count()) return;  // nothing came here: the edges have changed since they were counted
                edges.walk(i, i + 1, [&](int64_t, graph::Edge edge) {
                  const int64_t neighbor = row_entry(rules, edge, static_cast<int>(order[slot] % 2)).neighbor;
                  out[slot] = static_cast<std::remove_reference_t<decltype(*out)>>(neighbor);
                });
                if (to.data) copy_word(from.data, i, to.data, slot, to.bytes);
              },
              kItemsOfPiece);
        },
        source.edges);
  });
}

int64_t sort_rows(const int64_t* indptr, int64_t vertices, NeighborArray neighbors, WeightArray weights, int64_t* kept) {
  const int64_t entries = indptr[vertices];
  with_neighbors(neighbors, [&](auto* ids) {
    const auto sort = [&](int64_t row, const graph::Piece& list, bool together) {
      const int64_t stay = sort_row(ids, weights, list.begin, list.length(), kept != nullptr, together);
      if (kept) kept[row + 1] = stay;
    };
    for_each_row(indptr, vertices, entries, [&](int64_t row, const graph::Piece& list) {
      if (list.length() < kHugeRow) sort(row, list, false);
    });
    for (int64_t row = 0; row < vertices; ++row) {
      const graph::Piece list = graph::list_within(indptr, row, entries);
      if (list.length() >= kHugeRow) sort(row, list, true);
    }
  });
  if (!kept) return entries;
  kept[0] = 0;
  return inclusive_sum(kept + 1, vertices);
}

void compact_rows(const int64_t* indptr, const int64_t* kept, int64_t vertices, const void* from, void* to, int bytes) {
  for_each_row(indptr, vertices, indptr[vertices], [&](int64_t row, const graph::Piece& list) {
    const int64_t count = kept[row + 1] - kept[row];
    if (count == 0) return;
    std::memcpy(static_cast<char*>(to) + kept[row] * bytes, static_cast<const char*>(from) + list.begin * bytes, count * bytes);
  });
}

int64_t first_wrong_offset(const int64_t* indptr, int64_t vertices, int64_t edges) {
  return first_where(vertices + 1, [&](int64_t i) { return graph::offset_is_wrong(indptr, i, vertices, edges); });
}

int64_t first_wrong_neighbor(NeighborArray neighbors, int64_t edges, int64_t vertices) {
  int64_t first = -1;
  with_neighbors(neighbors, [&](const auto* ids) {
    first = first_where(edges, [&](int64_t i) { return ids[i] < 0 || ids[i] >= vertices; });
  });
  return first;
}

bool rows_ascend(const int64_t* indptr, int64_t vertices, NeighborArray neighbors, int64_t edges) {
  std::atomic<bool> ascend{true};
  with_neighbors(neighbors, [&](const auto* ids) {
    for_each_row(indptr, vertices, edges, [&](int64_t, const graph::Piece& list) {
      if (ascend.load(std::memory_order_relaxed) && !std::is_sorted(ids + list.begin, ids + list.end)) ascend = false;
    });
  });
  return ascend;
}

std::optional<bool> check_rows(const int64_t* indptr, int64_t vertices, NeighborArray neighbors, int64_t edges) {
  std::atomic<bool> right{true}, ascend{true};
  with_neighbors(neighbors, [&](const auto* ids) {
    for_each_row(indptr, vertices, edges, [&](int64_t, const graph::Piece& list) {
      bool inside = true, up = true;
      int64_t before = 0;
      for (int64_t i = list.begin; i < list.end; ++i) {
        const int64_t id = ids[i];
        inside &= static_cast<uint64_t>(id) < static_cast<uint64_t>(vertices);
        up &= before <= id;
        before = id;
      }
      if (!inside) right.store(false, std::memory_order_relaxed);
      if (!up) ascend.store(false, std::memory_order_relaxed);
    });
  });
  return right ? std::optional<bool>(ascend) : std::nullopt;
}

bool is_mirrored(const int64_t* indptr, int64_t vertices, NeighborArray neighbors, WeightArray weights, int64_t edges) {
  std::atomic<uint64_t> difference{0};
  with_neighbors(neighbors, [&](const auto* ids) {
    for_each_row(indptr, vertices, edges, [&](int64_t row, const graph::Piece& list) {
      uint64_t part = 0;
      for (int64_t i = list.begin; i < list.end; ++i) part += up_less_down(row, ids[i], weight_bits(weights, i));
      if (part != 0) difference.fetch_add(part, std::memory_order_relaxed);
    });
  });
  return difference == 0;
}

uint64_t sum_edges(const int64_t* indptr, int64_t vertices, NeighborArray neighbors, WeightArray weights, int64_t edges,
                   bool turned) {
  std::atomic<uint64_t> sum{0};
  with_neighbors(neighbors, [&](const auto* ids) {
    for_each_row(indptr, vertices, edges, [&](int64_t row, const graph::Piece& list) {
      uint64_t part = 0;
      for (int64_t i = list.begin; i < list.end; ++i)
        part += edge_number(turned ? ids[i] : row, turned ? row : ids[i], weight_bits(weights, i));
      if (part != 0) sum.fetch_add(part, std::memory_order_relaxed);
    });
  });
  return sum;
}

int64_t first_nan(const void* values, int64_t count, int bytes, uint64_t infinity) {
  const auto look = [&](auto word) {
    using Word = decltype(word);
    const Word magnitude = static_cast<Word>(~(Word{1} << (8 * sizeof(Word) - 1)));
    const Word* const words = static_cast<const Word*>(values);
    return first_where(count, [&](int64_t i) { return static_cast<Word>(words[i] & magnitude) > infinity; });
  };
  switch (bytes) {
    case 2: return look(uint16_t{});
    case 4: return look(uint32_t{});
    case 8: return look(uint64_t{});
    default: return -1;  // of integers
  }
}

}  // namespace hinterland::native
