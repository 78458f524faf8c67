#include "memory/gather.hpp"

#include <omp.h>

#include <algorithm>
#include <cstring>

#include "core/thresholds.hpp"

namespace hinterland::native {

namespace {

// Row sizes that one load and store can move: known to the compiler, so that memcpy becomes just that. 0 is any other.
template <int64_t kRowBytes, class Placement>
void copy_all(memory::RowCopy<Placement> copy, memory::IndexFault& fault) {
  if (kRowBytes > 0) copy.row_bytes = kRowBytes;
#pragma omp parallel for schedule(static) firstprivate(copy) if (copy.count * (copy.row_bytes + 8) > kParallelBytes)
  for (int64_t turn = 0; turn < copy.count; ++turn) {
    const int64_t row_bytes = kRowBytes > 0 ? kRowBytes : copy.row_bytes, position = copy.position(turn);
    const memory::TableRows<Placement, 1> found = copy.find(position);
    if (!found.has(0)) [[unlikely]]
      copy.report_outside(position, fault);
    if (row_bytes == 0) continue;  // rows of nothing: only their numbers are checked
    const memory::Move move = found.has(0) ? copy.move(position, true, found.row(0)) : copy.move(position, false, nullptr);
    if (move.reads) [[likely]] {
      std::memcpy(move.to, move.from, row_bytes);
    } else if (move.writes) {
      std::memset(move.to, 0, row_bytes);
    }
  }
}

template <class Placement>
FoundFault copy_by_size(memory::RowCopy<Placement> copy) {
  memory::IndexFault fault;
  // The last ones: with padding, positions are visited in their order.
  for (; copy.valid != nullptr && copy.count > std::max<int64_t>(*copy.valid, 0); --copy.count)
    std::memcpy(copy.packed_row(copy.count - 1), copy.padding, copy.row_bytes);
  switch (copy.row_bytes) {
    case 1: copy_all<1>(copy, fault); break;
    case 2: copy_all<2>(copy, fault); break;
    case 4: copy_all<4>(copy, fault); break;
    case 8: copy_all<8>(copy, fault); break;
    case 16: copy_all<16>(copy, fault); break;
    case 32: copy_all<32>(copy, fault); break;
    default: copy_all<0>(copy, fault); break;
  }
  return found(fault);
}

template <class Placement>
void count_all(const memory::CountParams<Placement>& params) {
#pragma omp parallel if (params.rows.count > kFewCounted)
  memory::count_rows(params, omp_get_thread_num(), omp_get_num_threads());
}

}  // namespace

void count_rows(const memory::CountParams<memory::OneRange>& params) { count_all(params); }
void count_tiered_rows(const memory::CountParams<memory::Tiers>& params) { count_all(params); }

FoundFault copy_rows(const memory::RowCopy<memory::OneRange>& copy) { return copy_by_size(copy); }

FoundFault copy_tiered_rows(const memory::RowCopy<memory::Tiers>& copy) {
  const FoundFault fault = copy_by_size(copy);
  if (!copy.into_table || copy.placement.others == 0) return fault;
#pragma omp parallel for schedule(static) if (copy.count * (copy.row_bytes + 8) > kParallelBytes)
  for (int64_t turn = 0; turn < copy.count; ++turn) {  // as replicate_rows, in whole rows
    const memory::Copies copies = copy.find(turn).copies(0);
    copies.each([&](char* other) { std::memcpy(other, copies.own + copies.offset, copy.row_bytes); });
  }
  return fault;
}

}  // namespace hinterland::native
