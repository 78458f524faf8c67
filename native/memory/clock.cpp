#include "memory/clock.hpp"

#include "core/team.hpp"
#include "memory/gather.hpp"

namespace hinterland::native {

void admit(const memory::Clock& clock, const memory::ClockBatch& batch, char* table, char* local, int64_t row_bytes) {
  ThreadTeam team;
  memory::admit(team, clock, batch);
  if (row_bytes == 0) return;
  // A gather to slots: position s gets row row_of[s], and only the filled positions are visited.
  const memory::RowCopy<memory::PointerTable> copy{
      {table, clock.rows}, local, clock.row_of, 8, batch.filled, clock.hand->admitted, row_bytes, 0};
  copy_rows(copy);
}

}  // namespace hinterland::native
