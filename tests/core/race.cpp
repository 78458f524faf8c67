// Many threads add to one number, in the loops of the native module: with RACES as plain memory, which ThreadSanitizer must
// find, and otherwise atomically, in which it must find nothing.
#include <atomic>
#include <cstdio>
#include <thread>

#include "core/pool.hpp"
#include "core/team.hpp"

using namespace hinterland;

namespace {

void add(int64_t& sum, int64_t n) {
  if constexpr (RACES) {
    sum += n;
  } else {
    atomic_add(sum, n);
  }
}

// Where a loop's first two threads wait for each other: on a busy core the caller often does a short loop before another comes.
// All is relaxed: what orders threads hides their races.
class Meeting {
 public:
  void wait() {
    static thread_local char self;
    char* first = nullptr;
    if (!first_.compare_exchange_strong(first, &self, std::memory_order_relaxed) && first != &self)
      met_.store(true, std::memory_order_relaxed);
    while (!met_.load(std::memory_order_relaxed)) std::this_thread::yield();
  }

 private:
  std::atomic<char*> first_{nullptr};
  std::atomic<bool> met_{false};
};

}  // namespace

int main() {
  int64_t sum = 0;
  native::ThreadTeam team;
  Meeting meetings[3];
  const auto meet_and_add = [&](Meeting& meeting, int64_t n) {
    meeting.wait();
    add(sum, n);
  };
  team.static_for(1000, [&](const auto& each) { each([&](int64_t i, int64_t end) { meet_and_add(meetings[0], end - i); }); });
  team.dynamic_for(1000, [&](const auto& each) { each([&](int64_t) { meet_and_add(meetings[1], 1); }); });
  native::parallel_for(1000, [&](int64_t) { meet_and_add(meetings[2], 1); }, 10);
#pragma omp parallel for reduction(+ : sum)
  for (int64_t i = 0; i < 1000; ++i) sum += i;
  std::printf("%lld\n", static_cast<long long>(sum));
  return RACES || sum == 3000 + 499500 ? 0 : 1;
}
