// Batches of reads and writes of row tables by warps of 32 lanes: what they gather is what was written last, the slots that they
// resolve hold it, and after a flush so do the tables. Prints the first seed that goes wrong. Under ThreadSanitizer: no lane
// touches what another is at.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "../rounds.hpp"
#include "hinterland/memory/row_table.hpp"
#include "lane_team.hpp"

using namespace hinterland;
using namespace hinterland::memory;

namespace {

using Row = std::vector<Unit16>;

struct World {
  std::mt19937 random;
  int64_t units, capacity;
  bool lru, back;
  std::vector<int64_t> bounds;
  std::vector<Row> tables, truth;
  Row slots;
  std::vector<char*> memories;
  std::vector<int32_t> slot_of, order;
  std::vector<int64_t> row_of;
  std::vector<uint32_t> used, marked, written;
  ClockHand hand{};
  IndexFault fault{};
  RowTableParams p{};

  explicit World(unsigned seed) : random(seed) {
    units = 1 + random() % 42, capacity = random() % 40, lru = random() % 2 != 0, back = random() % 2 != 0;
    bounds = {0};
    for (unsigned t = 0; t < 1 + seed % 3; ++t) bounds.push_back(bounds.back() + 1 + random() % 50);
    capacity = std::min(capacity, bounds.back());
    for (size_t t = 0; t + 1 < bounds.size(); ++t) {
      tables.emplace_back((bounds[t + 1] - bounds[t]) * units);
      for (Unit16& unit : tables.back()) unit = {random(), random()};
      truth.push_back(tables.back());
    }
    for (Row& table : tables) memories.push_back(reinterpret_cast<char*>(table.data()));
    slots.resize(capacity * units), slot_of.assign(bounds.back(), -1), row_of.assign(capacity, -1);
    used.resize(capacity / 32 + 1), marked = written = used;
    order.resize(2 * capacity), std::iota(order.begin(), order.begin() + capacity, 0);
    p.clock = {bounds.back(),
               capacity,
               slot_of.data(),
               row_of.data(),
               used.data(),
               marked.data(),
               &hand,
               lru ? order.data() : nullptr,
               back ? written.data() : nullptr};
    p.tables = {memories.data(), bounds.data(), static_cast<int64_t>(tables.size())};
    p.slots = reinterpret_cast<char*>(slots.data()), p.row_bytes = units * 16;
    const int64_t lanes = std::min<int64_t>(std::bit_ceil(static_cast<uint64_t>(units)), 32);
    p.cut = {lanes, (units + lanes - 1) / lanes, units > 8 && units % 8 != 0};
    p.report = {&fault, nullptr};
  }

  template <RowUse kUse>
  void pass() {
    const int64_t warps = 1 + random() % 3;
    for (int64_t warp = 0; warp < warps; ++warp)
      Lanes::run([&] { move_rows<kUse, Unit16, Unit16>(p, warp * 32 + Warp::lane(), warps * 32); });
  }

  // Row numbers of all tables, each once where `unique`, some from the end and some that are none.
  std::vector<int64_t> numbers(int64_t each, bool unique) {
    std::vector<int64_t> found;
    for (size_t t = 0; t < tables.size(); ++t) {
      const int64_t rows = bounds[t + 1] - bounds[t];
      std::vector<int64_t> order(rows);
      std::iota(order.begin(), order.end(), 0), std::shuffle(order.begin(), order.end(), random);
      for (int64_t i = 0; i < each; ++i) {
        const int64_t row = unique ? (i < rows ? order[i] : rows) : static_cast<int64_t>(random() % (rows + rows / 8 + 1));
        found.push_back(row < rows && random() % 4 == 0 ? row - rows : row);
      }
    }
    return found;
  }

  template <RowUse kUse>
  bool batch() {
    const int64_t each = 1 + random() % 60, count = each * static_cast<int64_t>(tables.size());
    const std::vector<int64_t> indices = numbers(each, kUse == RowUse::kWrite);
    std::vector<int64_t> filled(count), claimed(count), left(count), sums(3 * Chunks::kMost);
    std::vector<int32_t> places(count), resolved(count, -7);
    Row rows(count * units, Unit16{1, 2});
    p.batch = {indices.data(), 8,           count,         filled.data(), claimed.data(),
               sums.data(),    left.data(), places.data(), bounds.data(), each};
    p.values = reinterpret_cast<const char*>(rows.data());
    p.out = kUse == RowUse::kResolve ? static_cast<void*>(resolved.data()) : rows.data();
    if (kUse == RowUse::kWrite)
      for (Unit16& unit : rows) unit = {random(), random()};
    fault = {};
    if (capacity > 0)
      Lanes::run([&] {
        LaneTeam team;
        admit(team, p.clock, p.batch);
      });
    pass<kUse>();
    if (kUse == RowUse::kWrite && capacity > 0 && !back) pass<RowUse::kThrough>();
    int64_t bad = 0;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = p.row(i);
      const Unit16* const here = rows.data() + i * units;
      Row want(units);
      if (row < 0) {
        ++bad;
      } else {
        Unit16* const true_row = truth[i / each].data() + (row - bounds[i / each]) * units;
        if (kUse == RowUse::kWrite) std::copy(here, here + units, true_row);
        want.assign(true_row, true_row + units);
      }
      if (kUse == RowUse::kGather && std::memcmp(here, want.data(), p.row_bytes) != 0) return false;
      if (kUse != RowUse::kResolve) continue;
      if (resolved[i] != (row < 0 || capacity == 0 ? -1 : slot_of[row])) return false;
      if (resolved[i] >= 0 && std::memcmp(p.in_slot(resolved[i]), want.data(), p.row_bytes) != 0) return false;
    }
    return fault.count == bad;
  }

  bool flushed() {
    if (back && capacity > 0) {
      p.batch.count = capacity;
      pass<RowUse::kFlush>();
      std::fill(written.begin(), written.end(), 0);
    }
    for (size_t t = 0; t < tables.size(); ++t)
      if (std::memcmp(tables[t].data(), truth[t].data(), tables[t].size() * 16) != 0) return false;
    return true;
  }
};

bool agrees(unsigned seed) {
  World world(seed);
  for (int step = 0; step < 8; ++step) {
    const unsigned kind = world.random() % 3;
    if (!(kind == 0   ? world.batch<RowUse::kGather>()
          : kind == 1 ? world.batch<RowUse::kResolve>()
                      : world.batch<RowUse::kWrite>()))
      return false;
    if ((world.random() % 4 == 0 || !world.back) && !world.flushed()) return false;
  }
  return world.flushed();
}

}  // namespace

int main() {
  for (unsigned seed = 0; seed < test::rounds(200); ++seed)
    if (!agrees(seed)) {
      std::printf("seed %u\n", seed);
      return 1;
    }
}
