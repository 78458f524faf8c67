// What a warp's reads through sources give, and what they are metered as: elements of whole lines, of every other line, of pages that
// are kept, of none. Prints the first check that goes wrong.
#include <cstdio>
#include <vector>

#include "hinterland/memory/source.hpp"

using namespace hinterland;

namespace {

constexpr int64_t kPages = 3, kCount = kPages * memory::kPageElements;

struct alignas(kLineBytes) Line {
  int32_t element[kLineBytes / sizeof(int32_t)];
};

// What all lanes counted.
struct Totals {
  int64_t home[3], kept[3];

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
    const int64_t counts[] = {meter.home.bytes, meter.home.requests, meter.home.hits,
                              meter.kept.bytes, meter.kept.requests, meter.kept.hits};
    int64_t sums[6];
    for (int i = 0; i < 6; ++i) sums[i] = Warp::sum(counts[i]);
    const bool all_same = !Warp::any(!same);
    if (Warp::lane() != 0) return;
    right &= all_same;
    found = {{sums[0], sums[1], sums[2]}, {sums[3], sums[4], sums[5]}};
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
  const struct {
    const char* name;
    Totals found, expected;
  } checks[] = {
      {"nothing", read_all(paged, expected, none, right), {{0, 0, 0}, {0, 0, 0}}},
      {"whole lines", read_all(paged, expected, lines_of, right), {{256, 2, 64}, {0, 0, 0}}},
      {"every other sector", read_all(paged, expected, every_other_sector, right), {{1024, 16, 32}, {0, 0, 0}}},
      {"one element", read_all(paged, expected, one_for_all, right), {{32, 1, 32}, {0, 0, 0}}},
      {"half at home, half kept", read_all(paged, expected, half, right), {{64, 1, 16}, {64, 1, 16}}},
      {"across two lines", read_all(paged, expected, across, right), {{128, 2, 32}, {0, 0, 0}}},
  };
  for (const auto& check : checks)
    if (!(check.found == check.expected)) {
      std::printf("%s: %ld %ld %ld at home, %ld %ld %ld kept\n", check.name, static_cast<long>(check.found.home[0]),
                  static_cast<long>(check.found.home[1]), static_cast<long>(check.found.home[2]),
                  static_cast<long>(check.found.kept[0]), static_cast<long>(check.found.kept[1]),
                  static_cast<long>(check.found.kept[2]));
      return 1;
    }
  if (!right) std::printf("an element is not what it should be\n");
  return right ? 0 : 1;
}
