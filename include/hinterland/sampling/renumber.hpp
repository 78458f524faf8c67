// Vertices of a batch get numbers of their own, in order of first appearance, whoever finds them first.
//
// An open-addressing table holds, for each vertex, the least place at which it appears: an atomic minimum, so the order in
// which threads come does not show. A prefix sum over the places (prefix() below) then counts the vertices that appear first
// before each place, which is the vertex's number, and the number takes the place of the place.
#pragma once

#include "hinterland/core/atomic.hpp"
#include "hinterland/core/philox.hpp"
#include "hinterland/core/warp.hpp"

namespace hinterland::sampling {

// All bits are one where nothing is.
struct NumberEntry {
  int64_t key;
  uint64_t number;  // or kNew and a place
};

class NumberTable {
 public:
  static constexpr uint64_t kNew = uint64_t{1} << 62;  // more than any number

  // `size` is a power of two, and at least twice the vertices that will ever be entered.
  HINTERLAND_FN NumberTable(NumberEntry* entries, int64_t size) : entries_(entries), mask_(static_cast<uint64_t>(size) - 1) {}

  // Enters `key` with `number`, or lowers the number that it has. Returns where it is.
  HINTERLAND_FN int64_t enter(int64_t key, uint64_t number) const {
    uint64_t at = spread(static_cast<uint64_t>(key)) & mask_;
    for (;; at = (at + 1) & mask_) {
      int64_t there = atomic_load(entries_[at].key);
      if (there == kEmpty) there = atomic_cas(entries_[at].key, kEmpty, key);
      if (there == kEmpty || there == key) break;
    }
    if (atomic_load(entries_[at].number) > number) atomic_min(entries_[at].number, number);
    return static_cast<int64_t>(at);
  }

  HINTERLAND_FN int64_t key(int64_t at) const { return entries_[at].key; }
  HINTERLAND_FN uint64_t number(int64_t at) const { return atomic_load(entries_[at].number); }
  HINTERLAND_FN void set_number(int64_t at, uint64_t number) const { atomic_store(entries_[at].number, number); }

 private:
  static constexpr int64_t kEmpty = -1;

  // Fibonacci hashing (Knuth, volume 3, section 6.4); the low bits of the product know only the low bits of the key.
  HINTERLAND_FN static uint64_t spread(uint64_t key) {
    const uint64_t product = key * 0x9E3779B97F4A7C15ull;
    return product ^ product >> 32;
  }

  NumberEntry* entries_;
  uint64_t mask_;
};

// Items in equal parts, few enough for each part to add up what those before it counted.
struct Tiles {
  static constexpr int64_t kRoom = 1024;  // what `sums` has place for, whoever runs it
#if defined(__CUDACC__)
  static constexpr int64_t kMost = kRoom;
#else
  static constexpr int64_t kMost = 256;
#endif

  int64_t items, size, count;

  HINTERLAND_FN explicit Tiles(int64_t items)
      : items(items),
        size(max_of<int64_t>(ceil_div(items, kMost), Warp::kWidth)),
        count(max_of<int64_t>(ceil_div(items, size), 1)) {}

  HINTERLAND_FN int64_t begin(int64_t tile) const { return tile * size; }
  HINTERLAND_FN int64_t end(int64_t tile) const { return min_of(items, (tile + 1) * size); }
};

// put(i, n, before) for each item i: n = count(i), and the sum of all counts before it; `total` gets the sum of all. The lanes
// of a warp take an item each. `sums` has place for Tiles::kRoom numbers.
template <class Team, class Count, class Put>
HINTERLAND_FN void prefix(Team& team, int64_t items, int64_t* sums, int64_t& total, const Count& count, const Put& put) {
  const Tiles tiles(items);
  team.dynamic_for(tiles.count, [&](const auto& each) {
    each([&](int64_t tile) {
      int64_t own = 0;
      for (int64_t i = tiles.begin(tile) + Warp::lane(); i < tiles.end(tile); i += Warp::kWidth) own += count(i);
      own = Warp::sum(own);
      if (Warp::lane() == 0) sums[tile] = own;
    });
  });
  team.dynamic_for(tiles.count, [&](const auto& each) {
    each([&](int64_t tile) {
      int64_t before = 0;
      for (int64_t i = Warp::lane(); i < tile; i += Warp::kWidth) before += sums[i];
      before = Warp::sum(before);
      for (int64_t first = tiles.begin(tile); first < tiles.end(tile); first += Warp::kWidth) {
        const int64_t i = first + Warp::lane();
        const bool there = i < tiles.end(tile);
        const int64_t own = there ? count(i) : 0, of_lanes = Warp::exclusive_sum(own);
        if (there) put(i, own, before + of_lanes);
        before += Warp::broadcast(of_lanes + own, Warp::kWidth - 1);
      }
      if (tile == tiles.count - 1 && Warp::lane() == 0) total = before;
    });
  });
}

}  // namespace hinterland::sampling
