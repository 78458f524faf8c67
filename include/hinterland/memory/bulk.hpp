// A gather in which a thread asks for a whole row and something else moves it: on a GPU of compute capability 9.0 the bulk copy
// engine of its multiprocessor, through shared memory. A load into registers holds 16 bytes of the link's traffic for a thread;
// a row in shared memory holds all of its bytes for one, so two multiprocessors keep as much on its way as eight do that load
// (Min 2022, section 3.3.2; docs/notes/gather-on-h200.md), and the rest of the GPU trains.
#pragma once

#include "hinterland/core/bulk_load.hpp"
#include "hinterland/memory/gather.hpp"

namespace hinterland::memory {

// A row on its way: to which of the packed rows it goes, and where it comes from; null for a row that is not there.
struct BulkRow {
  int64_t position;
  const char* from;
};

template <class Placement>
HINTERLAND_FN BulkRow bulk_row(const RowCopy<Placement>& copy, int64_t turn, int64_t end) {
  if (turn >= copy.count) return {0, nullptr};
  const int64_t position = copy.position(turn);
  const TableRows<Placement, 1> row = copy.find(position);
  return {position, row.has(0) ? copy.nearest(row.row(0), position, end) : nullptr};
}

// The share of thread `thread` of `threads` in a gather, with room for one row. `staging` moves it: load() begins to bring a
// row, store() waits for it and begins to take it away, and the next load() waits until it has left. Rows are multiples of 16
// bytes that begin at such, in the table and packed. Bad positions give zero rows and are reported as by copy_rows.
template <class Placement, class Staging>
HINTERLAND_FN void gather_bulk(const RowCopy<Placement>& copy, int64_t thread, int64_t threads, Staging& staging) {
  const int64_t end = copy.end();
  BulkRow row = bulk_row(copy, thread, end);
  for (int64_t turn = thread; turn < copy.count; turn += threads) {
    char* const to = copy.packed_row(row.position);
    if (row.from != nullptr) staging.load(row.from, copy.row_bytes);
    const BulkRow next = bulk_row(copy, turn + threads, end);  // is looked up while the row comes
    if (row.from != nullptr) {
      staging.store(to, copy.row_bytes);
    } else {
      for (int64_t at = 0; at < copy.row_bytes; at += 16) *reinterpret_cast<Unit16*>(to + at) = Unit16{};
      copy.report_outside(row.position, *copy.report.fault);
      *copy.report.flag = 1;
    }
    row = next;
  }
}

}  // namespace hinterland::memory
