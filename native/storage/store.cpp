#include "storage/store.hpp"

#include "core/errors.hpp"

namespace hinterland::native {

Store::Store(int64_t bytes, int64_t line_bytes, int threads, unsigned depth, Engine engine)
    : bytes(bytes),
      frames(bytes, line_bytes, PageCache::kWays, PageCache::kSlotBytes + Volumes::kSlotBytes),
      rings(threads, depth, engine),
      volumes(rings, frames),
      cache(frames, rings, volumes) {}

void Store::require_same_process() const {
  if (!is_own()) throw StorageError("this array was opened before the process was forked; open it anew in the new process");
}

StoreCounts Store::counts() {
  StoreCounts counts{};
  rings.add_to(counts);
  cache.add_to(counts);
  host_pages.add_to(counts);
  return counts;
}

}  // namespace hinterland::native
