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

extern "C" void give(const memory::AdmitParams* params, int64_t slot, int64_t row) { params->clock.give(slot, row); }
