#include "memory/clock.hpp"

#include "core/team.hpp"
#include "memory/gather.hpp"

namespace hinterland::native {

void admit_rows(const memory::AdmitParams& params) {
  ThreadTeam team;
  admit(team, params.clock, params.batch);
}

void fill_slots(const memory::FillParams& params) { copy_rows(params.filled()); }

}  // namespace hinterland::native
