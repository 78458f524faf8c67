// Sums as MGG's kernel makes them for its rival, against plain loops: threads and warps, pairs and partitions apart, rows of all
// widths, read by each of its ways. Prints the first seed that goes wrong.
#include <algorithm>
#include <cstdio>
#include <random>
#include <vector>

#include "../../benchmarks/_fullgraph_mgg.hpp"

using namespace hinterland;
using namespace hinterland::benchmarks;

namespace {

struct Held {
  std::vector<int32_t> rows, begins, ends;

  Partitions view() const { return {rows.data(), begins.data(), ends.data(), static_cast<int64_t>(rows.size())}; }
  void cut(int32_t row, int32_t begin, int32_t end, int32_t ps) {
    for (int32_t at = begin; at < end; at += ps)
      rows.push_back(row), begins.push_back(at), ends.push_back(std::min(at + ps, end));
  }
};

struct Case {
  int64_t rows, width;
  Held local, remote;
  std::vector<uint32_t> places;
  std::vector<float> x[2], wanted;  // of two owners; this one is the second
};

uint32_t place(std::mt19937& random, uint32_t owner, int64_t rows) {
  return owner << fullgraph::kRowBits32 | static_cast<uint32_t>(random() % rows);
}

Case random_case(std::mt19937& random, int32_t ps) {
  Case c;
  c.rows = 1 + random() % 12, c.width = 4 * (1 + random() % 24);
  for (auto& x : c.x)
    for (int64_t i = 0; i < c.rows * c.width; ++i) x.push_back(static_cast<int>(random() % 9) - 4);
  for (int64_t row = 0; row < c.rows; ++row) {
    const auto begin = static_cast<int32_t>(c.places.size());
    const int local = random() % 3 == 0 ? 0 : random() % 30, remote = random() % 3 == 0 ? 0 : random() % 30;
    for (int i = 0; i < local; ++i) c.places.push_back(place(random, 1, c.rows));
    for (int i = 0; i < remote; ++i) c.places.push_back(place(random, 0, c.rows));
    c.local.cut(row, begin, begin + local, ps), c.remote.cut(row, begin + local, begin + local + remote, ps);
    for (int64_t at = 0; at < c.width; ++at) {
      float sum = 0;
      for (size_t i = begin; i < c.places.size(); ++i)
        sum += c.x[c.places[i] >> fullgraph::kRowBits32][(c.places[i] & 0xfffffff) * c.width + at];
      c.wanted.push_back(sum);
    }
  }
  return c;
}

// What one block's remote partitions name, each place once.
struct Common {
  std::vector<int64_t> begins{0};
  std::vector<uint32_t> places;
  std::vector<int32_t> slots;
  int64_t most = 0;

  Common(const Case& c, int64_t blocks, int64_t workers, int64_t remote_from, int64_t dist) : slots(c.places.size(), -1) {
    for (int64_t block = 0; block < blocks; ++block) {
      std::vector<uint32_t> here;
      const auto each = [&](const auto& use) {
        for (int64_t j = 0; j < static_cast<int64_t>(c.remote.rows.size()); ++j)
          if ((remote_from + j / dist) / workers == block)
            for (int32_t i = c.remote.begins[j]; i < c.remote.ends[j]; ++i) use(i);
      };
      each([&](int32_t i) { here.push_back(c.places[i]); });
      std::sort(here.begin(), here.end());
      here.erase(std::unique(here.begin(), here.end()), here.end());
      each([&](int32_t i) {
        slots[i] = static_cast<int32_t>(std::lower_bound(here.begin(), here.end(), c.places[i]) - here.begin());
      });
      places.insert(places.end(), here.begin(), here.end());
      begins.push_back(static_cast<int64_t>(places.size())), most = std::max(most, static_cast<int64_t>(here.size()));
    }
  }
};

template <int kChunks, int kAhead, Loads kLoads>
bool agrees(std::mt19937& random, int lanes) {
  const Case c = random_case(random, 1 + random() % 20);
  std::vector<float> out(c.rows * c.width);
  const char* const owners[] = {reinterpret_cast<const char*>(c.x[0].data()), reinterpret_cast<const char*>(c.x[1].data())};
  MggParams p{};
  p.local = c.local.view(), p.remote = c.remote.view(), p.places = c.places.data(), p.out = out.data(), p.width = c.width;
  p.from.own = {owners[1], c.width * static_cast<int64_t>(sizeof(float))}, p.from.owners = owners, p.from.reader = 1;
  p.lanes = lanes, p.across = lanes == 1 ? 1 : 1 << random() % 6, p.dist = 1 + random() % 3, p.depth = 1 + random() % 3;
  const int64_t local = ceil_div(p.local.count, p.dist);
  p.remote_from = random() % 2 ? local : 0;
  const int64_t workers = 32 / lanes;  // of a block of one warp
  const int64_t blocks = ceil_div(std::max(local, p.remote_from + ceil_div(p.remote.count, p.dist)), workers);
  const Common common(c, blocks, workers, p.remote_from, p.dist);
  p.common_begins = common.begins.data(), p.common = common.places.data(), p.slots = common.slots.data();
  std::vector<Quad> staged(std::max<int64_t>(p.depth * kChunks * 32, common.most * p.across * kChunks));
  for (int64_t block = 0; block < blocks; ++block)
    Lanes::run([&] {
      const int thread = Warp::lane();
      MggLane<kChunks, kAhead, kLoads>(p, thread, 32, staged.data())(block, block * workers + thread / lanes);
    });
  return out == c.wanted;
}

}  // namespace

int main() {
  for (unsigned seed = 0; seed < Lanes::rounds(24); ++seed) {
    std::mt19937 random(seed);
    if (!agrees<1, 1, Loads::kPlain>(random, 32) || !agrees<2, 8, Loads::kPlain>(random, 32) ||
        !agrees<2, 4, Loads::kPlain>(random, 1) || !agrees<1, 1, Loads::kStaged>(random, 32) ||
        !agrees<2, 1, Loads::kStaged>(random, 32) || !agrees<1, 1, Loads::kStaged>(random, 1) ||
        !agrees<1, 1, Loads::kCommon>(random, 32) || !agrees<2, 1, Loads::kCommon>(random, 32)) {
      std::printf("seed %u\n", seed);
      return 1;
    }
  }
}
