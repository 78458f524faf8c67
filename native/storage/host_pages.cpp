#include "storage/host_pages.hpp"

#include <time.h>

#include <algorithm>
#include <cerrno>

#include "core/parallel.hpp"
#include "hinterland/storage/nvme.hpp"
#include "storage/store.hpp"

namespace hinterland::native {

using storage::Found, storage::Page, storage::Try;

namespace {

constexpr int64_t kTogether = 16;  // reads that the system is told of at once: chosen, not measured
constexpr uint64_t kLongestWait = 60'000'000'000;

// Within some milliseconds, which costs less than to know it exactly.
uint64_t about_now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace

Found HostPages::start(Page page) const {
  const Found found = store_.try_hold(page);
  if (found.outcome == Try::kHeld) store_.own_ring().holds.fetch_add(1, std::memory_order_relaxed);
  if (found.outcome == Try::kStarted) store_.own_ring().started.fetch_add(1, std::memory_order_relaxed);
  return found;
}

bool HostPages::prefetch(Page page) const {
  if (store_.failed() || store_.prefetch(page).outcome != Try::kStarted) return false;
  Store::Ring& ring = store_.own_ring();
  if ((ring.started.fetch_add(1, std::memory_order_relaxed) + 1) % kTogether != 0) return true;
  const int64_t begun = thread_cpu_ns();
  store_.submit();
  ring.cpu_ns.fetch_add(thread_cpu_ns() - begun, std::memory_order_relaxed);
  return true;
}

// A quarter of the cache for all of them, so that hardly a set has more on their way than it has room for.
int64_t HostPages::most_ahead() const {
  return std::clamp<int64_t>(store_.num_slots() / (4 * num_threads()), 1, store_.depth());
}

uint32_t HostPages::status(int64_t slot) const { return store_.lines_.status(slot); }

uint64_t HostPages::until() const { return about_now() + kLongestWait; }

bool HostPages::progress(uint32_t round, uint64_t until) const {
  const int64_t begun = thread_cpu_ns();
  store_.progress(round);
  store_.own_ring().cpu_ns.fetch_add(thread_cpu_ns() - begun, std::memory_order_relaxed);
  return about_now() < until;
}

void HostPages::fail(Page page, uint32_t status) const {
  store_.fail(page, status == storage::kAbortedByHost ? ETIMEDOUT : status);
}

}  // namespace hinterland::native
