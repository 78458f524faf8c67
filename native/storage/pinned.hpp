// Pages that stay in a store's frames, whatever else is read, as long as this lives (StorageArray.pin).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/owner.hpp"
#include "storage/turn.hpp"

namespace hinterland::native {

class Pinned {
 public:
  // Reads the pages, which ascend and are of one file. OutOfMemory: there is no room for so many; StorageError: one cannot be
  // read. Nothing stays then.
  Pinned(PageCache& cache, std::vector<storage::Page> pages);
  ~Pinned() { release(); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

  void release();  // In a forked process nothing: the pages are its parent's

  int64_t pages() const { return static_cast<int64_t>(slots_.size()); }
  // Those for which a set had no room any more: they come and go as others do.
  int64_t left_out() const { return left_out_; }

 private:
  void read(const std::vector<storage::Page>& pages);

  const Owner owner_;
  PageCache& cache_;
  std::optional<InUse> file_;  // stays open
  std::vector<int64_t> slots_;
  int64_t left_out_ = 0;
};

}  // namespace hinterland::native
