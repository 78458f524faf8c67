// What one part of a graph that is divided by its vertices reads: its own lists and its share of the hubs', with every
// neighbour as where its row lies, here or in the halo (the local and the remote CSR of MGG, OSDI 2023, section 4.1, in one).
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "graph/row_loops.hpp"
#include "hinterland/core/atomic.hpp"

namespace hinterland::native {

namespace fullgraph {

// A part owns rows [first, last) of the partition. It reads one list for each of them, and then pieces of hubs' lists, of which
// only the neighbours that it owns count.
struct PartParams {
  const int64_t* begins;  // [lists]: where each begins among the graph's edges
  const int64_t* before;  // [lists + 1]: entries of the lists before it
  int64_t lists;
  void* neighbors;  // the graph's: they may change at any time, what else is here does not
  int64_t neighbor_bytes, edges, vertices;
  const int64_t* numbers;  // the partition's number of each vertex; none: its own
  int64_t first, last;
  const int64_t* bounds;  // [parts + 1]: the rows of every part
  int64_t parts;
  uint64_t* marks;    // a bit for each row of the partition: whether it is in the halo; none at first
  int64_t* ranks;     // [words of marks + 1]: marks in the words before
  int64_t* local;     // [lists]: entries that the part owns
  const int64_t* to;  // [lists + 1]: where each list's entries go: the local ones, then the remote ones in the halo's order
  int64_t* halo;      // the rows that are marked, in their order
  void* places;
  int64_t place_bytes;
  const void* weights;
  void* to_weights;
  int64_t weight_bytes;  // 0: none

  // -1 for what is no vertex.
  int64_t number(int64_t vertex) const {
    if (!is_row(vertex)) [[unlikely]]
      return -1;
    const int64_t row = numbers ? numbers[vertex] : vertex;
    return is_row(row) ? row : -1;
  }
  bool is_row(int64_t v) const { return static_cast<uint64_t>(v) < static_cast<uint64_t>(vertices); }
  bool owns(int64_t row) const { return row >= first && row < last; }
  bool of_hub(int64_t list) const { return list >= last - first; }
  int64_t words() const { return ceil_div<int64_t>(vertices, 64); }

  void mark(int64_t row) const {
    const uint64_t bit = uint64_t{1} << row % 64;
    if (!(atomic_load(marks[row / 64]) & bit)) atomic_or(marks[row / 64], bit);
  }

  // The bits of a word of marks that are of rows [begin, end).
  static uint64_t bits_within(int64_t word, int64_t begin, int64_t end) {
    const int64_t low = std::max<int64_t>(begin - 64 * word, 0), high = std::min<int64_t>(end - 64 * word, 64);
    return low < high ? ~uint64_t{0} >> (64 - (high - low)) << low : 0;
  }

  // A halo that has most of another part's rows has all: those go as one copy, which is quicker by more than this than rows one
  // by one (docs/notes/fullgraph-on-h200.md).
  void complete() const {
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t begin = bounds[part], end = bounds[part + 1];
      int64_t count = 0;
      for (int64_t w = begin / 64; w < ceil_div<int64_t>(end, 64); ++w)
        count += std::popcount(marks[w] & bits_within(w, begin, end));
      if (begin == first || kAll * count <= kMost * (end - begin)) continue;
      for (int64_t w = begin / 64; w < ceil_div<int64_t>(end, 64); ++w) marks[w] |= bits_within(w, begin, end);
    }
  }
  static constexpr int64_t kMost = 4, kAll = 5;

  bool marked(int64_t row) const { return marks[row / 64] >> row % 64 & 1; }
  int64_t slot(int64_t row) const { return ranks[row / 64] + std::popcount(marks[row / 64] & ((uint64_t{1} << row % 64) - 1)); }

  // Orders entries [begin, end), with their weights, by where their rows lie: those of one owner are then together.
  template <class Place>
  void by_slot(Place* at, int64_t begin, int64_t end) const {
    if (std::is_sorted(at + begin, at + end)) return;
    if (!weight_bytes) return std::sort(at + begin, at + end);
    char* const weight = static_cast<char*>(to_weights);  // of any type, and so copied as bytes
    std::vector<std::pair<Place, uint64_t>> entries(end - begin);
    for (int64_t i = begin; i < end; ++i) {
      entries[i - begin].first = at[i];
      std::memcpy(&entries[i - begin].second, weight + i * weight_bytes, weight_bytes);
    }
    std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (int64_t i = begin; i < end; ++i) {
      at[i] = entries[i - begin].first;
      std::memcpy(weight + i * weight_bytes, &entries[i - begin].second, weight_bytes);
    }
  }
};

}  // namespace fullgraph

using fullgraph::PartParams;

HINTERLAND_STRUCT(fullgraph::PartParams, begins, before, lists, neighbors, neighbor_bytes, edges, vertices, numbers, first,
                  last, bounds, parts, marks, ranks, local, to, halo, places, place_bytes, weights, to_weights, weight_bytes);

namespace {

// Entries of a list between one that is asked for and the one that is looked at, as in graph/reorder.cpp.
constexpr int64_t kPrefetchDistance = 16;

// visit(list, entries) for every list, by all threads; entries(use) calls use(position, row) for each of its neighbours. Lists
// that do not lie among the edges have none.
template <class Visit>
void for_each_list(const PartParams& p, const Visit& visit) {
  with_neighbors({p.neighbors, static_cast<int>(p.neighbor_bytes)}, [&](const auto* ids) {
    for_each_row(p.before, p.lists, p.before[p.lists], [&](int64_t i, const graph::Piece& own) {
      graph::Piece list{p.begins[i], p.begins[i] + own.length()};
      if (!list.lies_within(p.edges)) list = {};
      visit(i, [&](const auto& use) {
        for (int64_t at = list.begin; at < list.end; ++at) {
          if (p.numbers && at + kPrefetchDistance < list.end) __builtin_prefetch(p.numbers + ids[at + kPrefetchDistance]);
          use(at, p.number(ids[at]));
        }
      });
    });
  });
}

// Counts what is local, and marks and ranks what is not. Returns the first position among the edges that names no vertex, or
// -1.
int64_t survey_part(const PartParams& p) {
  int64_t bad = kNone;
  for_each_list(p, [&](int64_t i, const auto& entries) {
    int64_t local = 0;
    entries([&](int64_t at, int64_t row) {
      if (row < 0) [[unlikely]] {
        atomic_min(bad, at);
      } else if (p.owns(row)) {
        ++local;
      } else if (!p.of_hub(i)) {
        p.mark(row);
      }
    });
    p.local[i] = local;
  });
  p.complete();
  parallel_for(p.words(), [&](int64_t w) { p.ranks[w + 1] = std::popcount(p.marks[w]); });
  inclusive_sum(p.ranks + 1, p.words());
  return none_is_minus_one(bad);
}

// Writes the halo and every entry. Returns whether the lists are still what was surveyed; nothing is written outside the arrays
// where they are not.
bool fill_part(const PartParams& p) {
  parallel_for(p.words(), [&](int64_t w) {
    int64_t slot = p.ranks[w];
    for (uint64_t bits = p.marks[w]; bits; bits &= bits - 1) p.halo[slot++] = 64 * w + std::countr_zero(bits);
  });
  std::atomic<bool> same{true};
  with_neighbors({p.places, static_cast<int>(p.place_bytes)}, [&](auto* places) {
    const auto put = [&](int64_t at, int64_t to, int64_t place) {
      places[to] = static_cast<std::remove_reference_t<decltype(*places)>>(place);
      if (p.weight_bytes) copy_word(p.weights, at, p.to_weights, to, static_cast<int>(p.weight_bytes));
    };
    for_each_list(p, [&](int64_t i, const auto& entries) {
      int64_t local = p.to[i], remote = local + p.local[i];
      const int64_t locals_end = remote, end = p.to[i + 1];
      bool fits = true;
      entries([&](int64_t at, int64_t row) {
        if (p.owns(row)) {
          if (local < locals_end)
            put(at, local++, row - p.first);
          else
            fits = false;
        } else if (!p.of_hub(i)) {
          if (row >= 0 && remote < end && p.marked(row))
            put(at, remote++, p.last - p.first + p.slot(row));
          else
            fits = false;
        }
      });
      if (!fits || local < locals_end || remote < end) same = false;
      p.by_slot(places, locals_end, end);
    });
  });
  return same;
}

}  // namespace

const Binding fullgraph_part([](nanobind::module_& m) {
  def_loop(m, "survey_part", survey_part);
  def_loop(m, "fill_part", fill_part);
});

}  // namespace hinterland::native
