// Runs the GPU's share of memory/gather.hpp on the CPU, one thread after another, and looks at what a warp would ask of the
// memory: compiled by test_emulation.py.
#include <cstdint>
#include <cstring>
#include <set>
#include <vector>

#include "hinterland/memory/bulk.hpp"
#include "hinterland/memory/clock.hpp"

using namespace hinterland;

namespace {

template <int kUnit, class Placement>
void run(const memory::RowCopy<Placement>& copy, bool chunks, int64_t threads) {
  for (int64_t thread = 0; thread < threads; ++thread) {
    if constexpr (kUnit < 16) {
      if (chunks) {
        gather_chunks<kUnit>(copy, thread, threads);
        continue;
      }
    }
    copy_rows<kUnit>(copy, thread, threads);
  }
}

// The launch that follows a scatter into a table with replicas.
template <int kUnit, class Placement>
void replicate(const memory::RowCopy<Placement>& copy, int64_t threads) {
  if constexpr (requires { copy.placement.replicas; }) {
    for (int64_t thread = 0; thread < threads; ++thread) replicate_rows<kUnit>(copy, thread, threads);
  }
}

// The result is the flag.
template <class Placement>
int64_t emulate_copy(memory::RowCopy<Placement> copy, int64_t unit, bool chunks, int64_t threads, memory::IndexFault* fault) {
  volatile int64_t flag = 0;
  *fault = {};
  copy.report = {fault, &flag};
  const auto both = [&]<int kUnit>() {
    run<kUnit>(copy, chunks, threads);
    if (copy.into_table) replicate<kUnit>(copy, threads);
  };
  switch (unit) {
    case 1: both.template operator()<1>(); break;
    case 2: both.template operator()<2>(); break;
    case 4: both.template operator()<4>(); break;
    case 8: both.template operator()<8>(); break;
    case 16: both.template operator()<16>(); break;
  }
  return flag;
}

}  // namespace

extern "C" {

int64_t emulate(const memory::RowCopy<memory::OneRange>* copy, int64_t unit, int64_t chunks, int64_t threads,
                memory::IndexFault* fault) {
  return emulate_copy(*copy, unit, chunks, threads, fault);
}

int64_t emulate_tiered(const memory::RowCopy<memory::Tiers>* copy, int64_t unit, int64_t chunks, int64_t threads,
                       memory::IndexFault* fault) {
  return emulate_copy(*copy, unit, chunks, threads, fault);
}

// A copy whose table lies in ranges, of which Python knows nothing yet.
int64_t emulate_ranges(const memory::RowCopy<memory::OneRange>* like, char* const* memories, const int64_t* bounds,
                       int64_t count, int64_t unit, int64_t chunks, int64_t threads, memory::IndexFault* fault) {
  const memory::RowCopy<memory::OneRange>& c = *like;
  const memory::RowCopy<memory::Ranges> copy{{memories, bounds, count},
                                             c.packed,
                                             c.indices,
                                             c.index_bytes,
                                             c.visit,
                                             c.valid,
                                             c.padding,
                                             c.count,
                                             c.row_bytes,
                                             c.into_table,
                                             c.cut,
                                             c.report};
  return emulate_copy(copy, unit, chunks, threads, fault);
}

// The launch of fill_slots_kernel.
int64_t emulate_fill(const memory::FillParams* params, int64_t unit, int64_t chunks, int64_t threads,
                     memory::IndexFault* fault) {
  return emulate_copy(params->filled(), unit, chunks, threads, fault);
}

// A gather in bulk, one thread after another. The result has bit 1 set if rows were loaded into a room that was not empty.
int64_t emulate_bulk(const memory::RowCopy<memory::OneRange>* params, int64_t threads, memory::IndexFault* fault) {
  struct Staging {
    const char* from = nullptr;
    bool misused = false;
    void load(const char* row, int64_t) {
      misused |= from != nullptr;
      from = row;
    }
    void store(char* to, int64_t bytes) {
      misused |= from == nullptr;
      std::memcpy(to, from, bytes);
      from = nullptr;
    }
  };
  volatile int64_t flag = 0;
  bool misused = false;
  *fault = {};
  memory::RowCopy<memory::OneRange> copy = *params;
  copy.report = {fault, &flag};
  for (int64_t thread = 0; thread < threads; ++thread) {
    Staging staging;
    gather_bulk(copy, thread, threads, staging);
    misused |= staging.misused || staging.from != nullptr;
  }
  return flag + 2 * misused;
}

// Whether the 16 bytes at `from` may be read whole.
int64_t whole(const memory::Tiers* tiers, const char* from, int64_t row_bytes) { return tiers->whole(from, row_bytes); }

// The memory (0 to gpus - 1) and the place in it of the slot that is `dealt`-th among those dealt out.
int64_t dealt_to(const memory::Tiers* tiers, int64_t dealt) {
  const memory::Spot spot = tiers->spot(tiers->local_rows + dealt);
  return reinterpret_cast<int64_t>(spot.memory + spot.row);
}

// Requests (a line touched by one access of a warp) for one row at `address`, read with or without the circular shift.
int64_t requests(uint64_t address, int64_t row_bytes, int64_t unit, int64_t shifted) {
  const int64_t units = row_bytes / unit;
  const int64_t head = shifted ? memory::head_units(address, unit) : 0;
  int64_t sum = 0;
  for (int64_t from = 0; from < units; from += kWarpLanes) {
    std::set<uint64_t> lines;
    for (int64_t place = from; place < min_of(from + kWarpLanes, units); ++place) {
      lines.insert((address + memory::shifted_unit(place, head, units) * unit) / kLineBytes);
    }
    sum += static_cast<int64_t>(lines.size());
  }
  return sum;
}

// The same for gather_chunks.
int64_t chunk_requests(uint64_t address, int64_t row_bytes) {
  int64_t sum = 0;
  for (int64_t from = 0; from < row_bytes; from += kWarpLanes) {
    std::set<uint64_t> lines;
    for (int64_t place = from; place < from + kWarpLanes; ++place) {
      const memory::Chunk chunk = memory::chunk_at(address, row_bytes, place);
      if (chunk.high > 0) lines.insert((address + chunk.at) / kLineBytes);
    }
    sum += static_cast<int64_t>(lines.size());
  }
  return sum;
}
}
