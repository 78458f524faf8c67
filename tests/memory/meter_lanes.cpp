// What a warp's reads through sources give, and what they are metered as: elements of whole lines, of every other line, of
// pages that are kept, of none. Prints the first check that goes wrong.
#include <cstdio>
#include <vector>

#include "hinterland/memory/source.hpp"

using namespace hinterland;

namespace {

constexpr int64_t kPages = 3, kCount = kPages * memory::kPageElements;

struct alignas(kLineBytes) Line {
  int32_t element[kLineBytes / sizeof(int32_t)];
};

// What all lanes counted: requests of 32, 64, 96 and 128 bytes, elements, and their bytes.
struct Totals {
  int64_t home[6], kept[6];

  bool operator==(const Totals&) const = default;
};

template <class At>
Totals read_all(const memory::Paged<int32_t>& source, const std::vector<int32_t>& expected, const At& at_of, bool& right) {
  Totals found{};
  Lanes::run([&] {
    memory::Meter meter;
    int64_t at[2];
    int32_t to[2];
    for (int k = 0; k < 2; ++k) at[k] = at_of(k, Warp::lane());
    source.read(at, to, meter);
    bool same = true;
    for (int k = 0; k < 2; ++k) same &= to[k] == (at[k] == memory::kNowhere ? 0 : expected[at[k]]);
    const auto sum = [](const memory::TierCount& count, int64_t (&to)[6]) {
      for (int i = 0; i < 4; ++i) to[i] = Warp::sum(count.requests[i]);
      to[4] = Warp::sum(count.hits), to[5] = Warp::sum(count.useful);
    };
    Totals sums;
    sum(meter.home, sums.home), sum(meter.kept, sums.kept);
    const bool all_same = !Warp::any(!same);
    if (Warp::lane() != 0) return;
    right &= all_same;
    found = sums;
  });
  return found;
}

}  // namespace

int main() {
  std::vector<Line> lines(kCount * sizeof(int32_t) / kLineBytes);
  int32_t* const home = lines[0].element;
  std::vector<int32_t> expected(kCount);
  for (int64_t i = 0; i < kCount; ++i) expected[i] = home[i] = static_cast<int32_t>(7 * i + 1);
  // The second page is kept, and no longer at home.
  std::vector<int32_t> kept(home + memory::kPageElements, home + 2 * memory::kPageElements), slots{-1, 0, -1};
  for (int64_t i = memory::kPageElements; i < 2 * memory::kPageElements; ++i) home[i] = -1;
  const memory::Paged<int32_t> paged({home, kept.data(), slots.data(), nullptr}, kCount);
  const int64_t page = memory::kPageElements;

  bool right = true;
  const auto none = [](int, int64_t) { return memory::kNowhere; };
  const auto lines_of = [](int k, int64_t lane) { return 32 * k + lane; };
  const auto every_other_sector = [](int k, int64_t lane) { return k == 0 ? 16 * lane : memory::kNowhere; };
  const auto one_for_all = [](int k, int64_t) { return k == 0 ? int64_t{5} : memory::kNowhere; };
  const auto half = [&](int k, int64_t lane) { return lane < 16 ? (k == 0 ? lane : page + lane) : memory::kNowhere; };
  const auto across = [](int k, int64_t lane) { return k == 0 ? 16 + lane : memory::kNowhere; };
  const auto back_and_forth = [](int k, int64_t lane) { return k == 0 ? 8 * (lane % 2) : memory::kNowhere; };
  const auto some_lanes = [](int k, int64_t lane) { return k == 0 && lane % 8 == 3 ? 4 * lane : memory::kNowhere; };
  const struct {
    const char* name;
    Totals found, expected;
  } checks[] = {
      {"nothing", read_all(paged, expected, none, right), {}},
      {"whole lines", read_all(paged, expected, lines_of, right), {{0, 0, 0, 2, 64, 256}, {}}},
      {"every other sector", read_all(paged, expected, every_other_sector, right), {{0, 16, 0, 0, 32, 128}, {}}},
      {"one element", read_all(paged, expected, one_for_all, right), {{1, 0, 0, 0, 32, 128}, {}}},
      {"half at home, half kept", read_all(paged, expected, half, right), {{0, 1, 0, 0, 16, 64}, {0, 1, 0, 0, 16, 64}}},
      {"across two lines", read_all(paged, expected, across, right), {{0, 2, 0, 0, 32, 128}, {}}},
      {"back and forth in a line", read_all(paged, expected, back_and_forth, right), {{0, 0, 0, 1, 32, 128}, {}}},
      {"lanes that have none between", read_all(paged, expected, some_lanes, right), {{4, 0, 0, 0, 4, 16}, {}}},
  };
  for (const auto& check : checks)
    if (!(check.found == check.expected)) {
      std::printf("%s:", check.name);
      for (const auto& part : {check.found.home, check.found.kept})
        for (int i = 0; i < 6; ++i) std::printf(" %ld", static_cast<long>(part[i]));
      std::printf("\n");
      return 1;
    }
  if (!right) std::printf("an element is not what it should be\n");
  return right ? 0 : 1;
}
