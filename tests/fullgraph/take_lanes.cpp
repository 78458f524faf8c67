// Rows that threads bring, whichever comes first: each is brought once, to its slot, and the first thread begins where it is
// told to. Prints the first seed that goes wrong.
#include <cstdio>
#include <random>
#include <vector>

#include "../rounds.hpp"
#include "hinterland/fullgraph/take.hpp"

using namespace hinterland;
using namespace hinterland::fullgraph;

namespace {

constexpr uint32_t kUntouched = 0xffffffff;

bool agrees(unsigned seed) {
  std::mt19937 random(seed);
  const int64_t own = 1 + random() % 20, halo = random() % 20, units = 1 + random() % 9, count = 1 + random() % 70;
  const int64_t lanes = int64_t{1} << random() % 4, threads = lanes * (1 + random() % 12);
  std::vector<uint32_t> x((own + halo) * units), places(count), to(count * units, kUntouched);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint32_t>(i);
  for (uint32_t& place : places) place = random() % (own + halo);
  TakeParams p{};
  p.places = places.data(), p.place_bytes = 4, p.count = count, p.begin = random() % count;
  const char* const base = reinterpret_cast<const char*>(x.data());
  p.from = {{base, units * 4}, {base + own * units * 4, units * 4}, own, nullptr, 0, 0};
  p.units = units, p.to = reinterpret_cast<char*>(to.data()), p.lanes = lanes;

  take_rows<uint32_t, HaloRows, 4>(p, 0, threads);
  if (to[p.begin * units] != x[places[p.begin] * units]) return false;
  for (int64_t thread = 1; thread < threads; ++thread) {
    std::vector<uint32_t> before = to;
    take_rows<uint32_t, HaloRows, 4>(p, thread, threads);
    for (size_t i = 0; i < to.size(); ++i)
      if (before[i] != kUntouched && before[i] != to[i]) return false;
  }
  for (int64_t slot = 0; slot < count; ++slot)
    for (int64_t unit = 0; unit < units; ++unit)
      if (to[slot * units + unit] != x[places[slot] * units + unit]) return false;
  return true;
}

}  // namespace

int main() {
  for (unsigned seed = 0; seed < test::rounds(400); ++seed)
    if (!agrees(seed)) {
      std::printf("seed %u\n", seed);
      return 1;
    }
}
