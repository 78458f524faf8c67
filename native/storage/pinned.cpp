#include "storage/pinned.hpp"

#include <algorithm>

#include "core/errors.hpp"

namespace hinterland::native {

using storage::Page, storage::Try;

Pinned::Pinned(PageCache& cache, std::vector<Page> pages) : cache_(cache) {
  if (pages.empty()) return;
  if (static_cast<int64_t>(pages.size()) > cache.kept().most())
    throw OutOfMemory("these rows lie in " + std::to_string(pages.size()) + " pages: " + cache.kept().most_sentence());
  file_.emplace(cache, pages.front());
  try {
    read(pages);
  } catch (...) {
    release();
    throw;
  }
}

// One after the other is kept, while those that follow are read.
void Pinned::read(const std::vector<Page>& pages) {
  const size_t most_ahead = static_cast<size_t>(std::max<int64_t>(cache_.num_slots() / 8, 1));
  size_t asked = 0;
  Waiting waiting(cache_);
  for (size_t next = 0; next < pages.size();) {
    {
      Turn turn(*file_);
      for (asked = std::max(asked, next); asked < std::min(next + most_ahead, pages.size()); ++asked)
        if (const Try outcome = turn.prefetch(pages[asked]).outcome; outcome == Try::kFull || outcome == Try::kRefused) break;
    }
    const storage::CacheLookup found = cache_.try_acquire(pages[next]);
    if (found.outcome == Try::kFailed) cache_.throw_unread(pages[next], cache_.lines().status(found.slot));
    if (found.outcome == Try::kHeld) {
      cache_.kept().keep(found.slot) ? slots_.push_back(found.slot) : void(++left_out_);
      ++next;
      waiting.got_on();
    } else {
      if (found.slot < 0 && waiting.is_long()) cache_.require_room(pages[next]);
      waiting.wait();
    }
  }
}

void Pinned::release() {
  if (!owner_.is_here()) return;
  for (const int64_t slot : slots_) cache_.kept().let_go(slot);
  slots_.clear();
  file_.reset();
}

}  // namespace hinterland::native
