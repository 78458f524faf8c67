#include "storage/pinned.hpp"

#include <algorithm>

#include "core/errors.hpp"

namespace hinterland::native {

using storage::Page, storage::Try;

Pinned::Pinned(Store& store, std::vector<Page> pages) : store_(store) {
  if (pages.empty()) return;
  if (static_cast<int64_t>(pages.size()) > store.most_kept())
    throw OutOfMemory("these rows lie in " + std::to_string(pages.size()) + " pages: " + store.most_kept_sentence());
  file_.emplace(store, pages.front());
  try {
    read(pages);
  } catch (...) {
    release();
    throw;
  }
}

// One after the other is kept, while those that follow are read.
void Pinned::read(const std::vector<Page>& pages) {
  const size_t most_ahead = static_cast<size_t>(std::max<int64_t>(store_.num_slots() / 8, 1));
  size_t asked = 0;
  auto since = std::chrono::steady_clock::now();
  for (size_t next = 0, round = 0; next < pages.size();) {
    {
      Store::Turn turn(*file_);
      for (asked = std::max(asked, next); asked < std::min(next + most_ahead, pages.size()); ++asked)
        if (const Try outcome = turn.prefetch(pages[asked]).outcome; outcome == Try::kFull || outcome == Try::kRefused) break;
    }
    const storage::Found found = store_.try_hold(pages[next]);
    if (found.outcome == Try::kFailed) store_.throw_failed(pages[next], found.slot);
    if (found.outcome == Try::kHeld) {
      store_.keep(found.slot) ? slots_.push_back(found.slot) : void(++left_out_);
      ++next, round = 0, since = std::chrono::steady_clock::now();
    } else {
      Store::require_answer(since);
      if (found.slot < 0 && Store::waits_long(since)) store_.require_room(pages[next]);
      store_.progress(static_cast<uint32_t>(round++));
    }
  }
}

void Pinned::release() {
  if (!store_.is_own()) return;
  for (const int64_t slot : slots_) store_.let_go(slot);
  slots_.clear();
  file_.reset();
}

}  // namespace hinterland::native
