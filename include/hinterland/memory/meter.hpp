// What reads cost, and which tier served them. Sources and tables count, and nothing else does. Whoever wants to know of a source
// hands it a Meter, and whoever does not a NoMeter, for which no code is made; of a table, count_rows (count.hpp).
#pragma once

#include "hinterland/core/platform.hpp"
#include "hinterland/core/warp.hpp"

namespace hinterland::memory {

// Of one tier.
struct TierCount {
  int64_t bytes = 0;     // in whole sectors
  int64_t requests = 0;  // a warp's accesses to a line, or a row's lines
  int64_t hits = 0;      // elements, or rows, that were found there

  // `found` elements that are read in order, which fill the bytes [from, to).
  HINTERLAND_FN void add_run(const void* from, const void* to, int64_t found) {
    hits += found;
    if (from == to) return;
    const auto begin = reinterpret_cast<uintptr_t>(from), last = reinterpret_cast<uintptr_t>(to) - 1;
    bytes += static_cast<int64_t>(last / kSectorBytes - begin / kSectorBytes + 1) * kSectorBytes;
    requests += static_cast<int64_t>(last / kLineBytes - begin / kLineBytes + 1);
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
    (is_kept ? kept : home).add_run(from, to, hits);
  }

  // An access that a warp makes together: this lane reads what lies at `address`, or nothing if that is null. Of the lanes that
  // read in a sector the first moves it, as far as they follow each other.
  HINTERLAND_FN void count(const void* address, bool is_kept) {
    if constexpr (Warp::kWidth == 1) {
      if (address != nullptr) count_alone(address, is_kept);
    } else {
      const int64_t sector = address == nullptr ? kNone : sector_of(address);
      const int64_t before = Warp::broadcast(sector, max_of(Warp::lane() - 1, 0));
      const bool is_first = Warp::lane() == 0;
      if (sector != kNone)
        add(is_first || sector != before, is_first || before == kNone || sector / kSectors != before / kSectors, is_kept);
    }
  }

 private:
  static constexpr int64_t kSectors = kLineBytes / kSectorBytes, kNone = -1;
  static constexpr int kRecent = Warp::kWidth == 1 ? 32 : 1;
  struct Recent {
    int64_t line = kNone, run = 0;
    uint32_t sectors = 0;  // a bit for each that was read
  };

  HINTERLAND_FN static int64_t sector_of(const void* address) {
    return static_cast<int64_t>(reinterpret_cast<uintptr_t>(address) / kSectorBytes);
  }

  // An access of one lane. A processor whose warps have one lane has at hand what it has just read, of several arrays in turn.
  HINTERLAND_FN void count_alone(const void* address, bool is_kept) {
    const int64_t sector = sector_of(address), line = sector / kSectors;
    if (sector == last_) return add(false, false, is_kept);  // most are
    last_ = sector;
    Recent& recent = recent_[line % kRecent];
    const bool is_new = recent.line != line || recent.run != run_;
    if (is_new) recent = {line, run_, 0};
    const uint32_t bit = 1u << sector % kSectors;
    add((recent.sectors & bit) == 0, is_new, is_kept);
    recent.sectors |= bit;
  }

  HINTERLAND_FN void add(bool is_new_sector, bool is_new_line, bool is_kept) {
    TierCount& tier = is_kept ? kept : home;
    ++tier.hits;
    if (is_new_sector) tier.bytes += kSectorBytes;
    if (is_new_line) ++tier.requests;
  }

  int64_t run_ = 0, last_ = kNone;
  Recent recent_[kRecent];
};

}  // namespace hinterland::memory
