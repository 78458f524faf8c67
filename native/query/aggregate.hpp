// Aggregates on the CPU, for each group of rows.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "hinterland/query/aggregate.hpp"

namespace hinterland::native {

inline constexpr int64_t kMostGroups = 65536;

// Keys of groups, numbered in the order in which they came. A key is a word for each column, and one whose bits say which are null.
class Keys {
 public:
  static constexpr int64_t kTooMany = -1;

  explicit Keys(int64_t words) : words_(words), slots_(64, -1) {}

  int64_t size() const { return size_; }
  int64_t words() const { return words_; }
  uint64_t hash_of(const int64_t* key) const;
  const int64_t* key(int64_t number) const { return keys_.data() + number * words_; }
  // The number of a key, which is new or known; kTooMany where it would be beyond kMostGroups.
  int64_t number_of(const int64_t* key);

 private:
  bool is_key(int64_t number, const int64_t* key) const;
  size_t slot_of(const int64_t* key) const;
  void grow();

  int64_t words_, size_ = 0;
  std::vector<int64_t> keys_;
  std::vector<int32_t> slots_;
};

// What stopped it, if anything did.
enum class Outcome : int64_t { kDone, kDamaged, kTooManyGroups };

// All groups of a query, to which blocks are added in their order.
class Groups {
 public:
  explicit Groups(int64_t keyed);
  ~Groups();
  Groups(const Groups&) = delete;
  Groups& operator=(const Groups&) = delete;

  int64_t size() const;
  Outcome add(const query::AggregateParams& params);
  // Keys, [size, keyed + 1], and totals, [size, measures].
  void copy_to(int64_t* keys, query::Total* totals) const;

 private:
  // Groups are shared out by their keys' hashes: to each share one thread at a time adds.
  static constexpr int kShareBits = 4;
  static constexpr int64_t kShares = 1 << kShareBits;

  struct Block;
  struct Worker;
  struct Share {
    explicit Share(int64_t keyed) : keys(keyed + 1) {}

    Keys keys;
    std::vector<query::Total> totals;  // [keys, measures]
    bool too_many = false;

    void add(const query::AggregateParams& params, const Block& block, int64_t share, Worker& worker);
  };

  Outcome add_span(const query::AggregateParams& params, int64_t begin, std::span<Block> blocks);

  std::vector<Share> shares_;
  std::vector<std::unique_ptr<Worker>> workers_;  // by number of the thread; of those that came
};

// Sectors of memory in which values of matching rows lie: rows [begin, end), `bits` each, of which the first lies at bit `address`.
int64_t count_sectors(const uint64_t* words, int64_t begin, int64_t end, uint64_t address, int64_t bits);

}  // namespace hinterland::native
