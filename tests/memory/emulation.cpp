// Runs the GPU's share of memory/gather.hpp on the CPU, one thread after another, and looks at what a warp would ask of the
// memory: compiled by test_emulation.py.
#include <cstdint>
#include <cstring>
#include <set>
#include <vector>

#include "hinterland/memory/bulk.hpp"
#include "hinterland/memory/tiers.hpp"

using namespace hinterland;

namespace {

template <int kUnit, class Table>
void run(const memory::RowCopy<Table>& copy, const memory::RowCut& cut, bool chunks, int64_t threads, memory::IndexFault& fault,
         volatile int64_t* flag) {
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

// The launch that follows a scatter into a table with replicas.
template <int kUnit>
void replicate(const memory::RowCopy<memory::TieredTable>& copy, const memory::RowCut& cut, int64_t threads) {
  for (int64_t thread = 0; thread < threads; ++thread) replicate_rows<kUnit>(copy, cut, thread, threads);
}

template <int kUnit>
void replicate(const memory::RowCopy<memory::PointerTable>&, const memory::RowCut&, int64_t) {}

// fault receives first, value, table_rows, count, lock; the result is the flag.
template <class Table>
int64_t emulate_copy(const memory::RowCopy<Table>& copy, int64_t unit, const memory::RowCut& cut, bool chunks, int64_t threads,
                     int64_t* fault) {
  memory::IndexFault found{memory::kNoFault, 0, 0, 0, 0};
  volatile int64_t flag = 0;
  const auto both = [&]<int kUnit>() {
    run<kUnit>(copy, cut, chunks, threads, found, &flag);
    if (copy.into_table) replicate<kUnit>(copy, cut, threads);
  };
  switch (unit) {
    case 1: both.template operator()<1>(); break;
    case 2: both.template operator()<2>(); break;
    case 4: both.template operator()<4>(); break;
    case 8: both.template operator()<8>(); break;
    case 16: both.template operator()<16>(); break;
  }
  fault[0] = found.first, fault[1] = found.value, fault[2] = found.table_rows, fault[3] = found.count, fault[4] = found.lock;
  return flag;
}

}  // namespace

extern "C" {

int64_t emulate(char* table, int64_t table_rows, char* packed, const void* indices, int64_t index_bytes,
                const int64_t* visit, int64_t count, int64_t row_bytes, int64_t into_table, int64_t unit, int64_t lanes,
                int64_t steps, int64_t shifted, int64_t chunks, int64_t threads, int64_t* fault) {
  const memory::RowCopy<memory::PointerTable> copy{{table, table_rows}, packed, indices, index_bytes, visit, count, row_bytes, into_table};
  return emulate_copy(copy, unit, {row_bytes / unit, lanes, steps, shifted}, chunks, threads, fault);
}

// `table`: the twelve fields of a TieredTable, each 8 bytes.
int64_t emulate_tiered(const memory::TieredTable* table, char* packed, const void* indices, int64_t index_bytes, const int64_t* visit,
                       int64_t count, int64_t row_bytes, int64_t into_table, int64_t unit, int64_t lanes, int64_t steps,
                       int64_t shifted, int64_t chunks, int64_t threads, int64_t* fault) {
  static_assert(sizeof(memory::TieredTable) == 12 * 8);
  const memory::RowCopy<memory::TieredTable> copy{*table, packed, indices, index_bytes, visit, count, row_bytes, into_table};
  return emulate_copy(copy, unit, {row_bytes / unit, lanes, steps, shifted}, chunks, threads, fault);
}

// A gather in bulk, one thread after another. The result has bit 1 set if rows were loaded into a room that was not empty.
int64_t emulate_bulk(char* table, int64_t table_rows, char* packed, const void* indices, int64_t index_bytes,
                     const int64_t* visit, int64_t count, int64_t row_bytes, int64_t threads, int64_t* fault) {
  const memory::RowCopy<memory::PointerTable> copy{{table, table_rows}, packed, indices, index_bytes, visit, count, row_bytes, 0};
  struct Room {
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
  memory::IndexFault found{memory::kNoFault, 0, 0, 0, 0};
  volatile int64_t flag = 0;
  bool misused = false;
  for (int64_t thread = 0; thread < threads; ++thread) {
    Room room;
    gather_bulk(copy, thread, threads, room, found, &flag);
    misused |= room.misused || room.from != nullptr;
  }
  fault[0] = found.first, fault[1] = found.value, fault[2] = found.table_rows, fault[3] = found.count, fault[4] = found.lock;
  return flag + 2 * misused;
}

// Whether the 16 bytes at `from` may be read whole.
int64_t whole(const memory::TieredTable* table, const char* from, int64_t row_bytes) { return table->whole(from, row_bytes); }

// The memory (0 to gpus - 1) and the place in it of the slot that is `dealt`-th among those dealt out.
int64_t dealt_to(const memory::TieredTable* table, int64_t dealt) {
  return reinterpret_cast<int64_t>(table->at(table->local_rows + dealt, 1));
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
