// Replays a traversal of EMOGI warp by warp and counts what its loads ask of the link.
#include "hinterland_papers/emogi/traffic/requests.hpp"

#include <algorithm>
#include <vector>

#include "bindings.hpp"
#include "hinterland_papers/emogi/case.hpp"

namespace nb = nanobind;

namespace hinterland::native {

namespace {

struct LevelTraffic {
  traffic::RequestCounts requests;
  int64_t vertices;        // served, each counted once
  int64_t useful_bytes;    // of their lists
  int64_t distinct_bytes;  // of the sectors that hold them, each counted once: what a cache without end would let through
  int64_t longest;         // times that the busiest warp waits for the link
};

// A list that lanes of a warp read in a level: all of them if the access is by warp, else one.
struct Reading {
  int32_t level;
  int64_t turn;
  graph::Piece piece;
};

// Counts of one thread, by level.
class Replay {
 public:
  Replay(int64_t line_elements, int element_bytes, int64_t num_levels)
      : line_elements_(line_elements), element_bytes_(element_bytes), levels_(num_levels) {}

  // The readings of one warp, in any order of levels.
  template <class Access>
  void warp(std::vector<Reading>& readings) {
    std::stable_sort(readings.begin(), readings.end(), [](const Reading& a, const Reading& b) {
      return a.level != b.level ? a.level < b.level : a.turn < b.turn;
    });
    for (size_t i = 0; i < readings.size();) {
      const int32_t level = readings[i].level;
      before_->clear();
      int64_t waits = 0;
      while (i < readings.size() && readings[i].level == level) {
        const size_t first = i;
        while (i < readings.size() && readings[i].level == level && readings[i].turn == readings[first].turn) ++i;
        waits += read<Access>(&readings[first], i - first, levels_[level].requests);
      }
      levels_[level].longest = std::max(levels_[level].longest, waits);
    }
  }

  void add_to(LevelTraffic* levels) const {
    for (size_t i = 0; i < levels_.size(); ++i) {
      for (int k = 0; k < traffic::kLineSectors; ++k) levels[i].requests.of[k] += levels_[i].requests.of[k];
      levels[i].longest = std::max(levels[i].longest, levels_[i].longest);
    }
  }

 private:
  // Lists that lanes read in step with each other. Returns how often the warp waits.
  template <class Access>
  int64_t read(const Reading* readings, size_t count, traffic::RequestCounts& requests) {
    int used = 0;
    int64_t steps = 0;
    for (size_t i = 0; i < count; ++i)
      for (int lane = 0; lane < (Access::kByWarp ? kWarpLanes : 1); ++lane) {
        const graph::Piece& piece = readings[i].piece;
        strips_[used] = Access::strip(lane, kWarpLanes, piece.begin, piece.end, line_elements_);
        steps = std::max(steps, strips_[used++].steps());
      }
    int64_t fetching = 0;
    for (int64_t k = 0; k < steps; ++k) {
      now_->clear();
      for (int i = 0; i < used; ++i)
        if (strips_[i].holds(k)) now_->touch(strips_[i].at(k) * element_bytes_);
      fetching += now_->add_requests(*before_, requests);
      std::swap(now_, before_);
    }
    return ceil_div<int64_t>(fetching, Access::kInFlight);
  }

  int64_t line_elements_;
  int element_bytes_;
  emogi::Strip strips_[kWarpLanes];
  traffic::TouchedLines loads_[2];
  traffic::TouchedLines *now_ = &loads_[0], *before_ = &loads_[1];
  std::vector<LevelTraffic> levels_;
};

// Gathers the readings of one warp.
template <class Access, class Assignment>
void readings_of(const Assignment& assignment, const int32_t* stamps, int64_t block, int64_t warp,
                 std::vector<Reading>& readings) {
  const auto add = [&](int64_t worker, int64_t v, int64_t turn) {
    if (v == emogi::Division::kNoVertex || stamps[v] < 0) return;
    const graph::Piece piece = assignment.piece(worker, v);
    if (piece.begin < piece.end) readings.push_back({stamps[v], turn, piece});
  };
  readings.clear();
  if constexpr (Access::kByWarp) {
    const emogi::WarpShare<Assignment> share(assignment, block, warp, emogi::kEmogiWarps);
    for (int64_t number = 0; number < share.turns; ++number) {
      const auto turn = share.turn(number);
      add(turn.worker, turn.vertex, number);
    }
  } else {
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      const int64_t worker = emogi::thread_worker(block, warp, emogi::kEmogiWarps, lane, kWarpLanes);
      const int64_t turns = worker < assignment.workers() ? assignment.turns(worker) : 0;
      for (int64_t number = 0; number < turns; ++number) add(worker, assignment.vertex(worker, number), number);
    }
  }
}

// What does not depend on the policies: the lists of each level, and the sectors that hold them.
void count_lists(const emogi::Division& division, const int32_t* stamps, int element_bytes, LevelTraffic* levels,
                 int64_t num_levels) {
  std::vector<int64_t> last(num_levels, -1);  // sector that the level's list before this one ends in
  for (int64_t v = 0; v < division.num_vertices; ++v) {
    if (stamps[v] < 0) continue;
    LevelTraffic& level = levels[stamps[v]];
    ++level.vertices;
    const graph::Piece list = division.list(v);
    const int64_t begin = list.begin * element_bytes, end = list.end * element_bytes;
    if (begin == end) continue;
    const int64_t from = std::max(begin / kSectorBytes, last[stamps[v]] + 1), to = (end - 1) / kSectorBytes;
    level.useful_bytes += end - begin;
    level.distinct_bytes += (to - from + 1) * kSectorBytes;
    last[stamps[v]] = to;
  }
}

// `stamps` says in which level each vertex is active, -1 never; a vertex is active in at most one. An element of the array that
// is read takes element_bytes: those of an edge, or of a weight beside it. Adds to levels[0 .. num_levels - 1].
void count_traffic(const EmogiCase& run, const int32_t* stamps, int element_bytes, LevelTraffic* levels, int64_t num_levels) {
  count_lists(run.params.division, stamps, element_bytes, levels, num_levels);
  with_policies(run, [&](auto access, const auto& assignment, auto edge) {
    using Access = decltype(access);
    const int64_t blocks = emogi_blocks<Access>(assignment, emogi::kEmogiWarps, kWarpLanes);
#pragma omp parallel
    {
      Replay replay(kLineBytes / sizeof(edge), element_bytes, num_levels);
      std::vector<Reading> readings;
#pragma omp for schedule(dynamic, 64) nowait
      for (int64_t block = 0; block < blocks; ++block)
        for (int64_t warp = 0; warp < emogi::kEmogiWarps; ++warp) {
          readings_of<Access>(assignment, stamps, block, warp, readings);
          replay.warp<Access>(readings);
        }
#pragma omp critical
      replay.add_to(levels);
    }
  });
}

}  // namespace

const Binding traffic([](nb::module_& m) {
  m.attr("TRAFFIC_FIELDS") = sizeof(LevelTraffic) / sizeof(int64_t);
  def_native(m, "count_traffic", count_traffic, nb::arg("run"), nb::arg("stamps"), nb::arg("element_bytes"), nb::arg("levels"),
             nb::arg("num_levels"),
             "Adds the requests of each level to int64 [levels, 8]: those of 32, 64, 96 and 128 bytes, vertices served, useful "
             "bytes, distinct bytes, and how often the busiest warp waits.");
});

}  // namespace hinterland::native
