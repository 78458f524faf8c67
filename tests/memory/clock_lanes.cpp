// What a GPU does to the slots of a cache, by a warp of 32 emulated lanes.
#include "lane_team.hpp"
#include "memory/clock.hpp"

using namespace hinterland;

extern "C" void admit_rows(const native::ClockWords* words) {
  const memory::Clock clock = native::clock_of(*words);
  const memory::ClockBatch batch = native::clock_batch(*words);
  Lanes::run([&] {
    LaneTeam team;
    admit(team, clock, batch);
  });
}
