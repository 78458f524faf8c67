// What reads cost, and which tier served them. Sources and tables count, and nothing else does. Whoever wants to know of a
// source hands it a Meter, and whoever does not a NoMeter, for which no code is made; of a table, count_rows (count.hpp).
#pragma once

#include "hinterland/core/platform.hpp"
#include "hinterland/core/warp.hpp"

namespace hinterland::memory {

// Of one tier.
struct TierCount {
  static constexpr int kSectors = kLineBytes / kSectorBytes;

  // A warp's accesses to a line, or a row's lines, by how many sectors of it they take: of 32, 64, 96 and 128 bytes.
  int64_t requests[kSectors] = {};
  int64_t hits = 0;    // elements, or rows, that were found there
  int64_t useful = 0;  // bytes of those themselves

  HINTERLAND_FN int64_t bytes() const {
    int64_t sectors = 0;
    for (int k = 0; k < kSectors; ++k) sectors += (k + 1) * requests[k];
    return sectors * kSectorBytes;
  }

  // `count` requests of so many sectors. No place of the array is computed, so that it may lie in registers.
  HINTERLAND_FN void add_requests(int64_t sectors, int64_t count) {
    for (int k = 0; k < kSectors; ++k) requests[k] += k + 1 == sectors ? count : 0;
  }

  // `found` elements that are read in order, which fill the bytes [from, to).
  HINTERLAND_FN void add_run(const void* from, const void* to, int64_t found) {
    hits += found;
    if (from == to) return;
    const auto begin = reinterpret_cast<uintptr_t>(from), end = reinterpret_cast<uintptr_t>(to);
    useful += static_cast<int64_t>(end - begin);
    const auto first = static_cast<int64_t>(begin / kSectorBytes), last = static_cast<int64_t>((end - 1) / kSectorBytes);
    const int64_t lines = last / kSectors - first / kSectors;
    if (lines == 0) return add_requests(last - first + 1, 1);
    add_requests(kSectors - first % kSectors, 1);
    add_requests(kSectors, lines - 1);
    add_requests(last % kSectors + 1, 1);
  }
};

// Where a row lies, as its reader sees it.
enum Tier { kLocal, kPeers, kHost, kTiers };

struct NoMeter {
  static constexpr bool kCounts = false;

  HINTERLAND_FN void begin_run() {}
};

// Counts for one thread.
class Meter {
 public:
  static constexpr bool kCounts = true;

  TierCount home, kept;  // where an array lies, and what a nearer memory keeps of it

  // What was read before is no longer at hand: so that counts are the same however lists are shared among threads.
  HINTERLAND_FN void begin_run() { last_ = kNone, ++run_; }

  // `hits` elements that one lane reads in order, which fill the bytes [from, to).
  HINTERLAND_FN void count_run(const void* from, const void* to, int64_t hits, bool is_kept) {
    tier(is_kept).add_run(from, to, hits);
  }

  // An access that a warp makes together: this lane reads what lies at `address`, or nothing if that is null. Of the lanes that
  // read in a sector the first moves it, of those that read in a line the first requests it, as far as they follow each other.
  template <class T>
  HINTERLAND_FN void count(const T* address, bool is_kept) {
    if (address != nullptr) {
      ++tier(is_kept).hits;
      tier(is_kept).useful += static_cast<int64_t>(sizeof(T));
    }
    if constexpr (Warp::kWidth == 1) {
      if (address != nullptr) count_alone(address, is_kept);
    } else {
      const int64_t sector = address == nullptr ? kNone : sector_of(address);
      const int64_t before = Warp::broadcast(sector, max_of(Warp::lane() - 1, 0));
      const bool follows = Warp::lane() > 0 && before != kNone && sector / kSectors == before / kSectors;
      const bool is_line = sector != kNone && !follows;
      const uint32_t moved = Warp::ballot(is_line || (follows && sector != before)), starts = Warp::ballot(is_line);
      if (!is_line) return;
      const uint32_t from_here = ~uint32_t{0} << Warp::lane(), later = starts & (from_here << 1);
      const uint32_t mine = moved & from_here & ~(later == 0 ? 0u : ~uint32_t{0} << stdlib::countr_zero(later));
      tier(is_kept).add_requests(min_of<int64_t>(stdlib::popcount(mine), kSectors), 1);
    }
  }

 private:
  static constexpr int64_t kSectors = TierCount::kSectors, kNone = -1;
  static constexpr int kRecent = Warp::kWidth == 1 ? 32 : 1;
  struct Recent {
    int64_t line = kNone, run = 0;
    uint32_t sectors = 0;  // a bit for each that was read
  };

  HINTERLAND_FN static int64_t sector_of(const void* address) {
    return static_cast<int64_t>(reinterpret_cast<uintptr_t>(address) / kSectorBytes);
  }

  // An access of one lane. A processor whose warps have one lane has at hand what it has just read, of several arrays in turn.
  // A line of which it reads another sector was one larger request.
  HINTERLAND_FN void count_alone(const void* address, bool is_kept) {
    const int64_t sector = sector_of(address), line = sector / kSectors;
    if (sector == last_) return;  // most are
    last_ = sector;
    Recent& recent = recent_[line % kRecent];
    if (recent.line != line || recent.run != run_) recent = {line, run_, 0};
    const uint32_t bit = 1u << sector % kSectors;
    if ((recent.sectors & bit) != 0) return;
    const int sectors = stdlib::popcount(recent.sectors);
    tier(is_kept).add_requests(sectors, -1);
    tier(is_kept).add_requests(sectors + 1, 1);
    recent.sectors |= bit;
  }

  HINTERLAND_FN TierCount& tier(bool is_kept) { return is_kept ? kept : home; }

  int64_t run_ = 0, last_ = kNone;
  Recent recent_[kRecent];
};

}  // namespace hinterland::memory
