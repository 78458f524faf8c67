#include "graph/edge_runs.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <condition_variable>
#include <mutex>
#include <type_traits>

#include "core/page.hpp"
#include "core/pool.hpp"
#include "core/thresholds.hpp"
#include "graph/build.hpp"
#include "graph/row_loops.hpp"

namespace hinterland::native {

namespace {

// Bits of a row that a pass of the sort looks at: 10 to 12 are best for 20 bits, 13 for 26 (docs/notes/thresholds.md).
constexpr int kDigit = 11;

template <class Id>
struct Item {
  Id row, neighbor;
  uint32_t edge;  // whose weight it has
};

// Sorts by row: by its digits, the lowest first. Returns where the result is.
template <class Id>
Item<Id>* sort_by_row(Item<Id>* items, Item<Id>* other, int64_t count, int64_t largest) {
  for (int shift = 0; largest >> shift != 0; shift += kDigit) {
    const auto digit = [&](const Item<Id>& item) { return static_cast<uint64_t>(item.row) >> shift & ((1 << kDigit) - 1); };
    std::array<int32_t, 1 << kDigit> place{};
    for (int64_t i = 0; i < count; ++i) ++place[digit(items[i])];
    int32_t before = 0;
    for (int32_t& value : place) before += std::exchange(value, before);
    for (int64_t i = 0; i < count; ++i) other[place[digit(items[i])]++] = items[i];
    std::swap(items, other);
  }
  return items;
}

using Convert = void (*)(const uint8_t* from, void* to, int64_t slot);

template <class From, class To>
void convert(const uint8_t* from, void* to, int64_t slot) {
  From value;
  std::memcpy(&value, from, sizeof value);
  static_cast<To*>(to)[slot] = static_cast<To>(value);
}

template <class To>
Convert converter_to(WeightType from) {
  switch (from) {
    case WeightType::kInt32: return convert<int32_t, To>;
    case WeightType::kInt64: return convert<int64_t, To>;
    case WeightType::kFloat32: return convert<float, To>;
    default: return convert<double, To>;
  }
}

Convert converter(WeightType from, WeightType to) {
  switch (to) {
    case WeightType::kInt32: return converter_to<int32_t>(from);
    case WeightType::kInt64: return converter_to<int64_t>(from);
    case WeightType::kFloat32: return converter_to<float>(from);
    default: return converter_to<double>(from);
  }
}

template <class Id>
SortedRun make_run(const graph::EdgeRules& rules, const Id* sources, const Id* targets, const void* weights, WeightType type,
                   int64_t count, RunScratch& scratch) {
  const int64_t most = count * rules.directions();
  scratch.items.reserve(most * sizeof(Item<Id>));
  scratch.sorted.reserve(most * sizeof(Item<Id>));
  Item<Id>* items = scratch.items.as<Item<Id>>();
  int64_t entries = 0, last_row = 0;
  uint64_t rows = 0, neighbors = 0;
  bool ascend = true;
  for (int64_t i = 0; i < count; ++i) {
    for (int direction = 0; direction < rules.directions(); ++direction) {
      const graph::RowEntry entry = row_entry(rules, graph::Edge{sources[i], targets[i]}, direction);
      if (!entry.kept) continue;
      items[entries++] = {static_cast<Id>(entry.row), static_cast<Id>(entry.neighbor), static_cast<uint32_t>(i)};
      rows |= entry.row;
      neighbors |= entry.neighbor;
      ascend = ascend && last_row <= entry.row;
      last_row = entry.row;
    }
  }
  if (!ascend) items = sort_by_row(items, scratch.sorted.as<Item<Id>>(), entries, static_cast<int64_t>(rows));

  const int neighbor_bytes = std::max(static_cast<int>(std::bit_width(neighbors) + 7) / 8, 1);
  const int64_t weight = weight_bytes(type);
  scratch.bytes.reserve(entries * (10 + neighbor_bytes + weight) + SortedRun::kPadding);
  uint8_t* const begin = scratch.bytes.as<uint8_t>();
  uint8_t* at = begin;
  std::vector<SortedRun::Mark> marks;
  marks.reserve(ceil_div(entries, SortedRun::kMarkEvery));
  int64_t row = 0;
  for (int64_t i = 0; i < entries; ++i) {
    if (i % SortedRun::kMarkEvery == 0) marks.push_back({row, at - begin});
    uint64_t distance = items[i].row - row;
    row = items[i].row;
    for (; distance > 127; distance >>= 7) *at++ = static_cast<uint8_t>(distance | 128);
    *at++ = static_cast<uint8_t>(distance);
    const uint64_t neighbor = items[i].neighbor;
    std::memcpy(at, &neighbor, sizeof neighbor);
    at += neighbor_bytes;
    if (weight != 0) std::memcpy(at, static_cast<const char*>(weights) + items[i].edge * weight, weight);
    at += weight;
  }
  GrowingBytes bytes;
  bytes.reserve(at - begin + SortedRun::kPadding);
  std::copy(begin, at, bytes.as<uint8_t>());
  return {std::move(bytes), at - begin, entries, std::move(marks), neighbor_bytes, type};
}

}  // namespace

int64_t SortedRun::mark_before(int64_t row) const {
  const auto behind = std::partition_point(marks_.begin(), marks_.end(), [&](const Mark& mark) { return mark.row < row; });
  return std::max<int64_t>(behind - marks_.begin() - 1, 0);
}

void SortedRun::release(int64_t mark) {
  const int64_t end = marks_[mark].offset / page_bytes() * page_bytes();
  if (end <= released_) return;
  ::madvise(bytes_.as<char>() + released_, end - released_, MADV_DONTNEED);
  released_ = end;
}

template <class Id>
std::vector<SortedRun> make_runs(const graph::EdgeRules& rules, const Id* sources, const Id* targets, const void* weights,
                                 WeightType type, int64_t count, RunScratch& scratch) {
  std::vector<SortedRun> runs;
  const int64_t most = ceil_div(count, kRunEdges);
  for (int64_t i = 0; i < most; ++i) {
    const int64_t begin = count * i / most, end = count * (i + 1) / most;
    const char* const first = static_cast<const char*>(weights) + begin * weight_bytes(type);
    SortedRun run = make_run(rules, sources + begin, targets + begin, first, type, end - begin, scratch);
    if (run.entries() > 0) runs.push_back(std::move(run));
  }
  return runs;
}

template std::vector<SortedRun> make_runs(const graph::EdgeRules&, const int32_t*, const int32_t*, const void*, WeightType,
                                          int64_t, RunScratch&);
template std::vector<SortedRun> make_runs(const graph::EdgeRules&, const int64_t*, const int64_t*, const void*, WeightType,
                                          int64_t, RunScratch&);

void EdgeRuns::append(std::vector<SortedRun> runs) {
  for (SortedRun& run : runs) {
    first_.push_back(first_.back() + run.entries());
    nbytes_ += run.nbytes();
    runs_.push_back(std::move(run));
  }
}

bool EdgeRuns::all_exact() const {
  std::atomic<bool> exact{true};
  parallel_for(
      static_cast<int64_t>(runs_.size()),
      [&](int64_t run) {
        const WeightType type = runs_[run].weights();
        if (type != WeightType::kInt32 && type != WeightType::kInt64) return;
        const Convert read = converter(type, WeightType::kInt64);
        runs_[run].read(0, [&](int64_t, int64_t, const uint8_t* weight) {
          int64_t value;
          read(weight, &value, 0);
          const bool fits = static_cast<double>(static_cast<float>(value)) == static_cast<double>(value);
          if (!fits) exact = false;
          return fits;
        });
      },
      1);
  return exact;
}

void EdgeRuns::scatter(int64_t* indptr, int64_t vertices, NeighborArray neighbors, WeightArray to, WeightType type) {
  const int64_t threads = num_threads();
  const int64_t parts = std::clamp<int64_t>(entries() / kPartEntries, 1, kPartsPerThread * threads);
  // Of each part its first row; about as many entries in each.
  std::vector<int64_t> row(parts + 1, 0);
  for (int64_t i = 1; i < parts; ++i) {
    const int64_t before = static_cast<int64_t>(static_cast<double>(entries()) / parts * i);
    row[i] = std::upper_bound(indptr, indptr + vertices, before) - indptr;
  }
  row.back() = vertices;

  std::mutex of_front;
  std::condition_variable moved;
  std::vector<bool> done(parts);
  int64_t front = 0;  // the first part that is not done: the entries before it are not read again
  const int64_t lead = std::max(parts / kHeldTwice, threads);
  std::vector<std::mutex> of_slice(threads);
  // Each part gives memory of its slice of the runs back, so that nobody waits for others.
  const auto finish = [&](int64_t part) {
    std::unique_lock lock(of_front);
    done[part] = true;
    while (front < parts && done[front]) ++front;
    const int64_t end = row[front];
    lock.unlock();
    moved.notify_all();
    const int64_t slice = part % threads;
    const std::lock_guard alone(of_slice[slice]);
    for (size_t run = slice; run < runs_.size(); run += threads) runs_[run].release(runs_[run].mark_before(end));
  };
  with_neighbors(neighbors, [&](auto* out) {
    using Id = std::remove_reference_t<decltype(*out)>;
    const auto fill = [&](int64_t part) {
      const int64_t begin = row[part], end = row[part + 1];
      for (size_t i = 0; begin < end && i < runs_.size(); ++i) {
        const SortedRun& run = runs_[i];
        const Convert store = type == WeightType::kNone ? nullptr : converter(run.weights(), type);
        run.read(run.mark_before(begin), [&](int64_t at, int64_t neighbor, const uint8_t* weight) {
          if (at >= end) return false;
          if (at < begin) return true;
          const int64_t slot = --indptr[at];
          out[slot] = static_cast<Id>(neighbor);
          if (store != nullptr) store(weight, to.data, slot);
          return true;
        });
      }
    };
    std::atomic<int64_t> next{0};  // handed out in order, so that somebody works on the front whoever waits
    parallel_team(static_cast<int>(std::min(threads, parts)), [&] {
      for (int64_t part; (part = next.fetch_add(1)) < parts;) {
        {
          std::unique_lock lock(of_front);
          moved.wait(lock, [&] { return part < front + lead; });
        }
        fill(part);
        finish(part);
      }
    });
  });
  runs_.clear();
  first_ = {0};
  nbytes_ = 0;
}

}  // namespace hinterland::native
