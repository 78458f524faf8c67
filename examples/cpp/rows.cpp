// A table of which the hottest rows lie in memory of their own, and all rows in another, slower one: whoever reads row 7 does
// not ask where it is. Here both are vectors; a map of a file, or memory of another socket, would do as well.
#include <cstdio>
#include <numeric>
#include <vector>

#include "hinterland/kernels/array.hpp"
#include "hinterland/memory/table.hpp"

namespace memory = hinterland::memory;

int main() {
  constexpr int kRows = 1000, kColumns = 4;
  std::vector<float> all(kRows * kColumns);
  std::iota(all.begin(), all.end(), 0.0F);

  // An array is memory with a length, and passes for a pointer.
  const hinterland::kernels::array<const float> elements(all.data(), static_cast<int64_t>(all.size()));

  // Rows 7 and 500 are the hottest: slots 0 and 1 of the fast memory. The others have no slot.
  std::vector<float> fast;
  std::vector<int32_t> slots(kRows, -1);
  for (const int row : {7, 500}) {
    slots[row] = static_cast<int32_t>(fast.size()) / kColumns;
    for (int column = 0; column < kColumns; ++column) fast.push_back(elements[row * kColumns + column]);
  }
  memory::Tiers tiers{};
  tiers.host = {reinterpret_cast<char*>(all.data()), kRows};
  tiers.map = {slots.data(), sizeof(int32_t)};
  tiers.local = reinterpret_cast<char*>(fast.data());
  tiers.local_rows = tiers.resident = 2;

  const memory::Table<memory::Tiers> table{tiers, kColumns * sizeof(float)};
  const int64_t wanted[] = {7, 8, 500};
  const auto rows = table.find(wanted);  // all are looked up before the first is read
  for (int k = 0; k < 3; ++k) {
    const char* const where = tiers.tier(rows.place[k]) == memory::kLocal ? "fast memory" : "slow memory";
    std::printf("row %d begins with %g, in %s\n", static_cast<int>(wanted[k]), rows.row<float>(k)[0], where);
  }
}
