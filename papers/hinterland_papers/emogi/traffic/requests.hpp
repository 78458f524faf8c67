// What the loads of a warp become on the link (Min 2022, section 2.3.3): lines of 128 bytes, of which the sectors of 32 bytes
// that lanes touch are requested. Sectors of a line that lie side by side make one request of 32, 64, 96 or 128 bytes; a line
// with a hole between them makes two.
#pragma once

#include "hinterland/core/platform.hpp"

namespace hinterland::traffic {

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
class TouchedLines {
 public:
  HINTERLAND_FN void clear() {
    for (int i = 0; i < count_; ++i) index_[lines_[i].place] = 0;
    count_ = 0;
  }

  HINTERLAND_FN void touch(int64_t address) {
    const int64_t number = address / kLineBytes;
    const int place = place_of(number);
    if (index_[place] == 0) {
      lines_[count_] = {number, 0, place};
      index_[place] = static_cast<uint8_t>(++count_);
    }
    lines_[index_[place] - 1].sectors |= 1u << (address / kSectorBytes % kLineSectors);
  }

  // The requests of this load. Sectors that the warp's load before touched are still in the cache. Whether there are any.
  HINTERLAND_FN bool add_requests(const TouchedLines& before, RequestCounts& counts) const {
    bool any = false;
    for (int i = 0; i < count_; ++i) {
      const uint32_t fetched = lines_[i].sectors & ~before.sectors_of(lines_[i].number);
      counts.add(fetched);
      any |= fetched != 0;
    }
    return any;
  }

 private:
  static constexpr int kPlaces = 64;  // of a hash table, at most half full

  struct Line {
    int64_t number;
    uint32_t sectors;
    int place;
  };

  // Where a line is in the table, or would be.
  HINTERLAND_FN int place_of(int64_t number) const {
    int place = static_cast<int>(number % kPlaces);
    while (index_[place] != 0 && lines_[index_[place] - 1].number != number) place = (place + 1) % kPlaces;
    return place;
  }

  HINTERLAND_FN uint32_t sectors_of(int64_t number) const {
    const int found = index_[place_of(number)];
    return found == 0 ? 0 : lines_[found - 1].sectors;
  }

  Line lines_[32];
  int count_ = 0;
  uint8_t index_[kPlaces] = {};  // one more than the line's, 0 where there is none
};

}  // namespace hinterland::traffic
