#include "storage/read_ahead.hpp"

#include <utility>

namespace hinterland::native {

using storage::Page, storage::Try;

void ReadAhead::begin(std::vector<Page> pages) {
  if (pages.empty()) return;
  // More would make room by giving away what has just come.
  const auto most = static_cast<size_t>(cache_.num_slots() / 2);
  if (pages.size() > most) pages.resize(most);
  const std::lock_guard held(mutex_);
  if (!reader_.joinable()) reader_ = std::jthread([this](std::stop_token stops) { serve(stops); });
  asked_.push_back(std::move(pages));
  has_more_.notify_one();
}

void ReadAhead::serve(std::stop_token stops) {
  std::unique_lock held(mutex_);
  while (has_more_.wait(held, stops, [&] { return !asked_.empty(); })) {
    const std::vector<Page> pages = std::move(asked_.front());
    asked_.pop_front();
    held.unlock();
    for (const Page page : pages)
      for (uint32_t round = 0; !stops.stop_requested(); ++round) {
        const Try outcome = cache_.prefetch(page).outcome;
        if ((outcome != Try::kFull && outcome != Try::kRefused) || !cache_.is_open(page)) break;
        cache_.progress(round);
      }
    // Until they have come, or there are more: perhaps nobody else looks after them.
    held.lock();
    for (uint32_t round = 0; !stops.stop_requested() && asked_.empty() && cache_.rings().in_flight(); ++round) {
      held.unlock();
      cache_.progress(round);
      held.lock();
    }
  }
}

}  // namespace hinterland::native
