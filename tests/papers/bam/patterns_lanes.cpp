// Every pattern has every element read once, by whatever number of threads, and asks for as many lines at a time as it says.
#include <functional>
#include <set>
#include <vector>

#include "../../storage/check.hpp"
#include "hinterland_papers/bam/patterns.hpp"

using namespace test;
using namespace hinterland::bam;

namespace {

#if defined(HINTERLAND_UNSEEN)  // tests/lanes
void run_warp(const std::function<void()>& body) { Lanes::run(body); }
#else
void run_warp(const std::function<void()>& body) { body(); }
#endif

constexpr int64_t kLine = 256;  // elements
std::vector<int> visits;
std::set<int64_t> first_lines[Warp::kWidth];  // of the elements that a lane asks for first
bool is_first;

// An array of its elements' numbers, which counts who reads them.
struct Counting {
  using Element = int64_t;
  Counting(const memory::ArrayWords&, int64_t) {}

  template <int kCount>
  void read(const int64_t (&at)[kCount], int64_t (&to)[kCount], memory::NoMeter&) const {
    for (int k = 0; k < kCount; ++k) {
      to[k] = 0;
      if (at[k] == memory::kNowhere) continue;
      CHECK(at[k] >= 0 && at[k] < static_cast<int64_t>(visits.size()), "beyond the end");
      atomic_add(visits[to[k] = at[k]], 1);
      if (is_first) first_lines[Warp::lane()].insert(at[k] / kLine);
    }
    Warp::sync();
    if (Warp::lane() == 0) is_first = false;
    Warp::sync();
  }
};
struct Family {
  template <class T>
  using Large = Counting;
};

// Returns from how many lines warps read first.
template <class Pattern>
size_t check(int64_t elements, int64_t threads, int64_t width, bool once = true) {
  visits.assign(elements, 0);
  for (auto& lines : first_lines) lines.clear();
  uint64_t sum = 0;
  const PatternParams params{{}, elements, kLine, width, elements, &sum};
  for (int64_t warp = 0; warp < threads / Warp::kWidth; ++warp) {
    is_first = true;
    run_warp([&] {
      const int64_t thread = warp * Warp::kWidth + Warp::lane();
      read_pattern<int64_t, Family, Pattern>(params, thread, thread + 1, threads);
    });
  }
  uint64_t expected = 0, all = 0;
  for (int64_t i = 0; i < elements; ++i) {
    CHECK(!once || visits[i] == 1, "element %lld was read %d times", static_cast<long long>(i), visits[i]);
    expected += static_cast<uint64_t>(visits[i]) * static_cast<uint64_t>(i), all += visits[i];
  }
  CHECK(sum == expected && all == static_cast<uint64_t>(elements), "the sum");
  std::set<int64_t> all_lines;
  for (const auto& lines : first_lines) all_lines.insert(lines.begin(), lines.end());
  return all_lines.size();
}

}  // namespace

int main() {
  for (const int64_t threads : {32, 64, 512, 1024})
    for (const int64_t elements : {1, 63, 64, 1000, 5000, 16384}) {
      check<InOrder>(elements, threads, 32);
      check<FarApart>(elements, threads, 32);
      check<HeldLines>(elements, threads, 32);
      for (const int64_t width : {1, 8, 16, 32, 64, 256}) {
        if (width <= threads) check<PerLine>(elements, threads, width), check<SeveralLines>(elements, threads, width);
        check<Strided>(elements, threads, width);
      }
      check<RandomElements>(elements, threads, 32, false);
    }
  CHECK(check<InOrder>(1 << 20, 512, 0) == 512 / kLine, "equation 6.1");
  CHECK(check<PerLine>(1 << 20, 512, 32) == 512 / 32, "equation 6.2");
  CHECK(check<HeldLines>(1 << 20, 512, 32) == 512 / 32, "a line of each warp");
  CHECK(check<PerLine>(1 << 20, 512, 16) == 512 / 16, "half warps");
  CHECK(check<PerLine>(1 << 20, 512, 256) == 4 * 512 / 256, "blocks, of four lines");
  CHECK(check<SeveralLines>(1 << 20, 512, 32) == 4 * 512 / 32, "four lines each");
  CHECK(check<Strided>(1 << 20, 512, 32) == 512 / 32, "each warp's chunk is another line's");
}
