// What a GPU does to the slots of a cache, by a warp of 32 emulated lanes.
#include "hinterland/memory/clock.hpp"
#include "lane_team.hpp"

using namespace hinterland;

extern "C" void admit_rows(const memory::AdmitParams* params) {
  Lanes::run([&] {
    LaneTeam team;
    admit(team, params->clock, params->batch);
  });
}

// The lanes ask for rows one by one, as threads of a kernel do, and find them where they lie.
extern "C" void ask_rows(const memory::RequestedRows* asked, const int64_t* rows, int64_t count, int64_t* slots) {
  Lanes::run([&] {
    for (int64_t i = Warp::lane(); i < count; i += Warp::kWidth) {
      const memory::Spot spot = asked->spot(rows[i]);
      slots[i] = spot.memory == asked->local ? spot.row : -1;
    }
  });
}

extern "C" void give(const memory::AdmitParams* params, int64_t slot, int64_t row) { params->clock.give(slot, row); }
