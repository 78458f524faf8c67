// What the loads of a warp become on the link (Min 2022, section 2.3.3): lines of 128 bytes, of which the sectors of 32 bytes
// that lanes touch are requested. Sectors of a line that lie side by side make one request of 32, 64, 96 or 128 bytes; a line
// with a hole between them makes two.
#pragma once

#include "hinterland/core/platform.hpp"

namespace hinterland {

inline constexpr int kLineSectors = kLineBytes / kSectorBytes;

// Requests by their number of sectors.
struct RequestCounts {
  int64_t of[kLineSectors] = {};

  // The requests of one line, whose touched sectors are the low four bits of `sectors`.
  HINTERLAND_FN void add(uint32_t sectors) {
    for (int run = 0; sectors != 0 || run != 0; sectors >>= 1) {
      if (sectors & 1u) {
        ++run;
      } else if (run != 0) {
        ++of[run - 1];
        run = 0;
      }
    }
  }
};

// The sectors that the lanes of a warp touch with one load, by line. Elements lie within a sector: their size divides its.
struct TouchedLines {
  struct Line {
    int64_t number;
    uint32_t sectors;
  };

  Line lines[32];
  int count = 0;

  HINTERLAND_FN void touch(int64_t address) {
    const int64_t number = address / kLineBytes;
    const uint32_t sector = 1u << (address / kSectorBytes % kLineSectors);
    for (int i = count - 1; i >= 0; --i)  // the last one most likely
      if (lines[i].number == number) {
        lines[i].sectors |= sector;
        return;
      }
    lines[count++] = {number, sector};
  }

  HINTERLAND_FN uint32_t sectors_of(int64_t number) const {
    for (int i = 0; i < count; ++i)
      if (lines[i].number == number) return lines[i].sectors;
    return 0;
  }

  // The requests of this load. Sectors that the warp's load before touched are still in the cache. Returns whether there are any.
  HINTERLAND_FN bool add_requests(const TouchedLines& before, RequestCounts& counts) const {
    bool any = false;
    for (int i = 0; i < count; ++i) {
      const uint32_t fetched = lines[i].sectors & ~before.sectors_of(lines[i].number);
      counts.add(fetched);
      any |= fetched != 0;
    }
    return any;
  }
};

}  // namespace hinterland
