#include "storage/host_pages.hpp"

#include <algorithm>
#include <cerrno>

#include "core/errors.hpp"
#include "core/parallel.hpp"
#include "core/thresholds.hpp"
#include "hinterland/storage/nvme.hpp"
#include "storage/team.hpp"

namespace hinterland::native {

using storage::CacheLookup, storage::Page, storage::Try;

namespace {

constexpr uint64_t kLongestWait = 60'000'000'000;

// Within some milliseconds, which costs less than to know it exactly.
uint64_t about_now() { return static_cast<uint64_t>(clock_ns(CLOCK_MONOTONIC_COARSE)); }

}  // namespace

HostPages::HostPages(PageCache& cache)
    : cache_(cache), num_counts_(static_cast<size_t>(cache.rings().size())), counts_(new Counts[num_counts_]) {}

CacheLookup HostPages::start(Page page) const {
  const CacheLookup found = cache_.try_acquire(page);
  if (found.outcome == Try::kHeld) counts().holds.fetch_add(1, std::memory_order_relaxed);
  if (found.outcome == Try::kStarted) counts().started.fetch_add(1, std::memory_order_relaxed);
  return found;
}

bool HostPages::prefetch(Page page) const {
  if (failed() || cache_.prefetch(page).outcome != Try::kStarted) return false;
  Counts& own = counts();
  if ((own.started.fetch_add(1, std::memory_order_relaxed) + 1) % kReadsTold != 0) return true;
  const int64_t begun = thread_cpu_ns();
  cache_.submit();
  own.cpu_ns.fetch_add(thread_cpu_ns() - begun, std::memory_order_relaxed);
  return true;
}

// A quarter of the cache for all of them, so that hardly a set has more on their way than it has room for.
int64_t HostPages::most_ahead() const {
  return std::clamp<int64_t>(cache_.num_slots() / (4 * num_threads()), 1, cache_.rings().depth());
}

uint64_t HostPages::until() const { return about_now() + kLongestWait; }

bool HostPages::progress(uint32_t round, uint64_t until) const {
  const int64_t begun = thread_cpu_ns();
  cache_.progress(round);
  counts().cpu_ns.fetch_add(thread_cpu_ns() - begun, std::memory_order_relaxed);
  return about_now() < until;
}

void HostPages::begin_run() {
  const std::lock_guard held(mutex_);
  if (runs_++ == 0) failed_status_ = 0;
}

void HostPages::end_run() {
  const std::lock_guard held(mutex_);
  --runs_;
  if (failed()) cache_.throw_unread(failed_page_, failed_status_);
}

void HostPages::fail(Page page, uint32_t status) const {
  const std::lock_guard held(mutex_);
  if (failed()) return;
  failed_page_ = page;
  failed_status_ = status == storage::kAbortedByHost ? ETIMEDOUT : status == 0 ? EIO : status;
}

void HostPages::add_to(StoreCounts& to) const {
  for (size_t i = 0; i < num_counts_; ++i) {
    const Counts& some = counts_[i];
    const int64_t started = some.started.load(std::memory_order_relaxed);
    to.hits += some.holds.load(std::memory_order_relaxed) - started;  // a page that was read for somebody is held once more
    to.misses += started;
    to.cpu_ns += some.cpu_ns.load(std::memory_order_relaxed);
  }
}

}  // namespace hinterland::native
