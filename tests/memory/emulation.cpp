// Runs the GPU's share of memory/gather.hpp on the CPU, one thread after another, and looks at what a warp would ask of the
// memory: compiled by test_emulation.py.
#include <cstdint>
#include <set>
#include <vector>

#include "hinterland/memory/gather.hpp"

using namespace hinterland;

namespace {

template <int kUnit>
void run(const RowCopy& copy, const RowCut& cut, bool chunks, int64_t threads, IndexFault& fault, volatile int64_t* flag) {
  for (int64_t thread = 0; thread < threads; ++thread) {
    if constexpr (kUnit < 16) {
      if (chunks) {
        gather_chunks<kUnit>(copy, cut, thread, threads, fault, flag);
        continue;
      }
    }
    copy_rows<kUnit>(copy, cut, thread, threads, fault, flag);
  }
}

}  // namespace

extern "C" {

// fault receives first, value, table_rows, count, lock; the result is the flag.
int64_t emulate(char* table, int64_t table_rows, char* packed, const void* indices, int64_t index_bytes,
                const int64_t* visit, int64_t count, int64_t row_bytes, int64_t into_table, int64_t unit, int64_t lanes,
                int64_t steps, int64_t shifted, int64_t chunks, int64_t threads, int64_t* fault) {
  const RowCopy copy{table, table_rows, packed, indices, index_bytes, visit, count, row_bytes, into_table};
  const RowCut cut{row_bytes / unit, lanes, steps, shifted};
  IndexFault found{kNoFault, 0, 0, 0, 0};
  volatile int64_t flag = 0;
  switch (unit) {
    case 1: run<1>(copy, cut, chunks, threads, found, &flag); break;
    case 2: run<2>(copy, cut, chunks, threads, found, &flag); break;
    case 4: run<4>(copy, cut, chunks, threads, found, &flag); break;
    case 8: run<8>(copy, cut, chunks, threads, found, &flag); break;
    case 16: run<16>(copy, cut, chunks, threads, found, &flag); break;
  }
  fault[0] = found.first, fault[1] = found.value, fault[2] = found.table_rows, fault[3] = found.count, fault[4] = found.lock;
  return flag;
}

// Requests (a line touched by one access of a warp) for one row at `address`, read with or without the circular shift.
int64_t requests(uint64_t address, int64_t row_bytes, int64_t unit, int64_t shifted) {
  const int64_t units = row_bytes / unit;
  const int64_t head = shifted ? head_units(address, unit) : 0;
  int64_t sum = 0;
  for (int64_t from = 0; from < units; from += kWarpLanes) {
    std::set<uint64_t> lines;
    for (int64_t place = from; place < min_of(from + kWarpLanes, units); ++place) {
      lines.insert((address + shifted_unit(place, head, units) * unit) / kLineBytes);
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
      const Chunk chunk = chunk_at(address, row_bytes, place);
      if (chunk.high > 0) lines.insert((address + chunk.at) / kLineBytes);
    }
    sum += static_cast<int64_t>(lines.size());
  }
  return sum;
}
}
