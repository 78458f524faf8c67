// Rows that some threads of the CPU pack for another processor, which takes them once.
#pragma once

#include <functional>
#include <vector>

#include "memory/gather.hpp"

namespace hinterland::native {

inline constexpr int64_t kCpuLine = 64;

// Where rows are packed to, at the start of a line, from RowCopy::packed on: parts, filled by turns.
struct PackedParts {
  int64_t count;
  int64_t bytes;  // from the beginning of one to that of the next: whole lines
  int64_t rows;   // in each, but for the last of all
  int64_t ahead;  // how many are packed before the first of them is sent
};

// Where a GPU's copy engine brings parts, of rows that were packed into pinned memory.
struct PartCopies {
  uintptr_t to;                   // of the first row; the others follow it
  uintptr_t stream;               // a CUstream
  std::vector<uintptr_t> copied;  // a CUevent for each part of pinned memory, of earlier copies, too
  int64_t under_way;              // copies at most
  uintptr_t some, all;            // CUevents: behind the row numbers of the first `ahead` parts, and behind all
  uintptr_t reader;               // a CUevent: the GPU is done with the rows that it reads itself; 0 for none
  double least;                   // rows a second of the CPU, with fewer of which others are to take over
};

// Called while rows are left, where the GPU has nothing to read or the CPU is too slow, with the first row that nobody has begun
// and the CPU's rows a second so far. Gives the number of rows that are still to be packed, no less than that one.
using TakeOver = std::function<int64_t(int64_t begun, double rate)>;

struct Sent {
  FoundFault fault;  // which positions were outside
  double rate;       // rows a second of the CPU, with the copies behind it; 0 where they made up one part
};

// Packs the rows of turns [0, count) of a gather by at most so many threads, once the row numbers are there, and has a GPU's copy
// engine take them part by part, in order; a row number outside the table gives zeros. Copies may be under way when it returns.
// What `take_over` throws ends it.
Sent send_rows(const memory::RowCopy<memory::OneRange>& copy, int64_t count, int threads, const PackedParts& parts,
               const PartCopies& copies, const TakeOver& take_over);

}  // namespace hinterland::native
