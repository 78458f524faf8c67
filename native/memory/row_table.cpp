#include "core/team.hpp"
#include "memory/gather.hpp"

namespace hinterland::native {

namespace {

using memory::RowUse;

template <RowUse kUse, class T = memory::Unit16, class Out = T>
FoundFault move_all(memory::RowTableParams p) {
  memory::IndexFault fault;
  p.report = {&fault, nullptr};
#pragma omp parallel for schedule(static) if (p.batch.count * p.row_bytes > kParallelBytes)
  for (int64_t i = 0; i < p.batch.count; ++i) memory::move_row<kUse, T, Out>(p, i);
  return found(fault);
}

}  // namespace

FoundFault serve_rows(const memory::RowTableParams& p, int64_t way) {
  if (way == 3) return move_all<RowUse::kFlush>(p);
  if (way == 4) return move_all<RowUse::kRefresh>(p);
  if (p.clock.capacity > 0) {
    ThreadTeam team;
    admit(team, p.clock, p.batch);
  }
  switch (way) {
    case 0: return move_all<RowUse::kResolve>(p);
    case 1: {
      const FoundFault fault = move_all<RowUse::kWrite>(p);
      if (p.clock.written == nullptr) move_all<RowUse::kThrough>(p);
      return fault;
    }
    case 5: return move_all<RowUse::kGather>(p);
    case 6: return move_all<RowUse::kGather, Float8, Bfloat16>(p);
    case 7: return move_all<RowUse::kGather, Float8, Float16>(p);
    case 8: return move_all<RowUse::kGather, Float8, float>(p);
    default: return move_all<RowUse::kGather, Bfloat16, float>(p);
  }
}

}  // namespace hinterland::native
