#include "storage/turn.hpp"

#include <algorithm>

#include "core/errors.hpp"

namespace hinterland::native {

using storage::Found, storage::Page, storage::Try;

namespace {

constexpr auto kPatience = std::chrono::milliseconds(100);  // for others to make room; chosen, not measured
constexpr auto kLongestWait = std::chrono::seconds(60);     // for one page: a disk that answers takes milliseconds

}  // namespace

int64_t InUse::bytes_in(Page page) const {
  const int64_t line = int64_t{1} << cache_.line_shift();
  return std::min(line, volume_.bytes() - (static_cast<int64_t>(page - volume_.first) << cache_.line_shift()));
}

Found Turn::prefetch(Page page) {
  const Found found = device_.cache.lines().look(page);
  return found.slot < 0 ? device_.cache.bring(page, device_) : found;
}

Found Turn::try_fill(Page page) {
  const Found found = device_.cache.lines().try_fill(page, device_);
  if (found.outcome == Try::kStarted) device_.cache.expected().place(page, found.slot);
  return found;
}

bool Turn::has_room(Page page) {
  if (device_.has_room(page)) return true;
  if (device_.ring != nullptr) device_.cache.end_some(*device_.ring);
  return device_.has_room(page);
}

bool Waiting::is_long() const { return std::chrono::steady_clock::now() - since_ > kPatience; }

void Waiting::wait() {
  if (std::chrono::steady_clock::now() - since_ > kLongestWait)
    throw StorageError("the disk has not answered for a minute; see the system's log (dmesg)");
  cache_.progress(round_++);
}

}  // namespace hinterland::native
