// Edges on their way to a CSR graph, in as little memory as the graph: runs, each sorted by row, whose rows are stored as
// the distance from the row before and whose neighbours take as many bytes as the largest needs. The builder takes the
// entries of some rows from all runs at once, and what it has taken is given back to the system.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "core/thresholds.hpp"
#include "graph/growing.hpp"
#include "hinterland/graph/csr.hpp"

namespace hinterland::native {

struct NeighborArray;  // build.hpp
struct WeightArray;

// In the order in which an array widens.
enum class WeightType { kNone, kInt32, kInt64, kFloat32, kFloat64 };

inline int64_t weight_bytes(WeightType type) {
  constexpr std::array<int64_t, 5> kBytes{0, 4, 8, 4, 8};
  return kBytes[static_cast<size_t>(type)];
}

// Some entries of rows in ascending order of the rows: for each the distance from the row before (7 bits a byte, the lowest
// first), the neighbour, the weight.
class SortedRun {
 public:
  // Where to begin to read: at byte `offset`, behind an entry of the row `row`.
  struct Mark {
    int64_t row, offset;
  };

  static constexpr int64_t kMarkEvery = kEntriesOfMark;
  static constexpr int64_t kPadding = 8;  // bytes that may be read behind the last entry

  SortedRun() = default;
  SortedRun(GrowingBytes bytes, int64_t size, int64_t entries, std::vector<Mark> marks, int neighbor_bytes, WeightType weights)
      : bytes_(std::move(bytes)),
        marks_(std::move(marks)),
        size_(size),
        entries_(entries),
        neighbor_bytes_(neighbor_bytes),
        weights_(weights) {}

  [[nodiscard]] int64_t entries() const { return entries_; }
  [[nodiscard]] WeightType weights() const { return weights_; }
  [[nodiscard]] int64_t nbytes() const { return size_ + static_cast<int64_t>(marks_.size() * sizeof(Mark)); }

  // The last mark before the first entry of `row`, which is the first mark if there is none.
  [[nodiscard]] int64_t mark_before(int64_t row) const;

  // visit(row, neighbour, address of the weight) for the entries from the mark on, until it returns false.
  template <class Visit>
  void read(int64_t mark, Visit&& visit) const {
    const uint8_t* at = bytes_.as<const uint8_t>() + marks_[mark].offset;
    const uint8_t* const end = bytes_.as<const uint8_t>() + size_;
    const uint64_t mask = ~uint64_t{0} >> (64 - 8 * neighbor_bytes_);
    const int64_t weight = weight_bytes(weights_);
    int64_t row = marks_[mark].row;
    while (at < end) {
      uint64_t distance = *at & 127;
      for (int shift = 7; *at++ > 127; shift += 7) distance |= static_cast<uint64_t>(*at & 127) << shift;
      row += static_cast<int64_t>(distance);
      uint64_t neighbor;
      std::memcpy(&neighbor, at, sizeof neighbor);
      at += neighbor_bytes_;
      if (!visit(row, static_cast<int64_t>(neighbor & mask), at)) return;
      at += weight;
    }
  }

  // Gives the memory before the mark back. Nothing before it may be read again.
  void release(int64_t mark);

 private:
  GrowingBytes bytes_;
  std::vector<Mark> marks_;
  int64_t size_ = 0, entries_ = 0, released_ = 0;
  int neighbor_bytes_ = 1;
  WeightType weights_ = WeightType::kNone;
};

// What a thread needs while it makes runs.
struct RunScratch {
  GrowingBytes items, sorted, bytes;
};

// The runs of what `count` edges add to the rows. Weights are of the type `type`.
template <class Id>
std::vector<SortedRun> make_runs(const graph::EdgeRules& rules, const Id* sources, const Id* targets, const void* weights,
                                 WeightType type, int64_t count, RunScratch& scratch);

class EdgeRuns {
 public:
  void append(std::vector<SortedRun> runs);

  [[nodiscard]] int64_t entries() const { return first_.back(); }
  [[nodiscard]] int64_t nbytes() const { return nbytes_; }

  // Whether a float holds each weight that is an integer.
  [[nodiscard]] bool all_exact() const;

  // The edges from `begin` to `end`, as edge sources have them; see edges.hpp.
  template <class Visit>
  void walk(int64_t begin, int64_t end, Visit&& visit) const {
    size_t run = std::upper_bound(first_.begin(), first_.end(), begin) - first_.begin() - 1;
    for (int64_t i = begin; i < end; ++run) {
      const int64_t mark = (i - first_[run]) / SortedRun::kMarkEvery;
      int64_t at = first_[run] + mark * SortedRun::kMarkEvery;
      runs_[run].read(mark, [&](int64_t row, int64_t neighbor, const uint8_t*) {
        if (at >= i) visit(at, graph::Edge{row, neighbor});
        return ++at < end;
      });
      i = at;
    }
  }

  // As scatter_entries of build.hpp, where `indptr` holds the rows' ends; weights become `type`. Rows are filled from the
  // first to the last, and the runs' memory is given back meanwhile: nothing is left of them.
  void scatter(int64_t* indptr, int64_t vertices, NeighborArray neighbors, WeightArray to, WeightType type);

 private:
  std::vector<SortedRun> runs_;
  std::vector<int64_t> first_{0};  // of each run its first entry's place; then the number of all
  int64_t nbytes_ = 0;
};

// Entries of rows, to be taken as edges with no rules: those were applied as they were added.
struct RunEdges {
  EdgeRuns* runs;
  WeightType weights;

  [[nodiscard]] int64_t count() const { return runs->entries(); }

  template <class Visit>
  void walk(int64_t begin, int64_t end, Visit&& visit) const {
    runs->walk(begin, end, visit);
  }
};

}  // namespace hinterland::native
