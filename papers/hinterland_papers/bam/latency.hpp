// How long one read takes, and where the time goes, as the warp that asks sees it (Mailthody 2022, section 5.5.1): one line
// after the other, none of which is there. What happens between being asked for and being seen the controller knows
// (native/storage/serving.hpp).
#pragma once

#include "hinterland_papers/bam/array.hpp"

namespace hinterland::bam {

// All in ns of this processor's clock, added up.
struct LatencySums {
  uint64_t enqueue;   // until the command is in its queue, and the doorbell was rung
  uint64_t total;     // until the element was read
  uint64_t hit;       // the same of a line that is there
  uint64_t copy;      // of a line from host memory to the cache, which is a part of the wait
  uint64_t asked_at;  // when commands were in their queues,
  uint64_t seen_at;   // and when their lines were seen to be there
  uint64_t sum;       // of the elements, so that they are read
};

struct LatencyParams {
  memory::ArrayWords array;
  const int64_t* at;  // [count]: elements, each in another line
  int64_t count;
  char* line;  // room for one, where a copy is timed
  LatencySums* sums;
};

// By one warp.
HINTERLAND_FN void time_reads(const LatencyParams& p) {
  const Array<int64_t, DeviceStore> array(p.array, 0);
  const DeviceStore& store = *array.store;
  LatencySums sums{};
  for (int64_t i = 0; i < p.count; ++i) {
    const Page page = array.page_of(p.at[i]);
    const uint64_t begun = Here::now(), until = store.until();
    const CacheLookup first = store.template start<Warp>(Warp::lane() == 0, page);
    const uint64_t asked = Here::now();
    if (first.outcome == Try::kHeld) array.lines.release(first.slot);
    bool is_there = false;
    for (uint32_t round = 0; !is_there && store.template progress<Warp>(round, until); ++round) {
      const CacheLookup found = array.lines.try_acquire<Warp>(Warp::lane() == 0, page);
      if (found.outcome == Try::kHeld) array.lines.release(found.slot);
      // Or it is not even on its way any more.
      is_there = Warp::any(Warp::lane() == 0 && (found.outcome != Try::kWait || found.slot < 0));
    }
    const uint64_t seen = Here::now();
    sums.sum += static_cast<uint64_t>(array.read_alone(p.at[i]));
    const uint64_t ended = Here::now();
    sums.sum += static_cast<uint64_t>(array.read_alone(p.at[i]));
    const uint64_t again = Here::now();
    copy_lines<Warp>(Warp::lane() == 0, array.lines.line_shift(), store.channels[0].lines, 0, p.line, 0);
    Warp::sync();
    sums.copy += Here::now() - again;
    sums.enqueue += asked - begun, sums.total += ended - begun, sums.hit += again - ended;
    sums.asked_at += asked, sums.seen_at += seen;
  }
  if (Warp::lane() == 0) *p.sums = sums;
}

}  // namespace hinterland::bam
