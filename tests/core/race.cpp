// Many threads add to one number, in the loops of the native module: with RACES as plain memory, which ThreadSanitizer must
// find, and otherwise atomically, in which it must find nothing.
#include <cstdio>

#include "core/pool.hpp"
#include "core/team.hpp"

using namespace hinterland;

namespace {

void add(int64_t& sum, int64_t n) {
  if constexpr (RACES) {
    sum += n;
  } else {
    atomic_add(sum, n);
  }
}

}  // namespace

int main() {
  int64_t sum = 0;
  native::ThreadTeam team;
  team.static_for(1000, [&](const auto& each) { each([&](int64_t first, int64_t last) { add(sum, last - first); }); });
  team.dynamic_for(1000, [&](const auto& each) { each([&](int64_t) { add(sum, 1); }); });
  native::parallel_for(1000, [&](int64_t) { add(sum, 1); }, 10);
#pragma omp parallel for reduction(+ : sum)
  for (int64_t i = 0; i < 1000; ++i) sum += i;
  std::printf("%lld\n", static_cast<long long>(sum));
  return RACES || sum == 3000 + 499500 ? 0 : 1;
}
