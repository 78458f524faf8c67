// Which batches of rows are known to come (StorageArray.expect), and which of them needs a page next: the cache then gives away
// what is needed last (storage::Belady). Batches have numbers, the next of which goes on from the last.
//
// A batch is known again by its rows, in whatever order it asks for them. What comes between is none and changes nothing; one
// that comes before its turn passes over those before it.
#pragma once

#include <atomic>
#include <cstdint>
#include <shared_mutex>
#include <span>
#include <vector>

#include "hinterland/storage/cache.hpp"

namespace hinterland::native {

// The same for the same row numbers in any order, of the table whose first row lies there; not 0.
uint64_t fingerprint_of(int64_t table, std::span<const int64_t> rows);

class Expected {
 public:
  static constexpr int64_t kNoBatch = -1;

  explicit Expected(int64_t slots) : next_uses_(static_cast<size_t>(slots)) {}

  storage::Belady policy() { return {next_uses_.data(), &now_}; }

  // Batches as they are told, in their order.
  class Told {
   public:
    // They take no more than so many bytes, and twice that while they are put in order.
    explicit Told(int64_t bytes);
    // Its pages, which ascend. False: there is no room for them.
    bool add(const std::vector<storage::Page>& pages, uint64_t fingerprint);

   private:
    friend class Expected;
    size_t most_;
    std::vector<uint64_t> uses_, fingerprints_;
  };

  // These are expected from now on, and no others. Their pages may lie in slots already: `words` are theirs.
  void replace(Told told, std::span<uint64_t> words);

  // A batch begins that has this fingerprint: its number, or kNoBatch where none was expected.
  bool any() const { return any_.load(std::memory_order_relaxed); }
  int64_t begin(uint64_t fingerprint);
  void end(int64_t batch);

  // The page is in the slot: since now, or the batch has had it from there.
  void place(storage::Page page, int64_t slot, int64_t batch = kNoBatch);

  // What is kept of the batches takes so many.
  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  static constexpr int kBatchBits = 64 - storage::Line::kPageBits;

  uint32_t next_use(storage::Page page, int64_t from) const;
  void forget();
  void move_on();

  std::vector<uint32_t> next_uses_;
  uint32_t now_ = 1;  // current_
  std::atomic<bool> any_{false};
  std::atomic<int64_t> bytes_{0};

  std::shared_mutex mutex_;             // of what follows
  std::vector<uint64_t> uses_;          // page << kBatchBits | its batch, counted from the first: ascending
  std::vector<uint64_t> fingerprints_;  // of each batch; 0 where it has begun
  std::vector<int64_t> running_;
  int64_t first_ = 1;    // number of the first of them
  int64_t next_ = 1;     // ... of the one after the last that has begun
  int64_t current_ = 1;  // ... of the first that is not over
};

}  // namespace hinterland::native
