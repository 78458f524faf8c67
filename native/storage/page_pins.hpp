// Which pages of a cache stay in their slots, whatever else is read, and how often each is kept (Pinned).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/errors.hpp"
#include "hinterland/storage/line.hpp"

namespace hinterland::native {

class PagePins {
 public:
  // Of the slots that have these words, `ways` to a set.
  PagePins(std::span<uint64_t> words, int64_t ways, int64_t line_bytes)
      : words_(words), ways_(ways), line_bytes_(line_bytes), times_(words.size()) {}

  // Keeps the page that the caller holds in its slot, until let_go() was called as often. False: its set has no room for
  // another that stays. OutOfMemory: the cache has none. The caller holds it no more in any case. (Whoever waits must hold
  // nothing, but may keep what he likes: every set has slots whose pages nobody keeps.)
  bool keep(int64_t slot) {
    constexpr int64_t kLeft = 2;  // of a set, for all that comes and goes
    const std::lock_guard held(mutex_);
    const auto set = times_.begin() + slot / ways_ * ways_;
    const bool is_kept = times_[slot] != 0, is_too_much = !is_kept && slots_ == most();
    const bool stays = is_kept || (!is_too_much && std::count(set, set + ways_, 0u) > kLeft);
    if (is_kept || !stays) storage::release(words_[slot]);
    if (is_too_much) throw OutOfMemory(most_sentence());
    if (stays) ++times_[slot];
    slots_ += stays && !is_kept;
    return stays;
  }
  void let_go(int64_t slot) {
    const std::lock_guard held(mutex_);
    if (--times_[slot] != 0) return;
    --slots_;
    storage::release(words_[slot]);
  }

  bool has(int64_t slot) {
    const std::lock_guard held(mutex_);
    return times_[slot] != 0;
  }
  int64_t slots() const { return slots_; }  // whose pages are kept
  int64_t most() const { return static_cast<int64_t>(words_.size()) / 2; }
  std::string most_sentence() const {
    return "half of the cache may be pinned, " + std::to_string(most()) + " pages of " + std::to_string(line_bytes_) +
           " bytes, and " + std::to_string(slots_) + " are; pin fewer rows, or give the cache more room";
  }

 private:
  const std::span<uint64_t> words_;
  const int64_t ways_, line_bytes_;
  std::mutex mutex_;
  std::vector<uint32_t> times_;  // that each slot's page is kept
  std::atomic<int64_t> slots_{0};
};

}  // namespace hinterland::native
